"""What the service passes to its HTTP server: the error page, the path for health, the times."""

import json
import time

import pytest
from support.openapi_check import document
from support.processes import RATE, Answer
from support.project import read

from service.speedups.http_server import gunicorn_worker
from service.speedups.server import Server, error_page
from service.web import access_log

pytestmark = pytest.mark.nodatabase


def test_the_message_of_an_error_page_has_no_line_breaks_and_injects_no_header():
    answer = Answer(error_page(400, "Invalid\r\nX: \xe9" + "\U0001f4a9", []))
    assert len(answer.headers) == 10
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert json.loads(answer.body)["message"] == "Invalid X: \xe9\U0001f4a9"


def test_an_error_page_has_the_documented_headers_including_the_limits():
    before = int(time.time())
    fault = gunicorn_worker.TIMEOUT
    answer = Answer(error_page(fault.status, fault.message, fault.fields))
    assert answer.status == 408
    assert answer.headers["connection"] == "close"
    assert answer.headers["cache-control"] == "private, no-cache"
    documented = document()["components"]["responses"]["RequestTimeout"]["headers"]
    # The web server answers before it has read the query, which could ask for a dry run.
    assert {header.lower() for header in documented} - {"dry-run"} <= set(answer.headers)
    limit, remaining, reset = (int(answer.headers[header]) for header in RATE)
    # The gate sends the same values for a request that it has not counted.
    assert (limit, remaining) == (60, 60)
    assert before + 1 <= reset <= time.time() + 2
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert json.loads(answer.body) == {
        "message": "The request did not arrive in time",
        "status": 408,
        "requestId": answer.headers["x-request-id"],
    }
    fault = gunicorn_worker.BUSY
    answer = Answer(error_page(fault.status, fault.message, fault.fields))
    assert answer.headers["retry-after"] == "1"


def test_the_page_of_errors_lists_the_timeout_and_busy_messages_of_the_http_server():
    for fault in gunicorn_worker.TIMEOUT, gunicorn_worker.BUSY:
        assert f"| {fault.status} | `{fault.message}` |" in read("service/openapi/errors.md")


def test_the_service_and_the_worker_agree_on_the_urgent_path_and_the_names_of_times():
    assert Server.urgent_path == b"/healthz"
    assert access_log.ARRIVED == gunicorn_worker.ARRIVED
    assert access_log.QUEUED == gunicorn_worker.QUEUED


def test_the_pages_state_the_limits_of_the_http_server():
    # The limit for a slot, the next tick of the worker, and half a second for the response.
    healthz = Server.TAKE_URGENT + 0.5
    pages = {
        "service/openapi/errors.md": [f"took more than {Server.READ:g} s"],
        "docs/operations/deployment.md": [
            f"closed after {Server.READ:g} s",
            f"takes it within {Server.TAKE:g} s",
            f"`/healthz` overtakes the others, and is answered within {healthz:g} s",
            f"closed {Server.WRITE:g} s after its last progress",
            f"do not run yet take at most {gunicorn_worker.MAX_PENDING / 2**20:g} MiB",
            f"clients do not read {gunicorn_worker.MAX_UNSENT / 2**20:g} MiB",
            f"at most {Server.LINGER:g} s and {gunicorn_worker.MAX_DRAIN / 2**20:g} MiB",
        ],
    }
    for page, sentences in pages.items():
        text = " ".join(read(page).split())
        assert [sentence for sentence in sentences if sentence not in text] == [], page
