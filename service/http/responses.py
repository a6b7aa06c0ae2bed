"""What goes out: the bytes that Postgres wrote, with the headers that belong to them.

Sources: RFC 8288 (Link), RFC 9110 sections 8.8.3 and 13 (ETag, If-Match, If-None-Match).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlencode

from flask import Response, request

from service.http.errors import http_error
from service.http.requests import View, query_values
from service.schemas import StrictSchema

Kind = Literal["object", "versioned", "list", "page"]


class Reply(Response):
    """A response whose headers are complete; the base class would copy and correct them."""

    default_mimetype = "application/json"

    def get_wsgi_headers(self, environ: Any) -> Any:
        """Return the headers, as they are unless there is no body."""
        return self.headers if self.response else super().get_wsgi_headers(environ)


@dataclass(frozen=True)
class Documented:
    """What a view responds with when all goes well: a schema, a status, and in which kind.

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
    """Document what a view responds with; the view stays as it is, with nothing around it."""

    def decorate(view: View) -> View:
        view.response = Documented(schema, status, kind, tuple(also))  # type: ignore[attr-defined]
        return view

    return decorate


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """One JSON response."""
    return Reply(body, status, headers)


def reply_page(page: Any) -> Response:
    """One page of a list; ``Link`` leads to the next one, if there is one."""
    if page.next_cursor is None:
        return reply(page_body(page))
    query = f"{without_cursor(request.query_string)}cursor={page.next_cursor}"
    return reply(page_body(page), headers={"Link": f'<{request.path}?{query}>; rel="next"'})


def page_body(page: Any) -> bytes:
    """The rows as Postgres wrote them, and the cursor, which needs no escaping."""
    cursor = "null" if page.next_cursor is None else f'"{page.next_cursor}"'
    return b'{"data": %b, "nextCursor": %b}' % (page.data, cursor.encode())


@lru_cache(maxsize=256)
def without_cursor(query: bytes) -> str:
    """The query as text that a cursor can follow."""
    rest = {name: values for name, values in query_values(query).items() if name != "cursor"}
    return urlencode(rest, doseq=True) + "&" if rest else ""


def reply_one(row: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """One object with its ETag: 304 if the reader has it, 412 if the writer expected another."""
    if hasattr(row, "matched"):
        require_match(row)
    headers = {**(headers or {}), "ETag": etag(row)}
    if request.method in ("GET", "HEAD") and request.if_none_match.contains_weak(str(row.version)):
        return reply(None, 304, headers)
    return reply(row.body, status, headers)


def require_match(row: Any) -> None:
    """Raise 412, with the current ETag, if the statement found another version than If-Match."""
    if not row.matched:
        error = http_error("precondition")
        error.etag = etag(row)  # type: ignore[attr-defined]
        raise error


def etag(row: Any) -> str:
    """The ETag of a row's version."""
    return f'"{row.version}"'
