"""Responses: the bytes that PostgreSQL wrote, with the headers that belong to them.

Sources: RFC 8288 (Link), RFC 9110 sections 8.8.3 and 13 (ETag, If-Match, If-None-Match).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import urlencode

from flask import Response
from werkzeug.datastructures import Headers

from service.http.errors import MESSAGES, VersionMismatch
from service.http.requests import View, query_values
from service.schemas import StrictSchema
from service.state import current_request, state

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

Kind = Literal["object", "versioned", "list", "page"]

NO_HEADERS: Mapping[str, str] = {}


class Body(NamedTuple):
    """The row of a statement that makes a whole response."""

    body: bytes


class Page(NamedTuple):
    """The row of one page of a list; ``next_cursor`` is null on the last page."""

    data: bytes
    next_cursor: str | None


class One(NamedTuple):
    """The row of one object."""

    body: bytes
    version: int


class Created(NamedTuple):
    """The row of a new object; ``event_id`` is null if no webhook subscribes."""

    body: bytes
    version: int
    id: str
    event_id: str | None


class Changed(NamedTuple):
    """The row of an object after a PATCH.

    ``matched`` is false, and nothing changed, if If-Match allows other versions only; ``event_id``
    is null without a change or a webhook that subscribes.
    """

    body: bytes
    version: int
    matched: bool
    event_id: str | None


class Versioned(Protocol):
    """A row that has an object and its version."""

    @property
    def body(self) -> bytes:
        """The object as JSON."""

    @property
    def version(self) -> int:
        """The version, which the ETag shows."""


class Reply(Response):
    """A response whose headers are complete; the base class would copy and correct them."""

    def get_wsgi_headers(self, environ: "WSGIEnvironment") -> Headers:
        """Return the headers, as they are unless there is no body."""
        return self.headers if self.response else super().get_wsgi_headers(environ)


@dataclass(frozen=True)
class Documented:
    """The response of a view when all goes well: a schema, a status, and the kind of response.

    ``versioned`` is an object with an ETag; ``also`` are errors that method and path do not tell.
    """

    schema: type[StrictSchema] | None
    status: int
    kind: Kind
    also: tuple[int, ...]


def response(
    schema: type[StrictSchema] | None = None,
    status: int = 200,
    *,
    kind: Kind = "versioned",
    also: Iterable[int] = (),
) -> Callable[[View], View]:
    """Document the response of a view; the view itself stays as it is."""

    def decorate(view: View) -> View:
        view.__dict__["response"] = Documented(schema, status, kind, tuple(also))
        return view

    return decorate


def reply(
    body: bytes | str | None, status: int = 200, headers: Mapping[str, str] = NO_HEADERS
) -> Response:
    """Return one JSON response."""
    complete = Headers()
    # Only the service makes these values, so none of them is checked for newlines.
    complete._list = [("Content-Type", "application/json"), *headers.items()]
    return Reply(body, status, complete)


def reply_page(page: Page) -> Response:
    """Return one page of a list; ``Link`` leads to the next page, if there is one."""
    cursor = page.next_cursor
    if cursor is None:
        return reply(b'{"data": %b, "nextCursor": null}' % page.data)
    call = current_request()
    link = f'<{call.path}?{without_cursor(call.query_string)}cursor={cursor}>; rel="next"'
    # A cursor needs no escaping.
    return reply(
        b'{"data": %b, "nextCursor": "%b"}' % (page.data, cursor.encode()), headers={"Link": link}
    )


@lru_cache(maxsize=256)
def without_cursor(query: bytes) -> str:
    """Return the query as text that a cursor can follow."""
    rest = {name: values for name, values in query_values(query).items() if name != "cursor"}
    return urlencode(rest, doseq=True) + "&" if rest else ""


def reply_one(
    one: Versioned, status: int = 200, headers: Mapping[str, str] = NO_HEADERS
) -> Response:
    """Return one object with its ETag; 304 if the client has this version."""
    call = current_request()
    headers = {**headers, "ETag": etag(one.version)}
    if (
        "HTTP_IF_NONE_MATCH" in call.environ
        and call.method in ("GET", "HEAD")
        and call.if_none_match.contains_weak(str(one.version))
    ):
        return reply(None, 304, headers)
    return reply(one.body, status, headers)


def reply_created(created: Created, path: str) -> Response:
    """Return 201 with the new object, its ETag and its Location below ``path``."""
    state().created = created.id
    return reply_one(created, 201, {"Location": f"{path}/{created.id}"})


def require_match(matched: bool, version: int) -> None:
    """Raise 412, with the current ETag, if the statement found another version than If-Match."""
    if not matched:
        error = VersionMismatch(MESSAGES["precondition"][1])
        error.etag = etag(version)
        raise error


def etag(version: int) -> str:
    """Return the ETag of a version."""
    return f'"{version}"'
