"""The stage: a real Postgres, the app on it, and the cast.

Alice owns Acme and Bob is a member there; Charlie owns Globex and must see nothing of Acme.
Every test starts with these three, one token each, and nothing else.
"""

import os
import re
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256

import psycopg
import pytest
from openapi_check import hold_against_document
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from service import create_app, db
from service.migrations import migrate
from service.settings import Settings

TOKENS = {name: f"tmw_api_{name}" for name in ("alice", "bob", "charlie")}


@pytest.fixture(scope="session")
def database_url():
    """A new, migrated database: on the server of TEST_DATABASE_URL, else on an embedded one."""
    server = os.environ.get("TEST_DATABASE_URL")
    if server:
        yield from new_database(server)
        return
    from service import embedded

    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        postgres = embedded.start(folder)
        with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
            # Nobody mourns this data when the machine loses power.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield from new_database(postgres.get_uri())
        postgres.cleanup()


def new_database(server):
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        url = make_conninfo(server, dbname=name)
        migrate(Settings.read({"DATABASE_URL": url}))
        yield url
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def settings(database_url):
    return Settings.read({"DATABASE_URL": database_url})


@pytest.fixture(scope="session")
def app(settings):
    app = create_app(settings)
    yield app
    app.extensions["database"].close()


@pytest.fixture
def build(settings):
    """Makes services with other settings, and closes their pools afterwards."""
    built = []

    def build(**changes):
        built.append(create_app(replace(settings, **changes)))
        return built[-1]

    yield build
    for app in built:
        app.extensions["database"].close()


@pytest.fixture(scope="session")
def connection(database_url):
    """A connection past the service, for looking at rows and arranging them."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture(autouse=True)
def cast(request):
    """The three users in their two workspaces, and nothing else in the database: names to ids."""
    if "nodatabase" in request.keywords:
        return None
    connection = request.getfixturevalue("connection")
    # Not by rollback: what happens after commit must happen. workspaces and users cascade to all else.
    connection.execute("DELETE FROM workspaces")
    connection.execute("DELETE FROM users")
    connection.execute("DELETE FROM usage")
    ids = {}
    for slug, name in (("acme", "Acme"), ("globex", "Globex")):
        ids[slug] = insert(connection, "workspaces", name=name, slug=slug, plan="Team")
    for name, slug, role in (
        ("alice", "acme", "owner"),
        ("bob", "acme", "member"),
        ("charlie", "globex", "owner"),
    ):
        ids[name] = insert(connection, "users", email=f"{name}@example.com", name=name.title())
        join(connection, ids[slug], ids[name], role)
        connection.execute(
            "UPDATE users SET active_workspace_id = %s WHERE id = %s", (ids[slug], ids[name])
        )
        give_token(connection, ids[name], TOKENS[name])
    # Each member who joined has made a new version of the workspace.
    connection.execute("UPDATE workspaces SET version = 1")
    return ids


def insert(connection, table, **values):
    """Put a row past the service, and return its id as the API shows it."""
    columns = ", ".join(values)
    marks = ", ".join(["%s"] * len(values))
    sql = f"INSERT INTO {table} ({columns}) VALUES ({marks}) RETURNING id"
    return str(connection.execute(sql, list(values.values())).fetchone()["id"])


def join(connection, workspace_id, user_id, role="member"):
    connection.execute(
        "INSERT INTO members (workspace_id, user_id, role) VALUES (%s, %s, %s)",
        (workspace_id, user_id, role),
    )


def give_token(
    connection, user_id, token, *, kind="api", scope="write", expires="infinity", revoked=None
):
    """A credential whose text the test knows; past the service, because the service tells it only once."""
    connection.execute(
        "INSERT INTO tokens (user_id, kind, scope, hash, expires_at, revoked_at)"
        " VALUES (%s, %s, %s, %s, nullif(%s::timestamptz, 'infinity'), %s)",
        (user_id, kind, scope, sha256(token.encode()).digest(), expires, revoked),
    )


@pytest.fixture
def unlimited(connection, cast):
    """The workspaces of the cast are on a plan that no test can use up."""
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Unlimited', 1000000)")
    connection.execute("UPDATE workspaces SET plan = 'Unlimited'")
    yield
    connection.execute("UPDATE workspaces SET plan = 'Team'")
    connection.execute("DELETE FROM plans WHERE name = 'Unlimited'")


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
        hold_against_document(response)
        return response

    def get(self, path, **options):
        return self.send("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.send("POST", path, json=json, **options)

    def patch(self, path, json=None, **options):
        return self.send("PATCH", path, json=json, **options)

    def delete(self, path, **options):
        return self.send("DELETE", path, **options)


@pytest.fixture
def alice(app):
    return Client(app, TOKENS["alice"])


@pytest.fixture
def bob(app):
    return Client(app, TOKENS["bob"])


@pytest.fixture
def charlie(app):
    return Client(app, TOKENS["charlie"])


@pytest.fixture
def stranger(app):
    return Client(app)


BAD_LIMITS = ("0", "-1", "abc", "1.5", "٣", "", "1e2", "0x10")


def told(response, status):
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


def refused(response, field):
    """What is wrong with the one field that a 400 names, in its message and in its errors."""
    message = told(response, 400)
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


@pytest.fixture
def together(connection, database_url):
    """Run calls that change one row at the same moment: each is stopped at the row until all are there."""

    def run(table, id, *calls):
        with psycopg.connect(database_url) as holder, ThreadPoolExecutor(len(calls)) as threads:
            holder.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE", (id,))
            started = []
            for call in calls:
                started.append(threads.submit(call))
                while waiting(connection) < len(started):
                    assert not started[-1].done(), "it did not wait for the row"
            holder.rollback()
            return [call.result() for call in started]

    return run


def waiting(connection):
    return connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()["count"]


def preparable(name):
    """``sql/<name>.sql`` with its parameters numbered, as PREPARE takes it, and NULLs to EXECUTE it with."""
    places = {}
    text = re.sub(
        r"%\((\w+)\)s",
        lambda match: f"${places.setdefault(match[1], len(places) + 1)}",
        db.statement(name),
    ).replace("%%", "%")
    return text, f"({', '.join(['NULL'] * len(places))})" if places else ""
