"""Receivers of webhooks. They are real servers on loopback, and can fail in all known ways."""

import os
import ssl
import struct
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from socket import SO_LINGER, SOL_SOCKET
from threading import Event, Lock, Thread

from support.openapi_check import LOGIN_KEY
from support.project import PROJECT, blocks
from support.rows import insert

from service.webhooks import secrets

KEY = "only for the tests and long enough"
FINGERPRINT = secrets.fingerprint(KEY)
# A self-signed certificate for receiver.test, valid for a hundred years.
CERTIFICATE = PROJECT / "tests" / "receiver.pem"

# Seconds to wait for something that happens immediately on an idle machine.
PATIENCE = 60


@dataclass(frozen=True)
class Received:
    path: str
    headers: Message
    body: bytes


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.body = body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return  # The sender was killed.
        behaviour = self.server.next_behaviour()
        self.server.received.put(Received(self.path, self.headers, body))
        self.close_connection = True
        behaviour(self)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        pass


class Receiver(ThreadingHTTPServer):
    """Puts every request into ``received``, and responds with the behaviours that the test sets."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *behaviours, address=("127.0.0.1", 0), tls=False):
        super().__init__(address, Handler)
        self.received = Queue()
        # Ends the behaviours that hang or drip. A test may set it, and ``close`` sets it.
        self.released = Event()
        self.connections = 0
        self.server_names = []
        self.sent = 0
        self._lock = Lock()
        self.behaves(*behaviours or [answer(200)])
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            context.sni_callback = lambda _socket, name, _context: self.server_names.append(name)
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def behaves(self, *behaviours):
        """Use each behaviour for one of the next requests, and the last one for all later ones."""
        self.behaviours = deque(behaviours)

    def next_behaviour(self):
        with self._lock:
            return self.behaviours.popleft() if len(self.behaviours) > 1 else self.behaviours[0]

    def take(self):
        try:
            return self.received.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError(f"no request arrived within {PATIENCE} s") from None

    def take_all(self):
        received = []
        with suppress(Empty):
            while True:
                received.append(self.received.get_nowait())
        return received

    def verify_request(self, _request, _address):
        self.connections += 1
        return True

    def handle_error(self, _request, _address):
        """Do not print a traceback, because in these tests senders often disconnect."""

    def close(self):
        self.released.set()
        self.shutdown()
        self.server_close()


def answer(status, body=b"thanks", **headers):
    def behave(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def hang(handler):
    """Do not respond until ``released`` is set, or for 30 seconds."""
    handler.server.released.wait(30)
    answer(200)(handler)


def drip_body(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    drip(handler)


def drip_body_of_unknown_length(handler):
    handler.send_response(200)
    handler.end_headers()
    drip(handler)


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip(handler)


def drip(handler):
    while not handler.server.released.wait(0.3):
        handler.wfile.write(b"x")


def hold_body(handler):
    """Send only the head of a response; keep the connection open until ``released`` is set."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.server.released.wait(30)


def cut_body(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"the beginning")


def garbled_body(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"d\r\nthe beginning\r\nno chunk\r\n")


def reset(handler):
    handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())


def gibberish(handler):
    handler.wfile.write(b"220 mail.example.com ESMTP ready\r\n")


def endless(handler):
    """Send a gigabyte; ``sent`` counts the bytes that the sender accepted."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(2**30))
    handler.end_headers()
    for _ in range(2**14):
        handler.wfile.write(b"x" * 2**16)
        handler.server.sent += 2**16


# The settings that enable webhooks to these receivers.
WEBHOOK_SETTINGS = {
    "WEBHOOK_KEY": KEY,
    "WEBHOOK_ALLOW": "127.0.0.1/32",
    "WEBHOOK_SCHEDULE": "0.1,60",
}


def environment(database_url, **changes):
    """Return environment variables that enable webhooks to these receivers."""
    return {"DATABASE_URL": database_url, "LOGIN_KEY": LOGIN_KEY, **WEBHOOK_SETTINGS, **changes}


def subscribe(connection, workspace_id, url, *events, **columns):
    """Insert a webhook without the service, with a secret derived from KEY; return the id."""
    columns = {"url": url, "events": list(events), "key_fingerprint": FINGERPRINT, **columns}
    return insert(connection, "webhooks", workspace_id=workspace_id, **columns)


def secret_of(webhook_id, number=1):
    return secrets.derive_secret(KEY, webhook_id, number)


def announce(connection, workspace_id, times=1, type="task.created"):
    """Insert events that no request has caused, so only a worker posts them.

    A type that the document does not list stands for an event of a later release.
    """
    connection.execute(
        "SELECT announce(%s::uuid, %s, row_to_json(item))"
        " FROM (SELECT number FROM generate_series(1, %s) AS number) AS item",
        (workspace_id, type, times),
    )


def grow_older(connection, **age):
    """Make all events and attempts this old, make waiting deliveries due, and end back-offs."""
    age = timedelta(**age)
    connection.execute("UPDATE events SET created_at = now() - %s", (age,))
    connection.execute("UPDATE attempts SET at = now() - %s", (age,))
    connection.execute("UPDATE deliveries SET due_at = now() WHERE state = 'waiting'")
    connection.execute("UPDATE webhooks SET backoff_until = NULL")


def deliveries(connection):
    """Return all deliveries with the type and body of their events, oldest first."""
    return connection.execute(
        "SELECT delivery.*, event.type, event.body FROM deliveries AS delivery"
        " JOIN events AS event ON event.id = delivery.event_id ORDER BY delivery.id"
    ).fetchall()


def attempts(connection):
    return connection.execute("SELECT * FROM attempts ORDER BY delivery_id, number").fetchall()


def webhook_row(connection, webhook_id):
    return connection.execute(
        "SELECT * FROM webhooks WHERE id = %s", (uuid.UUID(webhook_id),)
    ).fetchone()


def is_genuine(secret, body, signature):
    """Verify ``X-Service-Signature`` with the example in docs/webhooks.md."""
    names = {}
    exec(blocks("docs/webhooks.md", "python")[0], names)
    return names["is_genuine"](secret, body, signature)


def verified(secret, received, body=None):
    """Verify a post with the Standard Webhooks example in docs/webhooks.md; return the event."""
    names = {"secret": secret, "body": body or received.body, "headers": received.headers}
    exec(blocks("docs/webhooks.md", "python")[1], names)
    return names["event"]
