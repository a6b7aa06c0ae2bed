"""The gunicorn worker: clients are read and written in its poller, and a thread never waits for one.

Connections wait in lines, each with a time limit and sorted by it. Plain TCP only; TLS is a proxy's task.
"""

import errno
import select
import socket
import time
import traceback
from collections import deque
from concurrent.futures import Future
from http import HTTPStatus
from io import BytesIO
from re import IGNORECASE, compile
from secrets import token_hex
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from gunicorn.http.errors import (
    ConfigurationProblem,
    ExpectationFailed,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker
from werkzeug.exceptions import RequestTimeout

from service import errors

# Seconds: for the head and a small body; for a large body; for taking the answer; for closing.
READ, LARGE_READ, WRITE, LINGER = 10, 10, 30, 1
# Bytes: of a head; of a body that is read before a thread begins; of what is drained before closing;
# of the answers that one worker keeps for slow readers.
HEAD, SMALL_BODY, DRAIN, UNSENT = 2**15, 2**16, 2**22, 2**25

TOO_SLOW = "The request did not come in time"
FRAMING = compile(rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:([^\r]*)", IGNORECASE)
STATUS = {LimitRequestLine: 414, LimitRequestHeaders: 431, ExpectationFailed: 417}
OUR_FAULT = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)


class ClientSocket(socket.socket):
    """A socket that never blocks: reads give up at ``deadline``, writes keep what does not fit."""

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        self.deadline = 0.0
        self.request: Any = None
        self.unsent = bytearray()

    def setblocking(self, flag: bool) -> None:
        """Leave it as it is: gunicorn switches it for each request, which is a system call each time."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Wait for bytes in a thread; raises 408 once the time of the request is up."""
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                return super().recv(size, flags)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self, select.POLLIN)
                poll.poll(left * 1000)
        if self.request:
            self.request.force_close()
        raise RequestTimeout(TOO_SLOW)

    def recv_now(self, size: int) -> bytes:
        return super().recv(size)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Keep it for ``flush``: head and body leave together."""
        self.unsent += data

    def send(self, data: Any, flags: int = 0) -> int:
        """100 Continue, for which the client waits."""
        self.sendall(data)
        self.flush()
        return len(data)

    def flush(self) -> bool:
        """Send as much as the client takes now; whether that was all."""
        try:
            while self.unsent:
                del self.unsent[: super().send(self.unsent)]
        except BlockingIOError:
            return False
        return True


class Line(deque["Connection"]):
    """Connections that wait for the same: for ``event``, each at most ``seconds``, oldest first."""

    def __init__(self, seconds: float, event: int = EVENT_READ) -> None:
        super().__init__()
        self.seconds, self.event = seconds, event


class Connection(TConn):
    """A client, and the line it waits in: none while a thread has its request."""

    sock: ClientSocket
    line: Line | None = None
    drained = 0
    size: int | None = None
    reuse = False

    @property
    def buffer(self) -> BytesIO:
        return self.parser.unreader.buf


class Worker(ThreadWorker):
    """gunicorn's threads, given complete requests only."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.keepalived_conns = Line(self.cfg.keepalive)
        self.pending_conns = Line(READ)
        self.flushing = Line(WRITE, EVENT_WRITE)
        self.lingering = Line(LINGER)
        self.lines = self.keepalived_conns, self.pending_conns, self.flushing, self.lingering

    def load_wsgi(self) -> None:
        """Without Upgrade: werkzeug would look for a WebSocket route, and there is none."""
        super().load_wsgi()
        app = self.wsgi

        def plain(environ: dict[str, Any], start_response: Any) -> Any:
            environ.pop("HTTP_UPGRADE", None)
            return app(environ, start_response)

        self.wsgi = plain

    def handle_exit(self, number: int, frame: Any) -> None:
        """Told to stop, stop listening too: a new client is refused, not kept waiting."""
        super().handle_exit(number, frame)
        self.method_queue.defer(self.close_listeners)

    def close_listeners(self) -> None:
        self.set_accept_enabled(False)
        for listener in self.sockets:
            listener.close()

    def _cap_keepalive(self, deadline: float) -> None:
        """A stopping worker waits as briefly for half a request as for the next one."""
        for line in (self.keepalived_conns, self.pending_conns):
            line.seconds = min(line.seconds, STOP_KEEPALIVE_LINGER)
            for conn in line:
                conn.timeout = min(conn.timeout, deadline)

    def accept(self, listener: Any) -> None:
        """To the poller, not to a thread; when there are too many, room is made rather than waited for."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.evict()
            return
        if self.nr_conns >= self.max_keepalived:
            self.evict()
        conn = Connection(self.cfg, ClientSocket(accepted), address, listener.getsockname())
        conn.init()
        self.nr_conns += 1
        self.wait(conn, self.pending_conns)

    def evict(self) -> None:
        """Drop the oldest of those that are most: a flood pushes out itself, not who was just accepted."""
        line = max(self.lines, key=len)
        if line:
            self.drop(line[0])

    def wait(self, conn: Connection, line: Line) -> None:
        if conn.line is line:
            return
        self.leave(conn)
        conn.line = line
        conn.timeout = time.monotonic() + line.seconds
        line.append(conn)
        self.poller.register(conn.sock, line.event, lambda _: self.on_ready(conn))

    def leave(self, conn: Connection) -> None:
        if conn.line is not None:
            self.poller.unregister(conn.sock)
            conn.line.remove(conn)
            conn.line = None

    def drop(self, conn: Connection) -> None:
        self.leave(conn)
        self.nr_conns -= 1
        conn.close()

    def on_ready(self, conn: Connection) -> None:
        """Read or write what is possible now."""
        if conn.line is self.flushing:
            self.proceed(conn)
        elif conn.line is not None:
            try:
                received = conn.sock.recv_now(2**16)
            except BlockingIOError:
                return
            except OSError:
                received = b""
            if conn.line is not self.lingering:
                self.receive(conn, received)
            elif not received or conn.drained > DRAIN:
                self.drop(conn)
            else:
                conn.drained += len(received)

    def receive(self, conn: Connection, received: bytes) -> None:
        conn.buffer.seek(0, 2)
        conn.buffer.write(received)
        if received:
            self.admit(conn)
        elif conn.buffer.tell():
            # The client stopped sending: whatever that means for its request, a thread need not wait.
            self.enqueue_req(conn)
        else:
            self.drop(conn)

    def admit(self, conn: Connection) -> None:
        """Give the request to a thread if it is there; if not, it has the time of its line to come."""
        held = conn.buffer.tell()
        if not held:
            self.wait(conn, self.keepalived_conns)
            return
        if conn.size is None:
            conn.size = request_size(conn.buffer.getvalue())
        if conn.size is None and held > HEAD:
            self.refuse(conn, LimitRequestHeaders(f"The head has more than {HEAD} bytes"))
        elif conn.size is None or held < conn.size:
            self.wait(conn, self.pending_conns)
        else:
            self.enqueue_req(conn)

    def enqueue_req(self, conn: Connection) -> None:
        self.leave(conn)
        conn.size = None
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> bool:
        conn.sock.deadline = time.monotonic() + LARGE_READ
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Connection) -> bool:
        conn.sock.request = req
        try:
            return super().handle_request(req, conn)
        finally:
            conn.sock.flush()

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """Go on behind a body that nobody read only if it is here already: no thread drains a client."""
        conn.sock.deadline = 0
        try:
            return keepalive and conn.parser.finish_body()
        except (ParseException, RequestTimeout, OSError):
            return False

    def finish_request(self, conn: Connection, future: "Future[bool]") -> None:
        """What follows an answer follows once the client has taken it."""
        try:
            conn.reuse = future.result()
        except Exception:
            conn.reuse = False
        self.proceed(conn)

    def proceed(self, conn: Connection) -> None:
        try:
            if not conn.sock.flush():
                self.wait(conn, self.flushing)
                self.bound_unsent()
            elif conn.reuse:
                self.admit(conn)
            else:
                # Closed at once, unread bytes would make the system take the answer back.
                conn.sock.shutdown(socket.SHUT_WR)
                self.wait(conn, self.lingering)
        except OSError:
            self.drop(conn)

    def bound_unsent(self) -> None:
        unsent = sum(len(conn.sock.unsent) for conn in self.flushing)
        while unsent > UNSENT and len(self.flushing) > 1:
            unsent -= len(self.flushing[0].sock.unsent)
            self.drop(self.flushing[0])

    def murder_pending(self) -> None:
        """408 to those who began a request and ran out of time; the others are just closed."""
        now = time.monotonic()
        for line in (self.pending_conns, self.flushing, self.lingering):
            while line and line[0].timeout <= now:
                if line is self.pending_conns and line[0].buffer.tell():
                    self.refuse(line[0], RequestTimeout(TOO_SLOW))
                else:
                    self.drop(line[0])

    def refuse(self, conn: Connection, fault: Exception) -> None:
        self.handle_error(None, conn.sock, conn.client, fault)
        conn.reuse = False
        self.proceed(conn)

    def handle_error(self, req: Any, client: ClientSocket, address: Any, fault: Exception) -> None:
        """JSON like every other error; the log gets the class only, since the rest is what a client sent."""
        name = type(fault).__name__
        if isinstance(fault, RequestTimeout | ParseException) and not isinstance(fault, OUR_FAULT):
            self.log.warning("Invalid request from ip=%s: %s", address[0] if address else "", name)
            status = 408 if isinstance(fault, RequestTimeout) else STATUS.get(type(fault), 400)
            message = getattr(fault, "description", None) or str(fault)[:200]
        else:
            frames = "".join(traceback.format_tb(fault.__traceback__))
            self.log.error("Error handling request: %s\n%s", name, frames)
            status, message = 500, "Internal Server Error"
        try:
            client.sendall(error_page(status, message))
        except OSError:
            self.log.debug("The client of an error page is gone")


def request_size(received: bytes) -> int | None:
    """How many bytes a thread needs to begin with: the head and a small body; None while it is unknown."""
    end = received.find(b"\r\n\r\n") + 4
    if end < 4 or end > HEAD:
        # A line that ends otherwise is refused by the parser; it need not wait for the rest.
        return None if received.count(b"\n") == received.count(b"\r\n") else len(received)
    found = FRAMING.findall(received, 0, end)
    if len(found) != 1 or found[0][0].lower() != b"content-length":
        return end
    length = found[0][1].strip(b" \t")
    small = len(length) < 10 and length.isdigit() and int(length) <= SMALL_BODY
    return end + int(length) if small else end


def error_page(status: int, message: str) -> bytes:
    """A whole answer for a request that never reached the application."""
    request_id = token_hex(8)
    body = errors.body(status, message, request_id=request_id)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        "X-RateLimit-Limit: 60\r\n"
        "X-RateLimit-Remaining: 0\r\n"
        f"X-RateLimit-Reset: {int(time.time()) + 60}\r\n\r\n"
    )
    return head.encode("latin-1") + body
