"""/ lists the public documents; /healthz is 200 only while the database is migrated and usable."""

from time import monotonic

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.http import Client, error_message
from support.openapi_check import check_against_document
from support.processes import wait_until
from support.rows import TOKENS

from service.app import create_app
from service.commands.migrate import migrate
from service.database.statements import migrations, schema_objects
from service.settings import Settings
from service.version import version
from service.web.access_log import ARRIVED


def checking(app):
    """Return a function that requests /healthz of this service."""

    def check():
        response = app.test_client().get("/healthz")
        check_against_document(response)
        return response

    return check


@pytest.fixture
def check(empty, start):
    return checking(start(Settings.read({"DATABASE_URL": empty})))


@pytest.fixture
def check_other(other, start):
    return checking(start(Settings.read({"DATABASE_URL": other})))


def assert_pending(response):
    message = error_message(response, 503)
    assert message == "The database lacks migrations: run the command migrate"
    # A client retries after 5 s, because a migration takes seconds.
    assert response.headers["Retry-After"] == "5"


@pytest.mark.slow
def test_healthz_returns_503_until_all_migrations_are_applied(empty, check):
    assert_pending(check())
    migrate(Settings.read({"DATABASE_URL": empty}))
    assert check().get_json() == {"status": "ok"}
    last = migrations()[-1]
    with psycopg.connect(empty, autocommit=True) as connection:
        # With a database that is newer than the code, the service is healthy.
        connection.execute(
            "INSERT INTO schema_migrations VALUES ('9999-future', repeat('0', 64), now(), '9.9.9')"
        )
        assert check().status_code == 200
        connection.execute("DELETE FROM schema_migrations WHERE name = %s", (last,))
        assert_pending(check())


def test_healthz_returns_503_until_the_functions_of_this_release_are_applied(other, check_other):
    change = "UPDATE schema_functions SET sha256 = repeat('0', 64), release = %s"
    with psycopg.connect(other, autocommit=True) as connection:
        # This release has not changed the text since then.
        connection.execute("UPDATE schema_functions SET release = '0.9.0'")
        assert check_other().status_code == 200
        connection.execute(change, ("0.9.0",))
        assert_pending(check_other())
        # After a rollback the old code runs with the newer functions.
        connection.execute(change, ("9999.0.0",))
        assert check_other().status_code == 200
        # Another build of this release has replaced the functions under this process.
        connection.execute(change, (version(),))
        assert check_other().status_code == 200
        connection.execute("DELETE FROM schema_functions WHERE name = 'functions/tasks'")
        assert_pending(check_other())
        # Release 1.1.0 has no such table.
        connection.execute("DROP TABLE schema_functions")
        connection.execute("DELETE FROM schema_migrations WHERE name = '0022-functions'")
        assert_pending(check_other())


def test_healthz_returns_503_while_the_database_is_read_only(other, check_other):
    assert check_other().status_code == 200
    name = conninfo_to_dict(other)["dbname"]
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        end_others(connection)
        message = error_message(check_other(), 503)
        assert message == "The database accepts no writes; the command status says why"
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    # The pool replaces connections that still have the setting.
    wait_until(lambda: check_other().status_code == 200)


def end_others(connection):
    """End the connections of the pool, because only new ones have the new settings."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchall()


MISSING = "A table, function, trigger or constraint is missing; the command status names it"


def test_healthz_returns_503_while_a_table_is_missing(other, check_other):
    with psycopg.connect(other, autocommit=True) as connection:
        for table in set(schema_objects()["tables"]) - {"schema_migrations"}:
            assert check_other().status_code == 200, table
            connection.execute(f"ALTER TABLE {table} RENAME TO renamed")
            message = error_message(check_other(), 503)
            assert message == MISSING
            connection.execute(f"ALTER TABLE renamed RENAME TO {table}")
    assert check_other().status_code == 200


@pytest.mark.parametrize(
    "item",
    [
        "TABLE tasks",
        "TABLE schema_migrations",
        "SEQUENCE event_positions",
        "FUNCTION announce",
        "SCHEMA public",
    ],
)
def test_healthz_returns_503_while_the_service_may_not_use_an_object(other, start, granted, item):
    with granted(other) as (role, url), psycopg.connect(other, autocommit=True) as owner:
        client = start(Settings.read({"DATABASE_URL": url})).test_client()
        assert client.get("/healthz").status_code == 200
        owner.execute(f"REVOKE ALL ON {item} FROM {role}")
        message = error_message(client.get("/healthz"), 503)
        assert message.startswith("The service lacks rights in its database")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_healthz_returns_503_until_the_database_has_utf8(
    encoding, database_url, empty, check, caplog
):
    name = conninfo_to_dict(empty)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"DROP DATABASE {name}")
        server.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        # More requests than the pool has connections.
        for _ in range(Settings.read({}).web_threads + 1):
            message = error_message(check(), 503)
            assert message.endswith(
                "create one with ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"
            )
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    # The pool still has broken connections to the old database.
    while "lacks migrations" not in error_message(check(), 503):
        pass


def test_responses_are_utf_8_whatever_pgclientencoding_says(
    database_url, monkeypatch, start, connection, cast
):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    client = Client(start(Settings.read({"DATABASE_URL": database_url})), TOKENS["alice"])
    created = client.post("/tasks", {"title": "Grüße, 世界"})
    assert created.get_json()["title"] == "Grüße, 世界"
    assert connection.execute("SELECT title FROM tasks").fetchall() == [{"title": "Grüße, 世界"}]


@pytest.mark.nodatabase
@pytest.mark.parametrize("docs", ["on", "off"])
def test_the_root_lists_the_public_documents_and_each_document_gets_200(docs):
    client = create_app(Settings.read({"DOCS": docs})).test_client()
    response = client.get("/")
    check_against_document(response)
    name, *paths = response.get_json().values()
    assert name == "Task, Meeting and Workspace service"
    assert paths == ["/docs"] * (docs == "on") + ["/openapi.json", "/healthz"]
    for path in paths[:-1]:
        assert client.get(path).status_code == 200


@pytest.mark.nodatabase
def test_healthz_without_a_database_returns_503_about_two_seconds_after_the_request_arrived(start):
    variables = {"DATABASE_URL": "host=127.0.0.1 port=1", "POOL_TIMEOUT": "9"}
    client = start(Settings.read(variables)).test_client()
    arrived = monotonic() - 1.5
    response = client.get("/healthz", environ_overrides={ARRIVED: arrived})
    assert error_message(response, 503)
    assert 1.8 < monotonic() - arrived < 2.7
