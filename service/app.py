"""The WSGI application, assembled from the parts of the service."""

from functools import cached_property, partial

from flask import Flask, Request, Response
from flask.typing import ResponseReturnValue
from werkzeug.routing import MapAdapter, Rule

from service import api, db, http, openapi, webhooks
from service.settings import Settings
from service.webhooks.secrets import compare_keys


class Service(Flask):
    """Flask without steps that each request would take and this service does not need.

    No route has a host, and no blueprint has hooks of its own. These are all methods of Flask that
    the service replaces. Beside each is what Flask's own costs more: in instructions, as a share of
    listing one task (``python -m bench --instructions``, Flask 3.1.3, Python 3.11).

    Flask 3.2 calls the methods for hooks with the context as the first argument, Flask 3.1 without
    it. A parameter that has the name ``ctx`` and no type tells Flask 3.2 that the method knows.
    """

    # 3 %.
    def preprocess_request(self, *ctx) -> ResponseReturnValue | None:  # type: ignore[no-untyped-def] # noqa: ANN002, ARG002
        """Run the hooks before the view; a hook that returns a response takes its place."""
        for hook in self.before_request_funcs[None]:
            response: ResponseReturnValue | None = hook()  # type: ignore[assignment]
            if response is not None:
                return response
        return None

    # 3 %.
    def process_response(self, *ctx) -> Response:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the view, the last one first."""
        response: Response = ctx[-1]
        for hook in reversed(self.after_request_funcs[None]):
            response = hook(response)
        return response

    # 3 %.
    def do_teardown_request(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the response, the last one first."""
        error: BaseException | None = ctx[-1]
        for hook in reversed(self.teardown_request_funcs[None]):
            hook(error)

    # 15 %; 8 % for a path with an id.
    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Find the rule of a path without variables; return an adapter that finds all others.

        Without an adapter, Flask looks for no rule.
        """
        if request is None:
            return None
        rule = self.rules.get((request.method, request.path))
        if rule is None:
            return self.url_map.bind("", path_info=request.path, default_method=request.method)
        request.url_rule, request.view_args = rule, {}
        return None

    @cached_property
    def rules(self) -> dict[tuple[str, str], Rule]:
        """The rules without variables by method and path, as of the first request."""
        rules = [rule for rule in self.url_map.iter_rules() if not rule.arguments]
        return {(method, rule.rule): rule for rule in rules for method in rule.methods or ()}


def create_app(settings: Settings | None = None) -> Flask:
    """Return the WSGI application; it opens no connection before its first request."""
    settings = settings or Settings.read()
    app = Service(__name__, static_folder=None)
    app.config.update(
        SETTINGS=settings,
        MAX_CONTENT_LENGTH=settings.max_body + 1,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    db.init_app(app, at_first=partial(compare_keys, settings=settings))
    for part in (http, webhooks, api, openapi):
        part.init_app(app)
    return app
