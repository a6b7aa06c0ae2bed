"""Flask's dispatch, without what this service never uses.

No route has a host, and no blueprint has hooks of its own. "N % more" are instructions of a list of
one task, of which docs/benchmark.md has the total.

Flask 3.2 calls the methods for hooks with the context as the first argument, Flask 3.1 without it.
A parameter that has the name ``ctx`` and no type tells Flask 3.2 that the method knows.
"""

from functools import cached_property
from typing import cast

from flask import Flask, Request, Response
from flask.sessions import SessionInterface, SessionMixin
from flask.typing import ResponseReturnValue
from werkzeug.routing import MapAdapter, Rule

from service.values.fields import UUID


class NoSession(SessionInterface):
    """One session for all requests, always empty: the gate reads the cookie ``session``.

    A session for each request takes 2 % more.
    """

    def __init__(self) -> None:
        self.session = self.null_session_class()

    def open_session(self, app: Flask, request: Request) -> SessionMixin:  # noqa: ARG002
        return self.session


class Service(Flask):
    """Flask without its loops over blueprints, its signals and its matcher of paths."""

    session_interface = NoSession()

    def preprocess_request(self, *ctx) -> ResponseReturnValue | None:  # type: ignore[no-untyped-def] # noqa: ANN002, ARG002
        """Run the hooks before the view; a hook that returns a response takes its place.

        Flask's loops over the blueprints take 5 % more.
        """
        for hook in self.before_request_funcs[None]:
            response = hook()
            if response is not None:
                return cast("ResponseReturnValue", response)
        return None

    def process_response(self, *ctx) -> Response:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the view, the last one first.

        Flask's loops over the blueprints take 6 % more.
        """
        response: Response = ctx[-1]
        for hook in reversed(self.after_request_funcs[None]):
            response = hook(response)
        return response

    def do_teardown_request(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run the hooks after the response, the last one first.

        Flask's loops over the blueprints and its signal take 4 % more.
        """
        error: BaseException | None = ctx[-1]
        for hook in reversed(self.teardown_request_funcs[None]):
            hook(error)

    def do_teardown_appcontext(self, *ctx) -> None:  # type: ignore[no-untyped-def] # noqa: ANN002
        """Run no hooks: the only one after the response belongs to the request.

        Flask's loop and its signal take 2 % more.
        """

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Route a path without variables, or with one id at its end.

        For other paths, return the adapter that finds their rule by path and method alone. Without
        an adapter, Flask looks for no rule. Its matcher, which tries each part of a path again for
        each request, takes 16 % more.
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
        """The rules without variables, or with one id at the end, by method, path and which."""
        rules = {}
        for rule in self.url_map.iter_rules():
            path, _, variables = rule.rule.partition("<")
            if variables in ("", "id:id>"):
                rules.update(
                    {(method, path, bool(variables)): rule for method in rule.methods or ()}
                )
        return rules
