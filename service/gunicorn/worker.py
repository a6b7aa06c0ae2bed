"""The gunicorn worker: a poller reads requests and sends responses; no thread blocks on a client.

Plain TCP only: a proxy terminates TLS.
"""

import errno
import socket
import struct
import time
import traceback
from contextlib import suppress
from types import FrameType

from gunicorn.http import errors as faults
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from service.gunicorn import application
from service.gunicorn.client_socket import ClientSocket
from service.gunicorn.connection import HEAD, Address, Connection
from service.gunicorn.error_page import error_page, status_and_message
from service.gunicorn.queues import Queue, Queues
from service.gunicorn.request_threads import RequestThreads
from service.http.errors import http_error

# The bytes that are read from a client before its connection closes, and the bytes of responses
# that a worker keeps for slow readers; both are maximums.
DRAIN, UNSENT = 2**22, 2**25


class RequestWorker(ThreadWorker):
    """gunicorn's worker with threads, but its threads get complete requests only."""

    # Time limits in seconds: until a request has arrived; until a client reads more of its
    # response; until a client closes; until a thread takes a request, and a request for /healthz.
    READ, WRITE, LINGER, TAKE, TAKE_HEALTH = 10.0, 30.0, 1.0, 4.0, 1.5

    alive: bool
    sockets: list[socket.socket]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.queues = Queues(
            self.on_ready,
            keepalive=self.cfg.keepalive,
            read=self.READ,
            write=self.WRITE,
            linger=self.LINGER,
            take=self.TAKE,
            take_health=self.TAKE_HEALTH,
        )
        # gunicorn closes the connections in here whose time is up.
        self.keepalived_conns = self.queues.idle
        self.notified = 0.0
        # The time of the next attempt to accept, after the file descriptors have run out.
        self.accept_after = 0.0

    def init_process(self) -> None:
        """Make the settings plain attributes; gunicorn would compute a setting at each access."""
        self.cfg.__dict__.update((name, item.get()) for name, item in self.cfg.settings.items())
        super().init_process()

    def get_thread_pool(self) -> RequestThreads:
        """Return the threads that replace gunicorn's executor."""
        return RequestThreads(self.cfg.threads, self.serve_next)

    def run(self) -> None:
        """Serve until the worker is told to stop and has responded to every request."""
        self.queues.poller = self.poller
        super().run()

    def notify(self) -> None:
        """Tell the master once a second that this worker lives; gunicorn would at each event."""
        if time.monotonic() > self.notified + 1:
            self.notified = time.monotonic()
            super().notify()

    def handle_exit(self, number: int, frame: FrameType | None) -> None:
        """Close the listeners at a signal to stop, so that new clients are refused at once."""

        def close_listeners() -> None:
            self.set_accept_enabled(False)
            for listener in self.sockets:
                listener.close()

        super().handle_exit(number, frame)
        self.method_queue.defer(close_listeners)

    def _cap_keepalive(self, _deadline: float) -> None:
        """Shorten the wait for the rest of a request too, when this worker stops."""
        self.queues.shorten(STOP_KEEPALIVE_LINGER)

    # The poller. The main thread runs all methods of this part.

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for events, but no longer than until the next request must be rejected."""
        super().wait_for_and_dispatch_events(min(timeout, self.queues.seconds_until_rejection()))

    def set_accept_enabled(self, enabled: bool) -> None:
        """Start or stop to accept clients; gunicorn calls this before it waits for events."""
        super().set_accept_enabled(enabled and time.monotonic() >= self.accept_after)

    def accept(self, listener: socket.socket) -> None:
        """Give a new client to the poller; in gunicorn a thread would wait for the first byte."""
        if not self.alive:
            return  # SIGTERM came in the same round of events, so the listener may be closed.
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self.evict(0):
                self.log.warning("No file descriptor is left for a new client")
                self.accept_after = time.monotonic() + 1
                self.set_accept_enabled(False)
            return
        conn = Connection(self.cfg, ClientSocket(accepted), address, listener.getsockname())
        self.nr_conns += 1
        self.wait(conn, self.queues.reading)

    def wait(self, conn: Connection, queue: Queue) -> None:
        """Put the connection into this queue; the threads call this too."""
        self.queues.wait(conn, queue)
        # gunicorn would stop to accept, and new clients would wait until these connections end.
        if self.nr_conns > self.max_keepalived:
            self.method_queue.defer(self.evict, self.max_keepalived // 5)

    def evict(self, spare: int) -> bool:
        """Drop the oldest connection of the longest queue if that has more than ``spare``.

        Return True if a connection was dropped.
        """
        conn = self.queues.take_from_longest(spare)
        if conn is not None:
            self.drop(conn)
        return conn is not None

    def drop(self, conn: Connection) -> None:
        """Close the connection."""
        self.queues.leave(conn)
        self.nr_conns -= 1
        self.accept_after = 0.0
        if conn.sock.unsent:
            # Send RST, so that the client sees that the response is truncated, and so that the
            # kernel drops its buffered part of the response.
            with suppress(OSError):
                conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()

    def on_ready(self, conn: Connection) -> None:
        """Read from a connection that has data, or write to a connection that can take data."""
        if conn.queue is None:
            return  # ``evict`` has just dropped this connection.
        if conn.queue is self.queues.flushing:
            # The client has read some of the response, so its time limit begins again.
            self.queues.leave(conn)
            self.proceed(conn)
            return
        try:
            received = conn.receive()
        except BlockingIOError:
            return
        if conn.queue is self.queues.lingering:
            conn.drained += len(received)
            if not received or conn.drained > DRAIN:
                self.drop(conn)
        elif received:
            conn.keep(received)
            self.admit(conn)
        elif conn.received:
            # EOF: the parser decides.
            self.enqueue_req(conn)
        else:
            self.drop(conn)

    def admit(self, conn: Connection) -> None:
        """Give a complete request to a thread; wait for the rest of an incomplete request."""
        received = conn.received
        if received and conn.size is None:
            conn.measure()
        if not received:
            self.wait(conn, self.queues.idle)
        elif conn.size is not None and received >= conn.size:
            self.enqueue_req(conn)
        elif conn.size is None and received > HEAD:
            self.reject(conn, faults.LimitRequestHeaders(f"The head has more than {HEAD} bytes"))
        else:
            self.wait(conn, self.queues.reading)

    def enqueue_req(self, conn: Connection) -> None:
        """Let the request wait for a thread."""
        conn.size = None
        self.wait(conn, self.queues.health if conn.health else self.queues.requests)
        self.tpool.wake()

    def proceed(self, conn: Connection) -> None:
        """Send the response; then wait for the next request, or until the client closes."""
        try:
            if not conn.sock.flush():
                self.wait(conn, self.queues.flushing)
                self.free_memory(conn)
            elif conn.reuse:
                self.admit(conn)
            else:
                # If a socket is closed with unread bytes, the kernel sends RST, which may overtake
                # the response. gunicorn's own lingering close would block the poller.
                conn.sock.shutdown(socket.SHUT_WR)
                self.wait(conn, self.queues.lingering)
        except OSError:
            self.drop(conn)

    def free_memory(self, newest: Connection) -> None:
        """Drop the slowest readers while the unsent responses take more than UNSENT bytes."""
        flushing = self.queues.flushing
        while sum(slow.sock.held for slow in flushing) > UNSENT and flushing[0] is not newest:
            self.drop(flushing[0])

    def murder_pending(self) -> None:
        """End the connections whose time is up, with a response if part of a request is there."""
        queues, now = self.queues, time.monotonic()
        while conn := queues.take(queues.reading, now):
            if conn.received:
                self.reject(conn, http_error("request_timeout"))
            else:
                self.drop(conn)
        for queue in (queues.requests, queues.health):
            while conn := queues.take(queue, now):
                self.reject(conn, http_error("busy", retry_after=1))
        for queue in (queues.flushing, queues.lingering):
            while conn := queues.take(queue, now):
                self.drop(conn)

    def reject(self, conn: Connection, fault: Exception) -> None:
        """Respond with an error, without a thread."""
        self.handle_error(None, conn.sock, conn.client, fault)
        conn.reuse = False
        self.proceed(conn)

    # The threads.

    def serve_next(self) -> None:
        """Respond to the next request; the poller sends the rest if the client reads slowly."""
        conn = self.queues.take_request()
        if conn is None:
            return  # The poller has rejected the request meanwhile.
        now = time.monotonic()
        conn.queued = now - conn.since
        conn.sock.deadline = now + self.READ
        conn.reuse = self.handle(conn)
        with suppress(OSError):
            conn.sock.flush()
        if conn.reuse and not conn.sock.unsent and not conn.received:
            # The poller wakes up only once the next request arrives.
            self.wait(conn, self.queues.idle)
        else:
            self.method_queue.defer(self.proceed, conn)

    def handle(self, conn: Connection) -> bool:
        """Run the application; return True if the connection can serve another request."""
        self.nr += 1
        if self.alive and self.nr >= self.max_requests:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False
        full = len(self.queues.idle) >= self.max_keepalived
        last = full or not self.alive or not self.cfg.keepalive
        try:
            return application.run(self.wsgi, conn, self.cfg, last=last)
        except (StopIteration, faults.NoMoreData, OSError):
            return False  # The client has ended the connection.
        except BaseException as fault:  # SystemExit too: it would end the thread.
            conn.sock.discard()
            self.handle_error(None, conn.sock, conn.client, fault)
            return False

    def handle_error(
        self, _request: object, sock: ClientSocket, client: Address, fault: BaseException
    ) -> None:
        """Respond with JSON; log no text that the client sent, because it may contain a token."""
        name = type(fault).__name__
        status, message = status_and_message(fault)
        if status == 500:
            frames = "".join(traceback.format_tb(fault.__traceback__))
            self.log.error("Error handling request: %s\n%s", name, frames)
        else:
            address = client[0] if isinstance(client, tuple) else client
            self.log.warning("Rejected request from ip=%s: %s", address, name)
        retry_after = getattr(fault, "retry_after", None)
        sock.sendall(error_page(status, message, retry_after=retry_after))
