"""Flask's dispatch, without what the service never uses."""

from inspect import iscoroutinefunction, unwrap

from flask.globals import app_ctx
from support.http import Client
from support.rows import TOKENS

from service.speedups import dispatch


def test_no_blueprint_has_hooks_because_the_faster_dispatch_would_not_run_them(build):
    app = build()
    for hooks in (
        app.before_request_funcs,
        app.after_request_funcs,
        app.teardown_request_funcs,
        app.url_value_preprocessors,
    ):
        assert hooks.keys() <= {None}
    assert not app.teardown_appcontext_funcs


def test_no_view_is_a_coroutine_because_the_faster_dispatch_would_not_await_it(build):
    views = build().view_functions.values()
    assert [view.__name__ for view in views if iscoroutinefunction(unwrap(view))] == []


def test_the_service_responds_the_same_when_flask_passes_the_context_to_its_methods(
    settings, start, monkeypatch
):
    class Next(dispatch.Application):
        """Calls the methods as Flask 3.2 does."""

        def preprocess_request(self, *ctx):
            return super().preprocess_request(app_ctx._get_current_object(), *ctx)

        def process_response(self, *ctx):
            return super().process_response(app_ctx._get_current_object(), *ctx)

        def do_teardown_request(self, *ctx):
            passed.append(ctx[-1])
            super().do_teardown_request(app_ctx._get_current_object(), *ctx)

    passed = []
    now = Client(start(settings), TOKENS["alice"])
    monkeypatch.setattr(dispatch, "Application", Next)
    later = Client(start(settings), TOKENS["alice"])
    for path in ("/tasks", "/tasks/none", "/nothing"):
        before, after = now.get(path), later.get(path)
        assert after.status_code == before.status_code
        assert set(after.headers.keys()) == set(before.headers.keys())
    assert later.get("/me").headers["X-Request-Id"]
    assert passed == [None] * 4
