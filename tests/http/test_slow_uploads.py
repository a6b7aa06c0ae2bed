"""A body that takes longer to arrive than the database may take to answer."""

import socket
import time

import psycopg
import pytest
from client import count
from server import ALICE, Answer, serving

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
    "after 100 Continue": (length(SMALL) + b"Expect: 100-continue\r\n", SMALL[:70], SMALL[70:]),
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


@pytest.mark.parametrize("key", ["", "Idempotency-Key: upload\r\n"], ids=["", "with a key"])
@pytest.mark.parametrize("upload", UPLOADS)
def test_a_slow_upload_succeeds_and_holds_no_database_connection(
    database_url, connection, upload, key
):
    headers, first, rest = UPLOADS[upload]
    settings = {"STATEMENT_TIMEOUT": "0.3", "WEB_CONCURRENCY": "1"}
    with (
        serving(database_url, **settings) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as client,
    ):
        head = f"POST /api/tasks HTTP/1.1\r\n{ALICE}{key}Connection: close\r\n".encode()
        client.sendall(head + headers + b"\r\n" + first)
        if b"Expect" in headers:
            assert client.recv(100).startswith(b"HTTP/1.1 100")
        # The upload takes longer than the 1.1 s during which a request may use the database.
        time.sleep(2)
        held = backends(database_url)
        assert set(held.values()) <= {"idle"}
        client.sendall(rest)
        raw = b""
        while received := client.recv(65536):
            raw += received
        assert Answer(raw).status == 201
        assert held.keys() <= backends(database_url).keys()
    assert count(connection, "tasks") == 1
