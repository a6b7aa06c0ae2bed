"""The decorator of every view: one frozen object says what the view takes, returns and checks."""

from dataclasses import FrozenInstanceError

import pytest
from support.derived import by_name, views_of
from support.http import error_message
from support.rows import UNKNOWN

from service.app import create_app
from service.settings import Settings
from service.web.operation import operation_of


@pytest.mark.nodatabase
def test_the_only_attribute_of_each_view_is_a_frozen_operation():
    app = create_app(Settings.read({"LOGIN_KEY": "x" * 40, "SPEEDUPS": "off"}))
    for view in app.view_functions.values():
        assert vars(view).keys() == {"operation", "__wrapped__"}, view.__name__
        with pytest.raises(FrozenInstanceError):
            operation_of(view).idempotent = None


@by_name([view for view in views_of("POST", "PATCH", body=True) if view.operation.idempotent])
def test_each_operation_reads_its_body_before_the_key_of_the_request(browser, view):
    path = view.path(*[UNKNOWN] * len(view.variables))
    headers = {"Idempotency-Key": "\u00fc"}
    options = {"content_type": "application/json", "headers": headers}
    invalid = browser.send(view.method, path, data="{", **options)
    assert error_message(invalid, 400).startswith("The body must be a JSON object")
