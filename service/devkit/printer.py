"""The webhook receiver of ``dev --receiver``, which verifies each event and prints it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import click

from service.commands.base import printable
from service.devkit.signatures import is_genuine

# A later start recognizes the webhook of an earlier start by this path.
PATH = "/printed-by-dev"
URL_PATTERN = rf"^http://127\.0\.0\.1:[0-9]+{PATH}$"


class Handler(BaseHTTPRequestHandler):
    """Prints one request, and accepts it if its signatures are genuine."""

    server: "Printer"

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        body = self.rfile.read(int(length) if re.fullmatch("[0-9]{1,9}", length) else 0)
        genuine = is_genuine(self.headers.get, body, self.server.secret)
        click.echo(describe(body, genuine))
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log the request; ``do_POST`` has printed the event."""


class Printer(ThreadingHTTPServer):
    """A server on a free port of this machine; ``secret`` is the secret of the webhook."""

    daemon_threads = True
    secret = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{PATH}"


def describe(body: bytes, genuine: bool) -> str:
    """Format an event: a line with time, type and whether the signature is valid, then the JSON."""
    try:
        event = json.loads(body)
        kind = event.get("type") if isinstance(event, dict) else None
        lines = json.dumps(event, indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        kind, lines = None, body.decode(errors="replace").splitlines()
    verdict = "signature valid" if genuine else "SIGNATURE INVALID"
    head = f"{datetime.now():%H:%M:%S} webhook {kind or 'without a type'}, {verdict}"
    return "\n".join(printable(line) for line in (head, *lines))


@contextmanager
def printing() -> Iterator[Printer]:
    with Printer() as printer:
        Thread(target=printer.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield printer
        finally:
            printer.shutdown()
