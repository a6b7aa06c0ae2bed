"""Bodies that take longer to arrive than the database may take to answer."""

import socket
import time
from contextlib import ExitStack
from itertools import product

import psycopg
from client import count
from server import ALICE, Answer, receive_all, serving

TITLE = b'{"title": "Uploaded", "description": "%b"}'
LARGE, SMALL = TITLE % (b"x" * 65_536), TITLE % (b"x" * 3_000)


def length(body):
    return b"Content-Length: %d\r\n" % len(body)


def chunks(body):
    return b"%x\r\n%b\r\n" % (len(body), body)


# The head and the two parts of the body that a client sends.
UPLOADS = {
    "large": (length(LARGE), LARGE[:70], LARGE[70:]),
    "chunked": (
        b"Transfer-Encoding: chunked\r\n",
        chunks(SMALL[:70]),
        chunks(SMALL[70:]) + b"0\r\n\r\n",
    ),
    "after-100-continue": (length(SMALL) + b"Expect: 100-continue\r\n", SMALL[:70], SMALL[70:]),
}


def backends(database_url):
    """Return the database connections of the web processes, each with its start time."""
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
        uploads = {}
        for name, key in product(UPLOADS, ("", "Idempotency-Key: {}\r\n")):
            address = "127.0.0.1", server.port
            client = stack.enter_context(socket.create_connection(address, timeout=10))
            headers, first, _ = UPLOADS[name]
            head = f"POST /api/tasks HTTP/1.1\r\n{ALICE}{key.format(name)}Connection: close\r\n"
            client.sendall(head.encode() + headers + b"\r\n" + first)
            if b"Expect" in headers:
                assert client.recv(100).startswith(b"HTTP/1.1 100")
            uploads[name, key] = client
        # The uploads take longer than the 1.1 s during which a request may use the database.
        time.sleep(2)
        held = backends(database_url)
        assert set(held.values()) <= {"idle"}
        for (name, key), client in uploads.items():
            client.sendall(UPLOADS[name][-1])
            assert Answer(receive_all(client)).status == 201, (name, key)
        assert held.keys() <= backends(database_url).keys()
    assert count(connection, "tasks") == len(uploads)
