"""Clients of the service, checks of its responses, and rows that are inserted past the service."""

import uuid
from hashlib import sha256
from threading import Lock

import click
import psycopg
from click.testing import CliRunner
from openapi_check import check_against_document
from pages import blocks, replaced
from psycopg.conninfo import make_conninfo

from service.__main__ import main
from service.commands.migrate import migrate
from service.database.statements import STATEMENTS
from service.settings import Settings

# An id that no row has.
UNKNOWN = "01890000-0000-7000-8000-000000000000"
SESSION = "tmw_session_alice"
TOKENS = {name: f"tmw_api_{name}" for name in ("alice", "bob", "charlie")}


def insert(connection, table, **values):
    """Insert a row past the service, and return its id as the API shows it."""
    columns, marks = ", ".join(values), ", ".join(["%s"] * len(values))
    sql = f"INSERT INTO {table} ({columns}) VALUES ({marks}) RETURNING id"
    return str(connection.execute(sql, list(values.values())).fetchone()["id"])


def insert_member(connection, workspace_id, user_id, role="member"):
    connection.execute(
        "INSERT INTO members (workspace_id, user_id, role) VALUES (%s, %s, %s)",
        (workspace_id, user_id, role),
    )


def activate(connection, workspace_id, user_id):
    """Make a workspace the active one of a user."""
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (workspace_id, user_id)
    )


def insert_token(
    connection,
    user_id,
    token,
    *,
    kind="api",
    scope="write",
    expires="infinity",
    revoked=None,
    workspace_id=None,
):
    """Insert a credential whose text the test chooses; return its id."""
    row = connection.execute(
        "INSERT INTO tokens (user_id, kind, scope, hash, expires_at, revoked_at, workspace_id)"
        " VALUES (%s, %s, %s, %s, nullif(%s::timestamptz, 'infinity'), %s, %s) RETURNING id",
        (user_id, kind, scope, sha256(token.encode()).digest(), expires, revoked, workspace_id),
    ).fetchone()
    return str(row["id"])


def row_of(connection, table, id):
    """The row with this id, and the transaction that wrote it; None if there is none."""
    return connection.execute(
        f"SELECT *, xmin::text AS xmin FROM {table} WHERE id = %s", (id,)
    ).fetchone()


def count(connection, table, where="true"):
    return connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()["count"]


def grants(database, role):
    """Return the SQL that gives a role the rights of docs/operations.md, and takes those of all."""
    (block,) = blocks("docs/operations.md", "sql")
    return (
        f"REVOKE ALL ON DATABASE {database} FROM PUBLIC;"
        "REVOKE ALL ON SCHEMA public FROM PUBLIC;"
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;"
    ) + replaced(block, (" service ", f" {database} "), (" app;", f" {role};"))


class Client:
    """A client with a bearer token, with a session cookie, or without credentials."""

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


def error_message(response, status):
    """Return the message of an error response, after checking its form."""
    error = response.get_json()
    assert response.status_code == status, error
    assert list(error) == [
        name for name in ("message", "status", "errors", "requestId") if name in error
    ]
    assert error["status"] == status
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert error["message"]
    return error["message"]


def invalid_field(response, field):
    """Return the message of a 400 about its one field; body and errors must agree."""
    message = error_message(response, 400)
    (fault,) = response.get_json()["errors"]
    assert list(fault) == ["field", "message"]
    assert fault["field"].split("[")[0] == field
    assert message == f"{fault['field']}: {fault['message']}"
    return fault["message"]


def read_all(client, path, **query):
    """Return all items of a list, page by page; Link must lead where nextCursor leads."""
    items = []
    response = client.get(path, query_string=query)
    while True:
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
        response = client.get(path, query_string=query)
        assert client.get(link[5 : link.index(">")]).get_json() == response.get_json()


def names(schema):
    """The names of the members of a response, in their order."""
    return [field.data_key for field in schema().dump_fields.values()]


def ids(items):
    return [item["id"] for item in items]


def commands(group, *path):
    """Yield all groups and commands below a group, each with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


class CommandRunner(CliRunner):
    """Runs ``task-service`` in this process with the settings of a service.

    A second command at the same time fails: both would change the streams of the process.
    """

    running = Lock()

    def __init__(self, service):
        super().__init__()
        self.settings = service.config["SETTINGS"]

    def invoke(self, args, **options):
        assert self.running.acquire(blocking=False), "another command is running"
        try:
            return super().invoke(main, args, obj=self.settings, **options)
        finally:
            self.running.release()


def label(value):
    """The name of a parameter in the output of pytest."""
    text = ascii(value)
    return text if len(text) < 40 else f"{len(text)} characters"


def numbered(name):
    """``sql/<name>.sql`` as PREPARE takes it, and the names of its parameters in order."""
    statement = STATEMENTS[name]
    return statement.text.decode(), statement.parameters


def preparable(name):
    """``sql/<name>.sql`` as PREPARE takes it, and NULLs to EXECUTE it with."""
    text, names = numbered(name)
    return text, f"({', '.join(['NULL'] * len(names))})" if names else ""


def configure(connection):
    """Set up a connection in a transaction as the pool does, so that plans are the pool's."""
    timeouts = {"statement_timeout": "0", "idle_timeout": "0"}
    connection.execute(STATEMENTS["connection/configure"].source, timeouts)


def flattened(tree):
    """Return the nodes of a plan."""
    nodes, stack = [], [tree["Plan"]]
    while stack:
        nodes.append(stack.pop())
        stack.extend(nodes[-1].get("Plans", ()))
    return nodes


def generic_plan(connection, name):
    """Return the nodes of the plan that ``sql/<name>.sql`` has for any values."""
    text, nulls = preparable(name)
    connection.execute(f"PREPARE it AS {text}")
    explained = connection.execute(f"EXPLAIN (FORMAT json) EXECUTE it{nulls}").fetchone()
    connection.execute("DEALLOCATE it")
    return flattened(explained["QUERY PLAN"][0])


def waiting(connection):
    """Return how many statements wait for a lock."""
    return connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()["count"]


def new_database(server):
    """Yield the URL of a migrated database on this server; drop the database in the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        url = make_conninfo(server, dbname=name)
        migrate(Settings.read({"DATABASE_URL": url}))
        yield url
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
