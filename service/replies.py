"""What goes out: the bytes that Postgres wrote, with the headers that belong to them."""

from functools import lru_cache
from urllib.parse import parse_qsl, urlencode

from flask import Response, request


def reply(body, status=200, headers=None):
    """One JSON answer."""
    return Response(body, status, headers, mimetype="application/json")


def reply_page(page):
    """One page of a list; ``Link`` (RFC 8288) leads to the next one, if there is one."""
    if page.next_cursor is None:
        return reply(page.body)
    query = f"{without_cursor(request.query_string)}cursor={page.next_cursor}"
    return reply(page.body, headers={"Link": f'<{request.path}?{query}>; rel="next"'})


@lru_cache(maxsize=256)
def without_cursor(query):
    """The bytes of a query as text that a cursor can follow."""
    named = parse_qsl(query.decode(errors="replace"), keep_blank_values=True)
    kept = [(name, value) for name, value in named if name != "cursor"]
    return urlencode(kept) + "&" if kept else ""
