"""The WSGI application, assembled from the parts of the service."""

from collections.abc import Callable
from typing import Any

from flask import Flask, Request, Response
from flask.sessions import NullSession, SessionInterface
from flask.typing import ResponseReturnValue
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import MapAdapter

from service import api, commands, db, http, openapi, webhooks
from service.settings import Settings


class NoSession(SessionInterface):
    """Switches Flask's sessions off: the cookie ``session`` holds a token, which the gate reads."""

    def __init__(self) -> None:
        self.empty = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:  # noqa: ARG002
        """Return the same empty session for every request."""
        return self.empty


class Service(Flask):
    """Flask without steps that each request would take and this service does not need.

    No route has a host, no view and no hook is asynchronous, and no blueprint has hooks of its own.
    """

    session_interface = NoSession()

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as it is."""
        return func

    def preprocess_request(self) -> ResponseReturnValue | None:
        """Run the hooks before the view; a hook that returns a response takes its place."""
        for hook in self.before_request_funcs[None]:
            response: ResponseReturnValue | None = hook()  # type: ignore[assignment]
            if response is not None:
                return response
        return None

    def process_response(self, response: Response) -> Response:
        """Run the hooks after the view, the last one first."""
        for hook in reversed(self.after_request_funcs[None]):
            response = hook(response)
        return response

    def do_teardown_request(self, exc: BaseException | None = None) -> None:
        """Run the hooks after the response, the last one first."""
        for hook in reversed(self.teardown_request_funcs[None]):
            hook(exc)

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Return the adapter that finds a view by path and method alone."""
        if request is None:
            return None
        return self.url_map.bind("", path_info=request.path, default_method=request.method)


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
    if settings.trusted_proxies:
        proxies = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=0, x_host=0)  # type: ignore[method-assign]
    for part in (db, http, webhooks, api, openapi, commands):
        part.init_app(app)
    return app
