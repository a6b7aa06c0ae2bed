"""Responses."""

import pytest
from werkzeug.test import create_environ, run_wsgi_app

from service.http.responses import reply


@pytest.mark.nodatabase
def test_a_server_that_has_sent_the_body_closes_the_response():
    closed = []
    response = reply(b"{}")
    response.call_on_close(lambda: closed.append(response))
    body, status, _ = run_wsgi_app(response, create_environ(), buffered=True)
    assert (list(body), status) == ([b"{}"], "200 OK")
    assert closed == [response]
