"""The connections of a worker: which thread may use one, and which one is closed first.

Both ends of each connection are sockets of this process.
"""

import os
import socket
import struct
from fcntl import F_DUPFD_CLOEXEC, fcntl
from select import EPOLLIN, EPOLLOUT, epoll
from threading import Lock, Thread, current_thread

import pytest
from support.processes import receive_all, wait_until

from service.speedups.http_server.client_connections import (
    MAX_UNSENT_IN_KERNEL,
    READABLE,
    WRITABLE,
    ClientConnection,
    ClientConnections,
    State,
)
from service.speedups.http_server.request_reader import RequestReader

READING, IDLE, COMPLETE = State(READABLE, 10), State(READABLE, 75), State(0, float("inf"))
FLUSHING = State(WRITABLE, 30)


class AskedLock:
    """A lock that knows which threads have asked for it."""

    def __init__(self):
        self.lock, self.askers = Lock(), set()

    def __enter__(self):
        self.askers.add(current_thread())
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


class Clients(ClientConnections):
    """Connections whose clients are in this process; ``clients`` has the clients' sockets.

    ``before`` has functions that run before a method of the dictionary or of the poller, once. Each
    does what another thread could do then.
    """

    def __init__(self, poller):
        super().__init__(self)
        self.epoll = poller
        self.register, self.poll = poller.register, poller.poll
        self.lock, self.before = AskedLock(), {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.clients = []

    def pop(self, *arguments):
        self.before.pop("pop", int)()
        return super().pop(*arguments)

    def modify(self, number, events):
        self.before.pop("modify", int)()
        self.epoll.modify(number, events)

    def connect(self, state=READING, *, address="127.0.0.1", age=0, number=None):
        """Connect a client. The connection gets the number, if one is given and it is free."""
        with socket.create_connection(self.listener.getsockname(), timeout=60) as low:
            # The client must not have the number itself.
            client = socket.socket(fileno=fcntl(low, F_DUPFD_CLOEXEC, 500))
        client.settimeout(60)
        self.clients.append(client)
        sock, _ = self.listener.accept()
        if number is not None and not is_open(number):
            os.dup2(sock.fileno(), number, inheritable=False)
            sock.close()
            sock = socket.socket(fileno=number)
        conn = ClientConnection(sock, (address, 1), RequestReader({}, 1000), state)
        conn.since -= age
        conn.client = client
        self.add(conn)
        self.release(conn)
        return conn

    def close(self):
        for sock in (self.listener, *self.clients, *(conn.sock for conn in self.values())):
            sock.close()


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.fixture
def connections():
    with epoll() as poller:
        connections = Clients(poller)
        yield connections
        connections.close()


class RacedLock:
    """A lock. Just before it is acquired, it does what another thread could do then."""

    def __init__(self, meanwhile):
        self.lock, self.meanwhile = Lock(), meanwhile

    def acquire(self, *, blocking):
        self.meanwhile()
        return self.lock.acquire(blocking=blocking)

    def release(self):
        self.lock.release()


class ReleasedLock:
    """A lock that is held. After it is released, it does what another thread could do then."""

    def __init__(self, meanwhile):
        self.release = meanwhile


def in_another_thread(connections, act):
    """Run the act in a thread until it ends, or until it asks for the lock of the connections."""
    thread = Thread(target=act, daemon=True)
    thread.start()
    wait_until(lambda: thread in connections.lock.askers or not thread.is_alive())
    return thread


def test_an_event_belongs_to_one_thread_until_that_thread_releases_the_connection(connections):
    conn = connections.connect()
    conn.client.sendall(b"a")
    assert connections.poller.poll(10) == [(conn.number, EPOLLIN)]
    assert connections.claim(conn, READING, conn.since)
    assert connections.poller.poll(0) == []
    assert not connections.claim(conn, READING, conn.since)
    connections.release(conn)
    assert connections.poller.poll(10) == [(conn.number, EPOLLIN)]


def test_a_connection_whose_state_has_changed_is_not_claimed_and_is_watched_again(connections):
    conn = connections.connect(IDLE)
    conn.client.sendall(b"a")
    assert connections.poller.poll(10)
    for state, since in ((READING, conn.since), (IDLE, conn.since - 1)):
        assert not connections.claim(conn, state, since)
        assert connections.poller.poll(10)
    assert connections.claim(conn, IDLE, conn.since)


@pytest.mark.parametrize("closes_it_too", [True, False])
def test_a_new_connection_stays_while_threads_close_an_old_one_with_its_number(
    connections, closes_it_too
):
    """Two threads may close a connection: one of them believes that the other has failed."""
    old = connections.connect()
    new, threads = [], []

    def accept():
        if closes_it_too:
            connections.drop(old)
        new.append(connections.connect(number=old.number))

    connections.before["pop"] = lambda: threads.append(in_another_thread(connections, accept))
    connections.drop(old)
    threads[0].join()
    assert list(connections.values()) == new
    assert new[0].number == old.number
    new[0].client.sendall(b"a")
    assert connections.poll(10) == [(new[0].number, EPOLLIN)]


def test_a_thread_that_releases_a_connection_does_not_disarm_a_new_one_with_its_number(connections):
    """Another thread closes the connection before the poller watches it."""

    def replace(old):
        connections.drop(old)
        new.append(connections.connect(FLUSHING, number=old.number))

    new = []
    old = connections.connect()
    old.lock = ReleasedLock(lambda: replace(old))
    connections.release(old)
    assert new[0].number == old.number
    assert connections.poll(10) == [(new[0].number, EPOLLOUT)]

    new, threads = [], []
    old = connections.connect()
    assert connections.claim(old, old.state, old.since)
    connections.before["modify"] = lambda: threads.append(
        in_another_thread(connections, lambda: replace(old))
    )
    connections.release(old)
    threads[0].join()
    assert new[0].number == old.number
    assert connections.poll(10) == [(new[0].number, EPOLLOUT)]


def test_a_thread_that_works_on_with_a_closed_connection_does_no_harm_to_a_new_one(connections):
    """Another thread has closed the connection, and a new one has got its number."""
    old = connections.connect()
    assert connections.claim(old, old.state, old.since)
    connections.drop(old)
    new = connections.connect(FLUSHING, number=old.number)
    assert new.number == old.number
    old.enter(READING)
    connections.release(old)
    assert connections.poll(10) == [(new.number, EPOLLOUT)]
    connections.drop(old)
    assert list(connections.values()) == [new]


def test_the_poller_watches_a_connection_in_the_state_of_the_thread_that_had_it_last(connections):
    """Another thread takes the connection before the poller watches it."""
    conn = connections.connect()

    def go_on():
        conn.lock = Lock()
        conn.lock.acquire()
        conn.enter(FLUSHING)
        connections.release(conn)

    conn.lock = ReleasedLock(go_on)
    connections.release(conn)
    assert connections.poll(10) == [(conn.number, EPOLLOUT)]

    conn.lock = ReleasedLock(lambda: conn.enter(COMPLETE))
    connections.release(conn)
    conn.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.client.close()
    assert connections.poll(0.1) == []


def test_a_connection_is_overdue_only_after_the_time_limit_of_its_state(connections):
    reading, idle = connections.connect(age=11), connections.connect(IDLE, age=76)
    connections.connect()
    connections.connect(IDLE, age=11)
    connections.connect(COMPLETE, age=1e6)
    assert list(connections.claim_overdue()) == [reading, idle]
    assert list(connections.claim_overdue()) == []


def test_a_connection_that_makes_progress_at_the_last_moment_is_neither_overdue_nor_dropped(
    connections,
):
    """Meanwhile another thread has entered the same state again, as it does when a client reads."""
    conn = connections.connect(age=11)

    def go_on():
        conn.enter(READING)
        conn.since += 1

    conn.lock = RacedLock(go_on)
    assert list(connections.claim_overdue()) == []
    conn.since -= 12
    assert not connections.drop_oldest(READING)
    assert connections[conn.number] is conn


def test_with_too_many_connections_the_oldest_one_in_the_most_frequent_state_is_dropped(
    connections,
):
    oldest = connections.connect(age=3)
    kept = [
        connections.connect(age=2),
        connections.connect(IDLE, age=9),
        *[connections.connect(COMPLETE, age=9) for _ in range(3)],
    ]
    assert not connections.evict(2)
    assert connections.evict(1)
    assert list(connections.values()) == kept
    assert oldest.client.recv(1) == b""
    assert not connections.evict(1)
    for conn in kept[:2]:
        connections.drop(conn)
    assert not connections.evict(0)


def test_a_connection_that_a_thread_holds_is_not_dropped(connections):
    held, free = connections.connect(age=2), connections.connect(age=1)
    assert connections.claim(held, READING, held.since)
    assert connections.drop_oldest(READING)
    assert list(connections.values()) == [held]
    assert free.sock.fileno() == -1
    assert not connections.drop_oldest(READING)


def test_the_client_that_uses_most_memory_loses_its_oldest_connection_first(connections):
    small = connections.connect(address="10.0.0.1", age=9)
    flood = [connections.connect(address="10.0.0.2", age=age) for age in (1, 3, 2)]
    size = {small: 15, **dict.fromkeys(flood, 10)}.__getitem__
    assert connections.limit(size, 45, READING)
    assert len(connections) == 4
    assert connections.limit(size, 44, READING)
    assert list(connections.values()) == [small, flood[0], flood[2]]
    assert connections.limit(size, 25, READING)
    assert list(connections.values()) == [small, flood[0]]
    assert not connections.limit(size, 0, IDLE)
    assert not connections.limit(size, 0, COMPLETE)
    assert connections.limit(size, 0, READING)
    assert not connections


def test_a_truncated_response_ends_with_a_reset_and_a_complete_response_does_not(connections):
    truncated, complete = connections.connect(), connections.connect()
    truncated.unsent = [b"rest"]
    for conn in (truncated, complete):
        conn.reader.feed(b"GET ")
        connections.drop(conn)
        assert conn.reader.size == 0
        assert conn.unsent == []
        assert conn.sock.fileno() == -1
    assert not connections
    assert complete.client.recv(1) == b""
    with pytest.raises(ConnectionResetError):
        truncated.client.recv(1)


def test_all_parts_of_a_response_arrive_however_slowly_they_are_read(connections):
    conn = connections.connect()
    parts = [b"head", b"", bytes(range(256)) * 2**15, b"x", bytes(2**20), b"end"]
    conn.unsent = [*parts]
    assert not conn.flush()
    received = bytearray()
    while not conn.flush():
        received += conn.client.recv(2**18)
    assert conn.unsent == []
    conn.sock.shutdown(socket.SHUT_WR)
    received += receive_all(conn.client)
    assert received == b"".join(parts)
    assert conn.flush()


def test_the_kernel_buffers_only_a_little_data_that_it_has_not_sent(connections):
    sock = connections.connect().sock
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == MAX_UNSENT_IN_KERNEL
    assert MAX_UNSENT_IN_KERNEL < 2**20
    assert not sock.getblocking()


def test_the_address_of_a_client_of_a_unix_socket_is_the_path_of_its_socket():
    one, other = socket.socketpair()
    with one, other:
        assert ClientConnection(one, "", RequestReader({}, 1), IDLE).address == ""
