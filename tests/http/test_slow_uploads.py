"""Bodies that take longer to arrive than the database may take to answer."""

import time
from contextlib import ExitStack

import psycopg
from client import count
from server import ALICE, TASK, Answer, connect, receive_all, serving


def backends(database_url):
    """Return the database connections of the web processes, each with its start and its state."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid, backend_start, state FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            "   AND application_name LIKE 'task-service web %'"
        )
        return {row[:2]: row[2] for row in rows}


def test_slow_uploads_succeed_and_hold_no_database_connection(database_url, connection):
    settings = {"STATEMENT_TIMEOUT": "0.3", "WEB_CONCURRENCY": "1"}
    with serving(database_url, **settings) as server, ExitStack() as stack:
        uploads = [stack.enter_context(connect(server.port)) for _ in range(2)]
        for client, key in zip(uploads, ("", "Idempotency-Key: k\r\n"), strict=True):
            head = f"POST /api/tasks HTTP/1.1\r\n{ALICE}{key}Connection: close\r\n"
            client.sendall(f"{head}Content-Length: {len(TASK)}\r\n\r\n".encode() + TASK[:9])
        # The uploads take longer than the 1.1 s during which a request may use the database.
        time.sleep(2)
        held = backends(database_url)
        assert set(held.values()) <= {"idle"}
        for client in uploads:
            client.sendall(TASK[9:])
            assert Answer(receive_all(client)).status == 201
        assert held.keys() <= backends(database_url).keys()
    assert count(connection, "tasks") == len(uploads)
