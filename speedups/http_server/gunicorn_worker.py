"""The gunicorn worker: threads that wait for events together, and one that watches the clock.

``threads + 1`` threads share one epoll; at most ``threads`` run the application, so one can always
read. The thread that reads the end of a request runs it if a slot is free; otherwise the next
thread that frees a slot runs it. A connection is in one of these states. The limits are attributes
of the worker, in seconds:

| state      | waits for                        | for        | then                              |
|------------|----------------------------------|------------|-----------------------------------|
| reading    | the rest of a request            | READ       | 408; nothing if no byte has come  |
| complete   | a free slot (no socket event)    | TAKE       | 503; if urgent, after TAKE_URGENT |
| (running)  | the application; still complete  | no limit   |                                   |
| flushing   | the client to read its response  | WRITE      | RST; each progress restarts WRITE |
| idle       | the next request                 | keepalive  | closes                            |
| lingering  | the client to close, after ours  | LINGER     | closes                            |

reading → complete → idle, or flushing → idle, or after an error or the last request → lingering.
Plain TCP only: a proxy terminates TLS.
"""

import errno
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from math import inf
from select import epoll
from threading import Lock, Thread

from gunicorn.workers import base

from service.speedups.http_server.client_connections import (
    CLOSED,
    READABLE,
    WRITABLE,
    ClientConnection,
    ClientConnections,
    State,
)
from service.speedups.http_server.errors import RequestError, error_page
from service.speedups.http_server.request_reader import BLANK_LINE, RequestReader
from service.speedups.http_server.response import base_environment, run
from service.speedups.http_server.slots import Slots

# Keys of the WSGI environ. ARRIVED: the time, by ``time.monotonic()``, at which the request had
# been read whole and the response before it on the same connection had been sent. QUEUED: the
# seconds that the request then waited for a slot.
ARRIVED, QUEUED = "http_server.arrived", "http_server.queued"

# Unread bytes of the client that are dropped after a response, so that the client can read it.
MAX_DRAIN = 2**22
# Bytes of all responses together that clients do not read. A single response may have more.
MAX_UNSENT = 2**25
# Bytes of all requests together that do not run yet, or twice the largest body if that is more.
MAX_PENDING = 2**26
# Requests of up to so many bytes are not counted: even 500 of them stay below MAX_PENDING.
UNCOUNTED = 2**16

TIMEOUT = RequestError(408, "The request did not arrive in time")
INCOMPLETE = RequestError(400, "The body is incomplete")
BUSY = RequestError(
    503, "The service is busy: the request waited too long for a free thread", Retry_After="1"
)

# The GIL's switch interval. With Python's default of 5 ms, a busy thread could delay the reading of
# a request by as much.
SWITCH = 0.0005
# Seconds between two looks at the clock, and between two looks at the threads.
TICK, CHECK = 0.1, 1.0
# Before it accepts a client, a process sleeps YIELD seconds per open connection, for at most
# MAX_YIELDS connections.
YIELD, MAX_YIELDS = 0.00005, 10
# Seconds that idle and reading connections stay open after the signal to stop, because a client may
# have sent a request before it could know of the stop. A worker that is stuck gives its requests
# the same time.
STOP_GRACE = 2.0


class Worker(base.Worker):
    """A worker whose threads get complete requests only; none of them waits for a client.

    A subclass can set the attributes, and can make its own error responses with ``on_error``.
    """

    # Seconds; the table of the module has what they limit.
    READ, WRITE, LINGER, TAKE, TAKE_URGENT = 10.0, 30.0, 1.0, 4.0, 1.5
    # A body of more bytes is not kept; the application sees that it is too large.
    max_body = 2**20
    # Requests for this path overtake all others; for example b"/healthz".
    urgent_path: bytes | None = None
    # Takes the status, a message and header fields; returns head and body of an error response.
    on_error = staticmethod(error_page)

    def run(self) -> None:
        """Serve until the worker is told to stop, or the master has ended; then finish.

        Requests that have already arrived get their responses, within graceful_timeout.
        """
        cfg = self.cfg
        sys.setswitchinterval(SWITCH)
        self.keepalive = cfg.keepalive
        self.max_connections: int = cfg.worker_connections
        self.max_idle = cfg.worker_connections - cfg.threads
        self.reading = State(READABLE, self.READ)
        self.complete = State(0, inf)
        self.flushing = State(WRITABLE, self.WRITE)
        self.idle = State(READABLE, cfg.keepalive)
        self.lingering = State(READABLE, self.LINGER)
        self.connections = ClientConnections(epoll())
        self.slots = Slots(cfg.threads)
        self.has_descriptors = True
        self.log_eviction_at = 0.0
        # Held by a thread while it accepts a client, and by the main thread while it stops.
        self.accepting = Lock()
        self.listeners = {listener.fileno(): listener for listener in self.sockets}
        for listener in self.sockets:
            listener.setblocking(False)
            self.connections.poller.register(listener, READABLE)
        # Daemon threads, so that a worker that must exit immediately does not wait for requests.
        self.threads = [
            Thread(target=self.work, name=f"request-{number}", daemon=True)
            for number in range(cfg.threads + 1)
        ]
        for thread in self.threads:
            thread.start()
        self.ended, broken = 0, False
        self.seen = checked = time.monotonic()
        while self.alive and not broken and self.ppid == os.getppid():
            self.tick()
            if time.monotonic() >= checked + CHECK:
                checked, broken = time.monotonic(), self.is_broken()
        self.stop(STOP_GRACE if broken else cfg.graceful_timeout)

    # The main thread runs the methods of this part.

    def stop(self, grace: float) -> None:
        """Accept no more clients, and wait at most so many seconds until the connections end."""
        self.alive = False
        # While this thread holds the lock, no thread can accept a client that the loop below would
        # miss.
        with self.accepting:
            for listener in self.listeners.values():
                # The master holds the listener too, so closing it here would not remove it from the
                # poller.
                self.connections.poller.unregister(listener)
                listener.close()
            self.listeners = {}
        now = time.monotonic()
        self.idle.seconds = self.reading.seconds = STOP_GRACE
        for conn in list(self.connections.values()):
            if conn.state in (self.idle, self.reading):
                conn.since = now
        while self.connections and time.monotonic() < now + grace:
            self.tick()

    def tick(self) -> None:
        """Tell the master that the worker lives, and close the connections whose time is up.

        A client that has sent a part of its request gets a response.
        """
        time.sleep(TICK)
        self.notify()
        try:
            for conn in self.connections.claim_overdue():
                is_reading = conn.state is self.reading
                # If a call below fails, the next tick finds the connection overdue again.
                conn.state = CLOSED
                begun = conn.reader.size or conn.reader.environ
                self.end(conn, TIMEOUT if is_reading and begun else None)
            while late := self.slots.pop_overdue(self.TAKE, self.TAKE_URGENT):
                late.state = CLOSED
                self.end(late, BUSY)
            with self.accepting:
                self.watch_listeners()
        except Exception as fault:
            self.log_error(fault)

    def end(self, conn: ClientConnection, fault: RequestError | None) -> None:
        """Close the connection. If an error response is given, send it first."""
        try:
            self.give_up(conn, self.reject(conn, fault) if fault else CLOSED)
        except BaseException as error:
            conn.state = CLOSED
            if not isinstance(error, OSError):  # The client has gone.
                raise

    def is_broken(self) -> bool:
        """Return whether a thread has ended, or all slots are taken and none was freed in time.

        The time is gunicorn's ``timeout``, which limits a thread here as it limits a sync worker.
        """
        now = time.monotonic()
        if self.slots.free or self.slots.ended != self.ended:
            self.ended, self.seen = self.slots.ended, now
        stuck = 0 < self.cfg.timeout < now - self.seen
        lost = not all(map(Thread.is_alive, self.threads))
        if stuck or lost:
            reason = "all requests run for too long" if stuck else "a thread has ended"
            self.log.critical("Worker ends, so that another one starts: %s", reason)
        return stuck or lost

    # The threads run all methods below; the main thread also runs reject and give_up. A method that
    # gets a connection holds its lock, and returns the next state of the connection.

    def work(self) -> None:
        """Repeat ``step`` until the worker stops; no error ends the thread."""
        while True:
            try:
                self.step()
            except BaseException as fault:  # Even SystemExit, which would end the thread.
                self.log_error(fault)

    def step(self) -> None:
        """Run the next request, or wait for an event and continue with its connection.

        This is the only place where a thread releases a connection and a slot. It releases both
        whatever is raised.
        """
        conn, has_slot = self.slots.take(), False
        try:
            if conn:
                has_slot = True
                state = self.respond(conn)
            else:
                for number, _ in self.connections.poller.poll(None, 1):
                    found = self.connections.get(number)
                    if found is None:
                        if conn := self.accept(number):
                            state = self.reading
                            self.make_room()
                    elif found.lock.acquire(blocking=False):
                        conn = found
                        state = self.send(conn) if conn.unsent else self.read(conn)
            if conn:
                self.give_up(conn, state)
                conn = None
        except OSError:
            if conn is None:  # The client has gone.
                raise
        finally:
            if has_slot:
                with self.slots.lock:
                    self.slots.free += 1
                    self.slots.ended += 1
            if conn:
                conn.state = CLOSED
                self.connections.drop(conn)

    def give_up(self, conn: ClientConnection, state: State) -> None:
        """Release the connection, so that it waits in this state, or ends."""
        if conn.state is not state:
            conn.enter(state)
        if state is self.complete:
            self.slots.put(conn)
        elif state is CLOSED:
            self.connections.drop(conn)
        else:
            self.connections.release(conn)

    def accept(self, number: int) -> ClientConnection | None:
        """Accept a client if there is room; return its connection, or None without one."""
        with self.accepting:
            listener = self.listeners.get(number)
            if listener is None or not self.has_room():
                return None
            if self.cfg.workers > 1:
                # The process with the fewest connections sleeps least, and so gets the next client.
                time.sleep(YIELD * min(len(self.connections), MAX_YIELDS))
            try:
                sock, client = listener.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or self.connections.evict(0):
                    self.watch_listeners()
                elif self.has_descriptors:
                    self.has_descriptors = False
                    self.log.warning("No file descriptor is left for a new client")
                return None
            self.has_descriptors = True
            try:
                shared = base_environment(client, sock.getsockname())
                reader = RequestReader(shared, self.max_body, self.urgent_path)
                conn = ClientConnection(sock, client, reader, self.reading)
                self.connections.add(conn)
            except BaseException:
                sock.close()
                raise
            return conn

    def make_room(self) -> None:
        """If there are too many connections, drop a waiting one. Then watch for the next client."""
        if len(self.connections) > self.max_idle:
            evicted = self.connections.evict(self.max_idle // 5)
            if evicted and time.monotonic() >= self.log_eviction_at:
                self.log_eviction_at = time.monotonic() + 60
                self.log.warning(
                    "Too many connections for this process, which takes %s:"
                    " the one that waited for longest is closed",
                    self.max_connections,
                )
        with self.accepting:
            self.watch_listeners()

    def watch_listeners(self) -> None:
        """Watch for clients if there is room for one; the caller holds ``accepting``."""
        if self.has_room():
            for number in self.listeners:
                self.connections.poller.modify(number, READABLE)

    def has_room(self) -> bool:
        """Return whether one more connection is within the maximum."""
        return len(self.connections) < self.max_connections

    def read(self, conn: ClientConnection) -> State:
        """Read what has arrived."""
        try:
            received = conn.sock.recv(2**16)
        except BlockingIOError:
            return conn.state
        if conn.state is self.lingering:
            conn.drained += len(received)
            return self.lingering if received and conn.drained <= MAX_DRAIN else CLOSED
        if received:
            return self.admit(conn, received)
        return self.reject(conn, INCOMPLETE) if conn.reader.environ else CLOSED

    def admit(self, conn: ClientConnection, received: bytes) -> State:
        """Pass the received bytes to the parser.

        Queue the request if it is complete; otherwise wait for the rest.
        """
        reader = conn.reader
        try:
            complete = reader.feed(received)
        except RequestError as fault:
            return self.reject(conn, fault)
        if reader.size > UNCOUNTED and not self.connections.limit(
            lambda conn: conn.reader.size, max(MAX_PENDING, 2 * self.max_body), self.reading
        ):
            return self.reject(conn, BUSY)
        if complete:
            conn.enter(self.complete)
            return self.complete
        if reader.expects:
            reader.expects = False
            # If the socket buffer is full, skip 100 Continue: the client is not reading.
            with suppress(BlockingIOError):
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.reading if reader.environ or reader.received else self.idle

    def respond(self, conn: ClientConnection) -> State:
        """Run the application and send its response."""
        self.nr += 1
        if self.alive and self.nr >= self.max_requests:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False
        environ = conn.reader.take()
        environ[ARRIVED], environ[QUEUED] = conn.since, time.monotonic() - conn.since
        try:
            response = run(self.wsgi, environ)
            conn.reuse = (
                conn.reader.reuse
                and not response.broken
                and self.alive
                and self.keepalive > 0
                and len(self.connections) <= self.max_idle
            )
            conn.unsent = response.encode(environ["REQUEST_METHOD"], reuse=conn.reuse)
        except ConnectionError:  # The application asks for no response.
            return CLOSED
        except BaseException as fault:  # Even SystemExit.
            return self.reject(conn, fault)
        return self.send(conn)

    def send(self, conn: ClientConnection) -> State:
        """Send the response. Then read the next request, or wait until the client closes."""
        if not conn.flush():
            conn.held = conn.held or sum(map(len, conn.unsent))
            if not self.connections.limit(
                lambda conn: conn.held, max(MAX_UNSENT, conn.held), self.flushing
            ):
                return CLOSED
            # The client has read a part of the response, so its time limit restarts.
            conn.enter(self.flushing)
            return self.flushing
        conn.held = 0
        if conn.reuse:
            return self.admit(conn, b"")
        # If a socket with unread bytes is closed, the kernel sends RST, and the client may then
        # lose the response.
        conn.sock.shutdown(socket.SHUT_WR)
        return self.lingering

    def reject(self, conn: ClientConnection, fault: BaseException) -> State:
        """Send an error response and close the connection.

        Log no text that the client sent, because it may contain a token.
        """
        if isinstance(fault, RequestError):
            self.log.warning("Rejected request from ip=%s: %s", conn.address, fault.status)
            page = self.on_error(fault.status, fault.message, fault.fields)
        else:
            self.log_error(fault)
            page = self.on_error(500, "Internal Server Error", [])
        if conn.reader.for_head:
            page = page[: page.index(BLANK_LINE) + len(BLANK_LINE)]
        conn.unsent = [page]
        conn.reuse = False
        conn.reader.discard()
        return self.send(conn)

    def log_error(self, fault: BaseException) -> None:
        """Log where an error happened; its message may contain what a client sent."""
        with suppress(BaseException):  # Without memory, for example.
            frames = "".join(traceback.format_tb(fault.__traceback__))
            self.log.error("Error handling request: %s\n%s", type(fault).__name__, frames)
