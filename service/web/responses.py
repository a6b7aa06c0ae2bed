"""Responses: JSON that PostgreSQL wrote, with the headers for lists and versions.

Sources: RFC 8288 (Link), RFC 9110 sections 8.8.3 and 13 (ETag, If-Match, If-None-Match).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Request, Response

from service.context import current_application, current_request, current_state
from service.database.statements import Page
from service.web.errors import HTTPError, etag, http_error
from service.web.requests import query_values

NO_HEADERS: Mapping[str, str] = {}


class Body(NamedTuple):
    body: bytes


class One(NamedTuple):
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

    If the preconditions do not allow its version, ``matched`` is false, nothing has changed, and
    ``body`` is the current object.
    ``event_id`` is null if nothing has changed, or if no webhook subscribes.
    """

    body: bytes
    version: int
    matched: bool
    event_id: str | None


def reply(
    body: bytes | str | None, status: int = 200, headers: Mapping[str, str] = NO_HEADERS
) -> Response:
    """Return a response whose body is already JSON."""
    make = current_application().response_class
    return make(body, status, headers, mimetype="application/json")


def reply_secret(
    body: bytes, name: str, secret: str, status: int = 200, headers: Mapping[str, str] = NO_HEADERS
) -> Response:
    """Answer with an object and, as its last member, a secret that is never stored."""
    members = body[:-1] + (b"," if len(body) > 2 else b"") + b'"%b":' % name.encode()
    # A secret contains no character that JSON escapes.
    current_state().stored_body = (members + b"null}").decode()
    return reply(members + b'"%b"}' % secret.encode(), status, headers)


def reply_list(bodies: Iterable[bytes]) -> Response:
    """Answer with a list that has no pages."""
    return reply(b"[%b]" % b",".join(bodies))


def reply_page(page: Page) -> Response:
    """Answer with one page of a list; ``Link`` names the next page, if any."""
    data = b",".join(page.bodies)
    if page.cursor is None:
        return reply(b'{"data":[%b],"nextCursor":null}' % data)
    rest = without_cursor(current_request().query_string)
    # A cursor contains no character that JSON escapes.
    content = b'{"data":[%b],"nextCursor":"%b"}' % (data, page.cursor.encode())
    return reply(content, headers={"Link": f'<?{rest}cursor={page.cursor}>; rel="next"'})


@lru_cache(maxsize=256)
def without_cursor(query: bytes) -> str:
    """Remove the cursor from a query, so that the caller can append another ``cursor=…``."""
    rest = {name: values for name, values in query_values(query).items() if name != "cursor"}
    return urlencode(rest, doseq=True) + "&" if rest else ""


def reply_one(
    one: One | Created | Changed,
    status: int = 200,
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    live: bool = False,
) -> Response:
    """Answer with one object and its ETag, or with 304 if the client has this version.

    A GET raises 412 if ``If-Match`` names only other versions; it never returns 304 for a ``live``
    object. The statement of a write has checked the preconditions.
    """
    request = current_request()
    headers = {**headers, "ETag": etag(one.version)}
    if request.method in ("GET", "HEAD"):
        if if_match_fails(request, one.version):
            raise refused_version(one.version, one.body)
        known = not live and "HTTP_IF_NONE_MATCH" in request.environ
        if known and request.if_none_match.contains_weak(str(one.version)):
            return reply(None, 304, headers)
    return reply(one.body, status, headers)


def if_match_fails(request: Request, version: int) -> bool:
    """Return whether the request has ``If-Match``, and the header does not name this version."""
    return "HTTP_IF_MATCH" in request.environ and not request.if_match.contains_weak(str(version))


def reply_created(created: Created) -> Response:
    """Answer 201 with the new object, its ETag and its Location; the log line contains its id."""
    return reply_one(created, 201, headers_of_created(created.id))


def headers_of_created(id: str) -> dict[str, str]:
    """Return the Location of a new object, and let the log line contain its id.

    The Location is relative to the URL of the request, below which the object is: the service
    cannot know which part of that URL a proxy has taken away.
    """
    current_state().created = id
    collection = current_request().path.rpartition("/")[2]
    return {"Location": f"{collection}/{id}" if collection else id}


def require_match(row: Any) -> None:
    """Raise 412 with the current version, unless the request matches it (``row.matched``).

    If the request does not match, ``row.body`` is the JSON of the object, as GET returns it.
    """
    if not row.matched:
        raise refused_version(row.version, row.body)


def refused_version(version: int, current: bytes) -> HTTPError:
    """Return a 412 that shows the object, so the caller must be one who may read it."""
    # RFC 9110, section 13.2.2: If-Match comes first.
    fails = if_match_fails(current_request(), version)
    error = http_error("precondition" if fails else "refused_version", version=version)
    error.version, error.current = version, current
    return error
