"""Who talks to the service, and what its answers must look like; rows are put past the service."""

import re
from hashlib import sha256

from openapi_check import check_against_document

from service import db

TOKENS = {name: f"tmw_api_{name}" for name in ("alice", "bob", "charlie")}


def insert(connection, table, **values):
    """Put a row past the service, and return its id as the API shows it."""
    columns = ", ".join(values)
    marks = ", ".join(["%s"] * len(values))
    sql = f"INSERT INTO {table} ({columns}) VALUES ({marks}) RETURNING id"
    return str(connection.execute(sql, list(values.values())).fetchone()["id"])


def insert_member(connection, workspace_id, user_id, role="member"):
    connection.execute(
        "INSERT INTO members (workspace_id, user_id, role) VALUES (%s, %s, %s)",
        (workspace_id, user_id, role),
    )


def insert_token(
    connection, user_id, token, *, kind="api", scope="write", expires="infinity", revoked=None
):
    """A credential whose text the test knows; past the service, because the service tells it only once."""
    connection.execute(
        "INSERT INTO tokens (user_id, kind, scope, hash, expires_at, revoked_at)"
        " VALUES (%s, %s, %s, %s, nullif(%s::timestamptz, 'infinity'), %s)",
        (user_id, kind, scope, sha256(token.encode()).digest(), expires, revoked),
    )


class Client:
    """Somebody who talks to the service: by a bearer token, by a session cookie, or as a stranger."""

    def __init__(self, app, token=None, *, cookie=None):
        self.client = app.test_client(use_cookies=False)
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


INVALID_LIMITS = ("0", "-1", "abc", "1.5", "٣", "", "1e2", "0x10")


def error_message(response, status):
    """The message of an error answer, whose shape is checked."""
    error = response.get_json()
    assert response.status_code == status, error
    assert list(error) == [
        name for name in ("message", "status", "errors", "requestId") if name in error
    ]
    assert error["status"] == status
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert error["message"]
    return error["message"]


def invalid_field(response, field):
    """What is wrong with the one field that a 400 names, in its message and in its errors."""
    message = error_message(response, 400)
    (fault,) = response.get_json()["errors"]
    assert list(fault) == ["field", "message"]
    assert fault["field"].split("[")[0] == field
    assert message == f"{fault['field']}: {fault['message']}"
    return fault["message"]


def read_all(client, path, **query):
    """All items of a list, page by page; the Link header must lead where nextCursor leads."""
    items = []
    while True:
        response = client.get(path, query_string=query)
        page = response.get_json()
        assert response.status_code == 200, page
        assert list(page) == ["data", "nextCursor"]
        items += page["data"]
        if page["nextCursor"] is None:
            assert "Link" not in response.headers
            return items
        assert page["data"]
        query["cursor"] = page["nextCursor"]
        link = response.headers["Link"]
        assert link.startswith("</api/")
        assert link.endswith('>; rel="next"')
        following = client.get(link[5 : link.index(">")]).get_json()
        assert following == client.get(path, query_string=query).get_json()


def preparable(name):
    """``sql/<name>.sql`` with its parameters numbered, as PREPARE takes it, and NULLs to EXECUTE it with."""
    places = {}
    text = re.sub(
        r"%\((\w+)\)s",
        lambda match: f"${places.setdefault(match[1], len(places) + 1)}",
        db.statement(name).decode(),
    ).replace("%%", "%")
    return text, f"({', '.join(['NULL'] * len(places))})" if places else ""


def waiting(connection):
    """How many statements wait for a lock."""
    return connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()["count"]
