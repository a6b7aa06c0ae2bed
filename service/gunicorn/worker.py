"""The gunicorn worker: threads that wait for events together, and one that watches the clock.

One thread more than may run the application waits in one epoll, so one is always free to read. The
thread that reads the end of a request runs it and sends its response: no thread wakes another one.
A connection is in one of these states; the limits are attributes of the worker, in seconds:

| state      | waits for                        | for        | then                              |
|------------|----------------------------------|------------|-----------------------------------|
| reading    | the rest of a request            | READ       | 408; nothing if no byte has come  |
| complete   | a turn, which no event ends      | TAKE       | 503; /healthz after TAKE_HEALTH   |
| (running)  | the application; still complete  | no limit   |                                   |
| flushing   | the client to read its response  | WRITE      | RST; begins anew at each progress |
| idle       | the next request                 | keepalive  | closes                            |
| lingering  | the client to close, after ours  | LINGER     | closes                            |

reading → complete → idle, or flushing → idle, or after an error or the last request → lingering.
Plain TCP only: a proxy terminates TLS.
"""

import errno
import os
import socket
import time
import traceback
from contextlib import suppress
from math import inf
from select import epoll
from threading import Thread

from gunicorn.workers.base import Worker
from werkzeug.exceptions import HTTPException

from service.gunicorn.connections import (
    READABLE,
    WRITABLE,
    ClientConnection,
    ClientConnections,
    State,
)
from service.gunicorn.error_page import error_page
from service.gunicorn.request_reader import RequestReader
from service.gunicorn.response import base_environment, run
from service.gunicorn.turns import Turns
from service.http.access_log import ARRIVED, QUEUED
from service.http.errors import http_error
from service.settings import Settings

# The bytes that are read from a client before its connection closes; those of responses that a
# worker keeps for slow readers; and those of requests that do not run yet. All are maximums.
DRAIN, UNSENT, ARRIVING = 2**22, 2**25, 2**26
# Requests up to this size need no count: 500 of them have less than ARRIVING.
SMALL = 2**16

# Seconds between two looks at the clock; seconds that a connection without a complete request
# survives a signal to stop, because a client may have sent a request before it can know.
TICK, STOP = 0.1, 2.0


class RequestWorker(Worker):
    """A worker whose threads get complete requests only; none of them waits for a client."""

    READ, WRITE, LINGER, TAKE, TAKE_HEALTH = 10.0, 30.0, 1.0, 4.0, 1.5

    def run(self) -> None:
        """Serve until the worker is told to stop or the master has ended; then finish.

        The requests that are there get their responses, within graceful_timeout.
        """
        cfg = self.cfg
        self.keepalive = cfg.keepalive
        self.max_connections: int = cfg.worker_connections
        self.max_idle = cfg.worker_connections - cfg.threads
        self.max_body = Settings.read().max_body
        self.reading = State(READABLE, self.READ)
        self.complete = State(0, inf)
        self.flushing = State(WRITABLE, self.WRITE)
        self.idle = State(READABLE, cfg.keepalive)
        self.lingering = State(READABLE, self.LINGER)
        self.connections = ClientConnections(epoll())
        self.turns = Turns(cfg.threads)
        self.has_descriptors = True
        # The listeners that no thread waits for until there is room.
        self.paused: set[int] = set()
        self.listeners = {listener.fileno(): listener for listener in self.sockets}
        for listener in self.sockets:
            listener.setblocking(False)
            self.connections.poller.register(listener, READABLE)
        for number in range(cfg.threads + 1):
            # Daemon threads: a worker that must exit at once does not wait for requests in flight.
            Thread(target=self.work, name=f"request-{number}", daemon=True).start()
        while self.alive and self.ppid == os.getppid():
            self.tick()
            self.resume()
        self.stop()

    # The main thread runs the methods of this part.

    def stop(self) -> None:
        """Accept no more clients; wait for the connections to end, at most graceful_timeout."""
        self.alive = False
        for listener in self.sockets:
            # The master has the listener too, so closing it would not take it from the poller.
            self.connections.poller.unregister(listener)
            listener.close()
        now = time.monotonic()
        self.idle.seconds = self.reading.seconds = STOP
        for conn in list(self.connections.values()):
            if conn.state in (self.idle, self.reading):
                conn.since = now
        while self.connections and time.monotonic() < now + self.cfg.graceful_timeout:
            self.tick()

    def tick(self) -> None:
        """Give the master a sign of life, and end the connections whose time is up.

        A client gets a response if part of its request is there.
        """
        time.sleep(TICK)
        self.notify()
        for conn in self.connections.claim_overdue():
            if conn.state is self.reading and (conn.reader.size or conn.reader.environ):
                self.reject(conn, http_error("request_timeout"))
            else:
                self.connections.drop(conn)
        for conn in self.turns.take_overdue(self.TAKE, self.TAKE_HEALTH):
            self.reject(conn, http_error("busy", retry_after=1))

    def resume(self) -> None:
        """Wait for clients again where no thread accepts them, if there is room for one."""
        while self.paused and self.has_room():
            self.connections.poller.modify(self.paused.pop(), READABLE)

    # The threads run all other methods; the main thread runs reject too. A method that gets a
    # connection holds its lock, and gives the connection up, or returns True because a request of
    # it is complete.

    def work(self) -> None:
        """Wait for an event and go on with its connection, again and again."""
        while True:
            for number, _ in self.connections.poller.poll(None, 1):
                try:
                    if conn := self.connections.get(number):
                        if conn.lock.acquire(blocking=False) and self.go_on(conn):
                            self.serve(conn)
                    elif number in self.listeners:
                        self.accept(number)
                except Exception as fault:
                    self.log_error(fault)

    def accept(self, number: int) -> None:
        """Accept a client; then wait for the next one, if there is room for it."""
        has_room = False
        try:
            has_room = self.add_client(self.listeners[number])
        finally:
            if has_room:
                with suppress(OSError):  # The worker stops.
                    self.connections.poller.modify(number, READABLE)
            else:
                self.paused.add(number)

    def add_client(self, listener: socket.socket) -> bool:
        """Accept a client; with too many connections, drop one of those that wait.

        Return True if there is room for another client.
        """
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self.connections.evict(0):
                if self.has_descriptors:
                    self.log.warning("No file descriptor is left for a new client")
                self.has_descriptors = False
                return False
        else:
            self.has_descriptors = True
            reader = RequestReader(base_environment(client, sock.getsockname()), self.max_body)
            self.connections.add(ClientConnection(sock, client, reader, self.reading))
            if len(self.connections) > self.max_idle:
                self.connections.evict(self.max_idle // 5)
        return self.has_room()

    def has_room(self) -> bool:
        """Tell whether one more connection is within the maximum."""
        return len(self.connections) < self.max_connections

    def go_on(self, conn: ClientConnection) -> bool:
        """Write to the connection, or read from it; return True if a request is complete."""
        try:
            return self.send(conn) if conn.unsent else self.read(conn)
        except OSError:
            self.connections.drop(conn)
            return False

    def wait(self, conn: ClientConnection, state: State) -> bool:
        """Give the connection up until an event of this state; return False."""
        if conn.state is not state:
            conn.enter(state)
        self.connections.release(conn)
        return False

    def read(self, conn: ClientConnection) -> bool:
        """Read what has arrived; return True if a request is complete."""
        try:
            received = conn.sock.recv(2**16)
        except BlockingIOError:
            return self.wait(conn, conn.state)
        if conn.state is self.lingering:
            conn.drained += len(received)
            if received and conn.drained <= DRAIN:
                return self.wait(conn, self.lingering)
        elif received:
            return self.admit(conn, received)
        elif conn.reader.environ:
            return self.reject(conn, http_error("incomplete_body"))
        self.connections.drop(conn)
        return False

    def admit(self, conn: ClientConnection, received: bytes) -> bool:
        """Add what was received; return True if a request is complete, else wait for the rest."""
        reader = conn.reader
        try:
            complete = reader.feed(received)
        except HTTPException as fault:
            return self.reject(conn, fault)
        if reader.size > SMALL and not self.connections.limit(
            lambda conn: conn.reader.size, max(ARRIVING, 2 * self.max_body), self.reading
        ):
            return self.reject(conn, http_error("busy", retry_after=1))
        if complete:
            conn.enter(self.complete)
            return True
        if reader.expects:
            reader.expects = False
            # A client that reads nothing waits for nothing.
            with suppress(BlockingIOError):
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.wait(conn, self.reading if reader.environ or reader.received else self.idle)

    def serve(self, conn: ClientConnection) -> None:
        """Run the request and then those that wait for a turn; let it wait if there is none."""
        following: ClientConnection | None = conn if self.turns.begin(conn) else None
        while following:
            ready = self.respond(following)
            following = self.turns.end(following if ready else None)

    def respond(self, conn: ClientConnection) -> bool:
        """Run the application and send its response; return True if another request is complete."""
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
        except OSError:
            self.connections.drop(conn)
            return False
        except BaseException as fault:  # SystemExit too: it would end the thread.
            return self.reject(conn, fault)
        return self.go_on(conn)

    def send(self, conn: ClientConnection) -> bool:
        """Send the response; then go on with what the client has sent, or let it close.

        Return True if the next request is complete.
        """
        if not conn.flush():
            conn.held = conn.held or sum(map(len, conn.unsent))
            self.connections.limit(lambda conn: conn.held, UNSENT, self.flushing)
            # The client has read some of the response, so its time limit begins again.
            conn.enter(self.flushing)
            return self.wait(conn, self.flushing)
        conn.held = 0
        if conn.reuse:
            return self.admit(conn, b"")
        # If a socket is closed with unread bytes, the kernel sends RST, which may overtake the
        # response.
        conn.sock.shutdown(socket.SHUT_WR)
        return self.wait(conn, self.lingering)

    def reject(self, conn: ClientConnection, fault: BaseException) -> bool:
        """Respond with an error, and end the connection; return False.

        Log no text that the client sent, because it may contain a token.
        """
        if isinstance(fault, HTTPException):
            self.log.warning("Rejected request from ip=%s: %s", conn.address, type(fault).__name__)
        else:
            self.log_error(fault)
        conn.unsent = [error_page(fault)]
        conn.reuse = False
        conn.reader.discard()
        return self.go_on(conn)

    def log_error(self, fault: BaseException) -> None:
        """Log where an error happened; its message may contain what a client sent."""
        frames = "".join(traceback.format_tb(fault.__traceback__))
        self.log.error("Error handling request: %s\n%s", type(fault).__name__, frames)
