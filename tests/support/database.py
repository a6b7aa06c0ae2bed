"""The pool of a service in this process: open it, end its connections, trace their messages."""

import re
import tempfile

from psycopg.conninfo import conninfo_to_dict
from support.http import Client
from support.rows import TOKENS


def alice_at(app):
    return Client(app, TOKENS["alice"])


def open_pool(app):
    """Return the pool of a service that has had no request yet."""
    app.extensions["pool"].open()
    return app.extensions["pool"]


def end_connections(connection, url):
    """End the connections of the role in this URL; return how many there were.

    A test passes ``own_url``, whose role no other test uses.
    """
    return len(
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = %s AND pid <> pg_backend_pid()",
            (conninfo_to_dict(url)["user"],),
        ).fetchall()
    )


def unavailable(response):
    assert response.status_code == 503
    assert response.content_type == "application/json"
    assert response.get_json()["status"] == 503
    assert "database" in response.get_json()["message"]
    assert int(response.headers["Retry-After"]) >= 1
    return True


def traced(app, method, path, body=None):
    """Send a request; return how many statements and round trips it needs.

    The pool must have only one connection, because this traces the messages of one connection.
    """
    pool = app.extensions["pool"]
    with tempfile.TemporaryFile("r") as trace:
        with pool.connection() as connection:
            connection.pgconn.trace(trace.fileno())
        response = alice_at(app).send(method, path, json=body)
        with pool.connection() as connection:
            connection.pgconn.untrace()
        assert response.status_code < 500
        trace.seek(0)
        sent = re.findall(r"^[0-9 :.-]+\tF\t[0-9]+\t(\w+)", trace.read(), re.MULTILINE)
    return {
        "statements": sent.count("Execute") + sent.count("Query"),
        "round trips": sent.count("Sync") + sent.count("Query"),
    }
