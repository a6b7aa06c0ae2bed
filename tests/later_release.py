"""A proxy that makes of the service a later release, whose responses have one more field each.

The published document promises that responses may get new fields. The generated clients of the
proofs call the service through this proxy.
"""

import http.client
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

NEW = {"addedLater": {"more": [1]}}


def with_new_fields(value):
    """The value with one more field in each object."""
    if isinstance(value, list):
        return [with_new_fields(item) for item in value]
    if isinstance(value, dict):
        return {**{name: with_new_fields(item) for name, item in value.items()}, **NEW}
    return value


def without_new_fields(value):
    """The value as this release takes it: a later one would know its own fields."""
    return {name: item for name, item in value.items() if name not in NEW}


class Handler(BaseHTTPRequestHandler):
    """Passes a request on, and adds the new fields to the response."""

    protocol_version = "HTTP/1.1"

    def __getattr__(self, name):
        """Treat all methods alike."""
        if name.startswith("do_"):
            return self.forward
        raise AttributeError(name)

    def forward(self):
        """Pass a request on."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if body:
            body = json.dumps(without_new_fields(json.loads(body))).encode()
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("content-length", "connection", "host")
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=20)
        connection.request(self.command, self.path, body or None, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        if content and self.path != "/openapi.json":
            content = json.dumps(with_new_fields(json.loads(content))).encode()
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("content-length", "connection"):
                self.send_header(name, value)
        if response.status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def later_release(port):
    """Yield the port of the proxy in front of the service at this port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.upstream = port
        Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
