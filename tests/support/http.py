"""A client of the service in this process, and checks of its responses."""

from urllib.parse import urljoin

from support.answers import Answer
from support.openapi_check import check_against_document


class Client:
    """A client with a bearer token, with a session cookie, or without credentials."""

    def __init__(self, app, token=None, *, cookie=None):
        self.client = app.test_client(use_cookies=False)
        wrapper = self.client.response_wrapper
        self.client.response_wrapper = type("Response", (Answer, wrapper), {})
        self.headers = {}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        if cookie:
            self.headers["Cookie"] = f"session={cookie}"

    def send(self, method, path, *, headers=(), **options):
        response = self.client.open(
            f"/api{path}", method=method, headers={**self.headers, **dict(headers)}, **options
        )
        check_against_document(response)
        return response

    def get(self, path, **options):
        return self.send("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.send("POST", path, json=json, **options)

    def patch(self, path, json=None, **options):
        return self.send("PATCH", path, json=json, **options)

    def delete(self, path, **options):
        return self.send("DELETE", path, **options)


def error_message(response, status):
    """Check the form of an error response; return its message."""
    assert response.status_code == status, f"{response.told}: expected {status}"
    error = response.get_json()
    assert list(error) == [
        name for name in ("message", "status", "errors", "requestId", "current") if name in error
    ]
    assert status == 412 or "current" not in error
    assert error["status"] == status
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert error["message"]
    return error["message"]


def invalid_field(response, field, status=400):
    """Check that a response is an error with exactly one entry, about this field.

    Return the message of the entry. The outer ``message`` must be the field and this message.
    """
    message = error_message(response, status)
    (fault,) = response.get_json()["errors"]
    assert list(fault) == ["field", "message"]
    assert fault["field"].split("[")[0] == field
    assert message == f"{fault['field']}: {fault['message']}"
    return fault["message"]


def location(response):
    """Return the path of the new object below /api, as a client resolves ``Location``."""
    return resolved(response, response.headers["Location"])


def next_page(response):
    """Return the path of the next page below /api, as a client resolves ``Link``."""
    link = response.headers["Link"]
    assert link.endswith('>; rel="next"')
    return resolved(response, link[1 : link.index(">")])


def resolved(response, reference):
    """Resolve a reference; fail if it names more of the URL than the request can know.

    A proxy may have taken a part of the path away, so the reference must lead below it.
    """
    request = response.request
    outside = urljoin(f"https://proxy.example/team{request.path}", reference)
    prefix = "https://proxy.example/team/api"
    assert outside.startswith(f"{prefix}/"), reference
    return outside.removeprefix(prefix)


def read_all(client, path, **query):
    """Read a list page by page, and return all items.

    Fail unless ``Link`` and ``nextCursor`` lead to the same page.
    """
    items = []
    response = client.get(path, query_string=query)
    while True:
        assert response.status_code == 200, response.told
        page = response.get_json()
        assert list(page) == ["data", "nextCursor"]
        items += page["data"]
        if page["nextCursor"] is None:
            assert "Link" not in response.headers
            return items
        assert page["data"]
        query["cursor"] = page["nextCursor"]
        following = next_page(response)
        response = client.get(path, query_string=query)
        assert client.get(following).get_json() == response.get_json()


def names(schema):
    return [field.data_key for field in schema().dump_fields.values()]


def ids(items):
    return [item["id"] for item in items]


def label(value):
    text = ascii(value)
    return text if len(text) < 40 else f"{len(text)} characters"
