"""The WSGI application, assembled from the parts of the service."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from flask import Flask, Request, Response
from flask.sessions import SessionInterface, SessionMixin
from flask.typing import ResponseReturnValue
from werkzeug.routing import MapAdapter, Rule

from service import api, http, openapi, webhooks
from service.database import db
from service.settings import Settings
from service.values.fields import UUID
from service.webhooks.secrets import compare_keys


class NoSession(SessionInterface):
    """Gives all requests one session, which stays empty: the cookie ``session`` is the gate's."""

    def __init__(self) -> None:
        self.session = self.null_session_class()

    def open_session(self, app: Flask, request: Request) -> SessionMixin:  # noqa: ARG002
        return self.session


class RequestWithoutFiles(Request):
    """A request that has nothing to close: no view reads a form."""

    def close(self) -> None:
        return


class Service(Flask):
    """Flask without steps that each request would take and this service does not need.

    No route has a host, and no blueprint has hooks of its own. This is all of Flask that the
    service replaces. Beside each part is what Flask's own costs more, in instructions, as a share
    of listing one task (``python -m bench --instructions``, Flask 3.1.3, Python 3.11).

    Flask 3.2 calls the methods for hooks with the context as the first argument, Flask 3.1 without
    it. A parameter that has the name ``ctx`` and no type tells Flask 3.2 that the method knows.
    """

    # 2 %.
    session_interface = NoSession()
    # 1 %.
    request_class = RequestWithoutFiles

    # 5 %.
    def preprocess_request(self, *ctx) -> ResponseReturnValue | None:  # type: ignore[no-untyped-def] # noqa: ANN002, ARG002
        """Run the hooks before the view; a hook that returns a response takes its place."""
        for hook in self.before_request_funcs[None]:
            response: ResponseReturnValue | None = hook()  # type: ignore[assignment]
            if response is not None:
                return response
        return None

    # 6 %.
    def process_response(self, *ctx) -> Response:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the view, the last one first."""
        response: Response = ctx[-1]
        for hook in reversed(self.after_request_funcs[None]):
            response = hook(response)
        return response

    # 4 %.
    def do_teardown_request(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the response, the last one first."""
        error: BaseException | None = ctx[-1]
        for hook in reversed(self.teardown_request_funcs[None]):
            hook(error)

    # 2 %.
    def do_teardown_appcontext(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run no hooks: the only one after the response belongs to the request."""

    # 1 %.
    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a view or a hook as it is: none is a coroutine."""
        return func

    # 16 %.
    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Find the rule of a path without variables, or with one id at its end.

        For other paths, return the adapter that finds their rule by path and method alone. Without
        an adapter, Flask looks for no rule.
        """
        if request is None:
            return None
        method, path = request.method, request.path
        values: dict[str, str] = {}
        rule = self.rules.get((method, path, False))
        if rule is None and UUID.fullmatch(path[-36:]):
            values = {"id": path[-36:].lower()}
            rule = self.rules.get((method, path[:-36], True))
        if rule is None:
            return self.url_map.bind("", path_info=path, default_method=method)
        request.url_rule, request.view_args = rule, values
        return None

    @cached_property
    def rules(self) -> dict[tuple[str, str, bool], Rule]:
        """Return such rules by method, path, and whether an id follows; made by the first request.

        The matcher of Flask tries each part of a path again for each request.
        """
        rules = {}
        for rule in self.url_map.iter_rules():
            path, _, variables = rule.rule.partition("<")
            if variables in ("", "id:id>"):
                rules.update(
                    {(method, path, bool(variables)): rule for method in rule.methods or ()}
                )
        return rules


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
