"""What goes out: the bytes that Postgres wrote, with the headers that belong to them."""

from urllib.parse import urlencode

from flask import Response, request


def reply(body, status=200, headers=None):
    """One JSON answer."""
    return Response(body, status, headers, mimetype="application/json")


def reply_page(page):
    """One page of a list; ``Link`` (RFC 8288) leads to the next one, if there is one."""
    if page.next_cursor is None:
        return reply(page.body)
    query = urlencode({**request.args, "cursor": page.next_cursor})
    return reply(page.body, headers={"Link": f'<{request.path}?{query}>; rel="next"'})
