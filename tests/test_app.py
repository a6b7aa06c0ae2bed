"""The application, assembled."""


def test_no_blueprint_has_hooks_because_the_service_would_not_run_them(build):
    app = build()
    for hooks in (
        app.before_request_funcs,
        app.after_request_funcs,
        app.teardown_request_funcs,
        app.url_value_preprocessors,
    ):
        assert hooks.keys() <= {None}
