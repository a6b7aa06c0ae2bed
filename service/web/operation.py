"""The decorator of every view: what the view takes and returns, and what runs around it.

``Operation`` is the only attribute of a view. The hooks, the document, the speedups and the tests
read it there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Literal

from flask import Flask, Request
from marshmallow import Schema, ValidationError

from service.context import current_application, current_request, current_state
from service.values import Values, types
from service.values.schemas import Query, StrictSchema
from service.web.errors import invalid_field
from service.web.requests import load_arguments, query_values, shown
from service.web.safe_writes import Whose, once_per_key, roll_back

View = Callable[..., Any]
Kind = Literal["object", "versioned", "live", "list", "page"]


class DryRun(Query):
    """The query of each operation that only changes the database."""

    dry_run = types.TrueOrFalse(
        # Not False, because generated clients send what the document calls the default.
        load_default=None,
        description="True: the service returns the response to the request, with the header"
        " Dry-Run, but changes nothing. It ignores Idempotency-Key, and counts the request",
    )


DRY_RUN = DryRun()


@dataclass(frozen=True)
class Operation:
    """What the service knows about a view, apart from its path. The object decorates the view."""

    # The schema of the query if it is a ``Query``, otherwise of the body. The view gets the loaded
    # values as its first argument. All requests share this instance of the schema.
    arguments: StrictSchema | None = None
    # The schema and the status of the response if the request succeeds.
    response: type[StrictSchema] | None = None
    status: int = 200
    # ``versioned`` is an object with an ETag. ``live`` is an object with an ETag of which some
    # members change without a new version, so GET never returns 304.
    kind: Kind = "object"
    # The statuses of errors that do not follow from the method and the path.
    also: tuple[int, ...] = ()
    # In which workspace a key of the caller counts; None if the view ignores Idempotency-Key.
    idempotent: Whose | None = None
    # False for a view about credentials or webhooks: such a view takes no dryRun.
    has_dry_run: bool = True
    # If the view is idempotent: runs with its arguments before the transaction of a key, so it may
    # wait for others. It does not run for a repeated request, which gets its stored response.
    before: Callable[..., None] | None = None
    # Runs if the arguments are invalid, with the error and the variables of the path. It can add
    # faults that only PostgreSQL finds, so that a form learns of all faults at the same time.
    when_invalid: Callable[..., None] | None = None
    # The name of the message with which an API token gets 403: only sessions may use the view.
    session_only: str | None = None
    # Only if the caller is a login page with a key of LOGIN_KEY (``gate.LOGIN``): lets the request
    # act as the user whom the arguments name.
    become_user: Callable[[Values], None] | None = None
    # With such views a client lists its workspaces, chooses another one, revokes a token or signs
    # out. They must work even if the header names a workspace that the user has left.
    ignores_workspace_header: bool = False

    def __call__(self, view: View, read: Callable[[Schema], Values] = load_arguments) -> View:
        """Return the view as Flask calls it; ``read`` loads its arguments.

        The arguments are loaded first, then the key is looked up, then ``before`` runs.
        """

        @wraps(view)
        def run(**variables: Any) -> Any:
            try:
                arguments = () if self.arguments is None else (read(self.arguments),)
            except ValidationError as error:
                if self.when_invalid:
                    self.when_invalid(error, **variables)
                raise
            if not self.idempotent:
                return view(*arguments, **variables)
            if self.become_user:
                self.become_user(*arguments)
            answer = partial(view, *arguments, **variables)
            if current_state().dry_run:
                return roll_back(answer)
            before = self.before and partial(self.before, *arguments, **variables)
            return once_per_key(answer, self.idempotent, variables, before)

        run.operation = self  # type: ignore[attr-defined]
        return run

    @property
    def by_login_key(self) -> bool:
        return self.become_user is not None

    @property
    def query(self) -> Query | None:
        """The schema of the query; None if the view takes no query."""
        if self.idempotent and self.has_dry_run:
            return DRY_RUN
        return self.arguments if isinstance(self.arguments, Query) else None


# In front of a view: ``@operation(Task(), Task, 201, idempotent="workspace")``.
operation = Operation


def operation_of(view: View | None) -> Operation | None:
    return getattr(view, "operation", None)


def requested_operation(request: Request) -> Operation:
    """Return the operation of a request; it has no members if the path leads to no view."""
    view = current_application().view_functions.get(request.endpoint or "")
    return operation_of(view) or Operation()


def init_app(app: Flask) -> None:
    app.before_request(check_query)


def check_query() -> None:
    """Note a dry run. Raise 400 for another query on a path that takes no query.

    Public paths, whose requests the gate does not count, ignore queries: monitors append one
    against caches.
    """
    request = current_request()
    if request.query_string and request.endpoint and current_state().usage:
        query = requested_operation(request).query
        if query is DRY_RUN:
            current_state().dry_run = load_arguments(query)["dry_run"]
        elif query is None and (names := [*query_values(request.query_string)]):
            raise invalid_field(shown(names[0]), "unknown_query_parameter")
