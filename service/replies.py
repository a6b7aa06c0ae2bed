"""What goes out: the bytes that Postgres wrote, with the headers that belong to them."""

from functools import lru_cache
from urllib.parse import urlencode

from flask import Response, request

from service.inputs import named


class Reply(Response):
    """An answer whose headers are right as they are; the base class would copy and correct them."""

    default_mimetype = "application/json"

    def get_wsgi_headers(self, environ):
        return self.headers if self.response else super().get_wsgi_headers(environ)


def reply(body, status=200, headers=None):
    """One JSON answer."""
    return Reply(body, status, headers)


def reply_page(page):
    """One page of a list; ``Link`` (RFC 8288) leads to the next one, if there is one."""
    if page.next_cursor is None:
        return reply(page.body)
    query = f"{without_cursor(request.query_string)}cursor={page.next_cursor}"
    return reply(page.body, headers={"Link": f'<{request.path}?{query}>; rel="next"'})


@lru_cache(maxsize=256)
def without_cursor(query):
    """The bytes of a query as text that a cursor can follow."""
    kept = {name: values for name, values in named(query).items() if name != "cursor"}
    return urlencode(kept, doseq=True) + "&" if kept else ""
