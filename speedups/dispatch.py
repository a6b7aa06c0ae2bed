"""Flask's dispatch, without what the service never uses.

No route has a host, and no blueprint has hooks of its own; ``tests/with_speedups/test_dispatch.py``
checks both.

Flask 3.2 passes the context as the first argument to the methods for hooks; Flask 3.1 does not.
Flask 3.2 recognises an updated method by an unannotated parameter named ``ctx``.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import flask
from flask import Flask, Response
from flask.sessions import SessionInterface, SessionMixin
from flask.typing import ResponseReturnValue, RouteCallable
from werkzeug.routing import MapAdapter, Rule

from service.speedups.fields import faster
from service.speedups.requests import Request
from service.speedups.responses import Reply
from service.values.types import UUID


class NoSession(SessionInterface):
    """One session for all requests, always empty: the gate reads the cookie ``session``."""

    def __init__(self) -> None:
        self.session = self.null_session_class()

    def open_session(self, app: Flask, request: flask.Request) -> SessionMixin:  # noqa: ARG002
        return self.session


class Application(Flask):
    """Flask without per-blueprint hooks, signals and its URL matcher.

    Its requests, responses and readers of arguments are the faster ones of this package.
    """

    request_class = Request
    response_class = Reply
    session_interface = NoSession()

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: RouteCallable | None = None,
        provide_automatic_options: bool | None = None,
        **options: Any,
    ) -> None:
        """Register a view that loads its arguments faster."""
        view = view_func and faster(view_func)
        super().add_url_rule(rule, endpoint, view, provide_automatic_options, **options)

    def preprocess_request(self, *ctx) -> ResponseReturnValue | None:  # type: ignore[no-untyped-def] # noqa: ANN002, ARG002
        """Run the hooks before the view; a hook that returns a response takes its place."""
        for hook in self.before_request_funcs[None]:
            response = hook()
            if response is not None:
                return cast("ResponseReturnValue", response)
        return None

    def process_response(self, *ctx) -> Response:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the view, the last one first."""
        response: Response = ctx[-1]
        for hook in reversed(self.after_request_funcs[None]):
            response = hook(response)
        return response

    def do_teardown_request(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the response, the last one first."""
        error: BaseException | None = ctx[-1]
        for hook in reversed(self.teardown_request_funcs[None]):
            hook(error)

    def do_teardown_appcontext(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Do nothing: the service has a teardown hook for the request only, none for the app."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the view as it is: no view of the service is a coroutine."""
        return func

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """Look up common paths in a dictionary: those without variables or with one id at the end.

        Returning None tells Flask that routing is done. Other paths go through Werkzeug's matcher,
        by path and method alone.
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
        """The rules of common paths, keyed by (method, path, whether an id follows)."""
        rules = {}
        for rule in self.url_map.iter_rules():
            path, _, variables = rule.rule.partition("<")
            if variables in ("", "id:id>"):
                rules.update(
                    {(method, path, bool(variables)): rule for method in rule.methods or ()}
                )
        return rules
