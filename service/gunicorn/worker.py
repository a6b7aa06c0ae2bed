"""The gunicorn worker: a poller reads requests and sends responses; no thread blocks on a client.

Connections wait in queues, each with a time limit and sorted by it. Plain TCP only: TLS is a
proxy's.
"""

import errno
import re
import socket
import struct
import time
import traceback
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from gunicorn.http import errors as faults
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker
from werkzeug.exceptions import RequestTimeout

from service.gunicorn.client_socket import ClientSocket
from service.gunicorn.error_page import error_page
from service.http import errors

# Seconds: for a request to arrive, for its response to be taken, for the client to close.
READ, WRITE, LINGER = 10, 30, 1
# Bytes: of a head, of a body that is read before a thread begins, of what is read before closing,
# of the responses that a worker keeps for those who do not take them.
HEAD, SMALL_BODY, DRAIN, UNSENT = 2**15, 2**16, 2**22, 2**25

FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:([^\r]*)", re.IGNORECASE
)
STATUS = {
    faults.ConfigurationProblem: 500,
    faults.InvalidResponseHeader: 500,
    faults.InvalidResponseHeaderName: 500,
    faults.LimitRequestLine: 414,
    faults.LimitRequestHeaders: 431,
    faults.ExpectationFailed: 417,
    faults.ParseException: 400,
    RequestTimeout: 408,
}


class Queue(deque["Connection"]):
    """Connections that wait for ``event``, oldest first, each for ``seconds`` at most."""

    def __init__(self, seconds: float, event: int = EVENT_READ) -> None:
        super().__init__()
        self.seconds, self.event = seconds, event


class Connection(TConn):
    """A client, and the queue it waits in: none while a thread has its request."""

    queue: Queue | None = None
    size: int | None = None
    reuse = False
    drained = 0


class RequestWorker(ThreadWorker):
    """gunicorn's threads, but they are given complete requests."""

    wsgi: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.keepalived_conns = Queue(self.cfg.keepalive)
        self.pending_conns = Queue(READ)
        self.flushing = Queue(WRITE, EVENT_WRITE)
        self.lingering = Queue(LINGER)

    def load_wsgi(self) -> None:
        """Without Upgrade: werkzeug would look for a WebSocket route, and the service has none."""
        super().load_wsgi()
        app = self.wsgi

        def plain(environ: dict[str, Any], start_response: Any) -> Any:
            environ.pop("HTTP_UPGRADE", None)
            return app(environ, start_response)

        self.wsgi = plain

    def handle_exit(self, number: int, frame: Any) -> None:
        """Stop listening when told to stop: gunicorn would let new clients wait for nobody."""

        def close_listeners() -> None:
            self.set_accept_enabled(False)
            for listener in self.sockets:
                listener.close()

        super().handle_exit(number, frame)
        self.method_queue.defer(close_listeners)

    def _cap_keepalive(self, deadline: float) -> None:
        """A stopping worker waits no longer for the rest of a request than for the next one."""
        for queue in (self.keepalived_conns, self.pending_conns):
            queue.seconds = min(queue.seconds, STOP_KEEPALIVE_LINGER)
            for conn in queue:
                conn.timeout = min(conn.timeout, deadline)

    def accept(self, listener: Any) -> None:
        """Straight to the poller: gunicorn would let a thread wait for the first byte."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            # gunicorn would end the worker when there are no more file descriptors.
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.evict()
            return
        conn = Connection(self.cfg, ClientSocket(accepted), address, listener.getsockname())
        conn.init()
        conn.sock.parser = conn.parser
        self.nr_conns += 1
        self.wait(conn, self.pending_conns)

    def evict(self) -> None:
        """Drop the oldest of the longest queue: a flood of connections pushes out its own."""
        queue = max(
            self.keepalived_conns, self.pending_conns, self.flushing, self.lingering, key=len
        )
        # A short one means that the threads have the others, who will soon be answered.
        if len(queue) > self.max_keepalived // 5:
            self.drop(queue[0])

    def wait(self, conn: Connection, queue: Queue) -> None:
        """Put it into this queue, unless it stands there: its time goes on then."""
        if conn.queue is not queue:
            self.leave(conn)
            conn.queue = queue
            conn.timeout = time.monotonic() + queue.seconds
            queue.append(conn)
            self.poller.register(conn.sock, queue.event, lambda _: self.on_ready(conn))
            # Before gunicorn stops accepting: it would wait for those that wait here.
            if self.nr_conns > self.max_keepalived:
                self.evict()

    def leave(self, conn: Connection) -> None:
        """Take it out of its queue."""
        if conn.queue is not None:
            self.poller.unregister(conn.sock)
            conn.queue.remove(conn)
            conn.queue = None

    def drop(self, conn: Connection) -> None:
        """Close it."""
        self.leave(conn)
        self.nr_conns -= 1
        if conn.sock.unsent:
            # By a reset: a response cut short must not look whole, nor stay in the kernel.
            with suppress(OSError):
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()

    def on_ready(self, conn: Connection) -> None:
        """Go on with a connection that can be read or written."""
        if conn.queue is None:
            return  # dropped just now, for another one
        if conn.queue is self.flushing:
            self.proceed(conn)
            return
        try:
            received = socket.socket.recv(conn.sock, 2**16)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if conn.queue is self.lingering:
            conn.drained += len(received)
            if not received or conn.drained > DRAIN:
                self.drop(conn)
        elif received:
            conn.parser.unreader.buf.seek(0, 2)
            conn.parser.unreader.buf.write(received)
            self.admit(conn)
        elif conn.parser.unreader.buf.tell():
            # The end: whatever it means for the request, no thread waits for more.
            self.enqueue_req(conn)
        else:
            self.drop(conn)

    def admit(self, conn: Connection) -> None:
        """Give a thread the request that is complete; wait for the rest of any other."""
        buffer = conn.parser.unreader.buf
        held = buffer.tell()
        if held and conn.size is None:
            conn.size = request_size(buffer.getvalue())
        if not held:
            self.wait(conn, self.keepalived_conns)
        elif conn.size is not None and held >= conn.size:
            self.enqueue_req(conn)
        elif conn.size is None and held > HEAD:
            self.reject(conn, faults.LimitRequestHeaders(f"The head has more than {HEAD} bytes"))
        else:
            self.wait(conn, self.pending_conns)

    def enqueue_req(self, conn: Connection) -> None:
        """Give its request to a thread."""
        self.leave(conn)
        conn.size = None
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> bool:
        """Respond, as far as the client takes it now; the poller sends the rest."""
        conn.sock.deadline = time.monotonic() + READ
        reuse: bool = super().handle(conn)
        with suppress(OSError):
            conn.sock.flush()
        return reuse

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """Reuse it behind an unread body only if all of it is here: no thread drains a client."""
        conn.sock.deadline = 0
        try:
            return bool(keepalive and conn.parser.finish_body())
        except (faults.ParseException, RequestTimeout, OSError):
            return False

    def finish_request(self, conn: Connection, future: "Future[bool]") -> None:
        """Take it back from the thread."""
        conn.reuse = not future.exception() and future.result()
        self.proceed(conn)

    def proceed(self, conn: Connection) -> None:
        """Once the response is sent, wait for the next request or for the client to close."""
        try:
            if not conn.sock.flush():
                self.wait(conn, self.flushing)
                while sum(len(slow.sock.unsent) for slow in self.flushing) > UNSENT:
                    if self.flushing[0] is conn:
                        break
                    self.drop(self.flushing[0])
            elif conn.reuse:
                self.admit(conn)
            else:
                # Closed with bytes unread, the system would take back the response; gunicorn's own
                # lingering keeps everybody waiting.
                conn.sock.shutdown(socket.SHUT_WR)
                self.wait(conn, self.lingering)
        except OSError:
            self.drop(conn)

    def murder_pending(self) -> None:
        """Close what is overdue: with 408 if it has begun a request, else without a word."""
        now = time.monotonic()
        for queue in (self.pending_conns, self.flushing, self.lingering):
            while queue and queue[0].timeout <= now:
                if queue is self.pending_conns and queue[0].parser.unreader.buf.tell():
                    self.reject(queue[0], errors.http_error("request_timeout"))
                else:
                    self.drop(queue[0])

    def reject(self, conn: Connection, fault: Exception) -> None:
        """Respond with an error that no thread is needed for."""
        self.handle_error(None, conn.sock, conn.client, fault)
        conn.reuse = False
        self.proceed(conn)

    def handle_error(self, _req: Any, client: ClientSocket, address: Any, fault: Exception) -> None:
        """JSON, not HTML; the log has nothing that the client sent: it may contain a token."""
        name = type(fault).__name__
        status = next((STATUS[kind] for kind in STATUS if isinstance(fault, kind)), 500)
        if status < 500:
            self.log.warning("Invalid request from ip=%s: %s", address[0] if address else "", name)
            message = getattr(fault, "description", str(fault)[:200])
        else:
            frames = "".join(traceback.format_tb(fault.__traceback__))
            self.log.error("Error handling request: %s\n%s", name, frames)
            message = "Internal Server Error"
        client.sendall(error_page(status, message))


def request_size(received: bytes) -> int | None:
    """The bytes that a thread needs to begin: the head and a small body; None while unknown."""
    end = received.find(b"\r\n\r\n") + 4
    if not 4 <= end <= HEAD:
        # The parser rejects lines that end otherwise; it must not wait for a proper end first.
        return None if received.count(b"\n") == received.count(b"\r\n") else len(received)
    found = FRAMING.findall(received, 0, end)
    if len(found) != 1 or found[0][0].lower() != b"content-length":
        return end
    length = found[0][1].strip(b" \t")
    small = len(length) < 10 and length.isdigit() and int(length) <= SMALL_BODY
    return end + int(length) if small else end
