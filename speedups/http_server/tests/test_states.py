"""The states of a connection, in a worker that runs in this process."""

import errno
import logging
import os
import select
import socket
import struct
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from support.processes import Answer, receive, receive_all, wait_until

from service.speedups.http_server import Worker
from service.speedups.http_server import gunicorn_worker as module
from service.speedups.http_server.gunicorn_worker import ARRIVED, QUEUED

SECRET = "tmw_api_hush"
ACCEPTED = b"HTTP/1.1 200"


def read(client):
    answer = receive(client)
    assert len(answer.body) >= int(answer.headers["content-length"]), answer.body[-1000:]
    return answer


def settle():
    """Wait for several ticks of the worker, to see that nothing happens."""
    time.sleep(0.2)


HALF = {
    "nothing": (b"", None),
    "half a head": (b"GET / HT", 408),
    "a head without its body": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 408),
    "half a body": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1", 408),
}


def test_a_request_that_is_not_complete_in_time_gets_408_even_if_bytes_keep_coming(serve):
    server = serve({"READ": 0.3})
    start = time.monotonic()
    clients = {name: server.connect() for name in HALF}
    for name, client in clients.items():
        client.sendall(HALF[name][0])
    second = server.ask()
    assert read(second).status == 200
    second.sendall(b"GET / HT")
    for _ in range(3):
        time.sleep(0.05)
        clients["half a head"].sendall(b"T")
    for name, client in clients.items():
        assert Answer(receive_all(client)).status == HALF[name][1], name
    assert time.monotonic() - start >= 0.3
    assert read(second).status == 408


@pytest.mark.slow
def test_an_idle_connection_is_closed_after_keepalive_without_a_response(serve):
    """Without keepalive, each connection serves one request."""
    answer = Answer(receive_all(serve(keepalive=0).ask()))
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    server = serve(keepalive=1)
    start = time.monotonic()
    client = server.ask()
    assert read(client).headers["connection"] == "keep-alive"
    assert receive_all(client) == b""
    assert time.monotonic() - start >= 1


def test_the_worker_waits_for_a_client_to_close_but_no_longer_than_linger(serve):
    server = serve({"LINGER": 60})
    for closes in (True, False):
        client = server.ask("/", "Connection: close")
        assert Answer(receive_all(client)).body == b"xx"
        wait_until(lambda: server.connections(server.worker.lingering))
        if closes:
            client.close()
        else:
            client.sendall(b"x")
            server.worker.lingering.seconds = 0.1
        wait_until(lambda: not server.connections())


@pytest.mark.slow
def test_a_client_that_stops_reading_is_reset_and_a_slow_reader_gets_everything(serve):
    server = serve({"WRITE": 60})
    slow = server.ask("/large/8000000", buffer=2**15)
    raw = slow.recv(len(ACCEPTED))
    wait_until(lambda: server.at_rest(server.worker.flushing))
    still = server.ask("/large/8000000", buffer=2**15)
    server.wait_for_connections(2, server.worker.flushing)
    wait_until(lambda: server.at_rest(server.worker.flushing))
    first, second = server.connections()
    for conn in (first, second):
        conn.since -= 50
    aged = first.since
    while first.since == aged:
        raw += slow.recv(2**18)
    assert first.state is server.worker.flushing
    second.since -= 50
    wait_until(lambda: server.connections() == [first])
    with pytest.raises(ConnectionResetError):
        receive_all(still)
    while len(raw) < 8_000_000:
        raw += slow.recv(2**20)
    assert raw.startswith(ACCEPTED)


def test_a_request_that_waits_too_long_for_a_slot_gets_503_and_a_health_check_gets_503_sooner(
    serve,
):
    """The application never gets that request."""
    server = serve({"TAKE_URGENT": 0.2})
    running, start = server.occupy(), time.monotonic()
    other, health = server.ask("/other"), server.ask("/healthz")
    for client in (health, other):
        answer = Answer(receive_all(client))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert (
            answer.body == b"The service is busy: the request waited too long for a free thread\n"
        )
        assert time.monotonic() - start >= 0.2
        server.worker.TAKE = 0.2
    server.application.proceed.set()
    assert read(running).status == 200
    assert [environ["PATH_INFO"] for environ in server.application.environs] == ["/wait"]


def test_the_environ_says_when_the_request_arrived_and_how_long_it_queued(serve):
    server = serve()
    times, clients = [time.monotonic()], [server.occupy()]
    times.append(time.monotonic())
    clients.append(server.ask("/queued"))
    server.wait_for_connections(2, server.worker.complete)
    times.append(time.monotonic())
    server.application.proceed.set()
    assert [read(client).status for client in clients] == [200, 200]
    first, second = ((e[ARRIVED], e[ARRIVED] + e[QUEUED]) for e in server.application.environs)
    told = [times[0], *first, times[1], second[0], times[2], second[1], time.monotonic()]
    assert told == sorted(told)


def test_a_worker_ends_after_max_requests_and_closes_the_last_connection(serve, caplog):
    caplog.set_level(logging.INFO)
    server = serve(max_requests=2)
    client = server.ask()
    assert read(client).headers["connection"] == "keep-alive"
    assert server.worker.alive
    assert read(server.ask(client=client)).headers["connection"] == "close"
    client.close()
    server.wait_for_its_end()
    assert caplog.messages == ["Autorestarting worker after current request."]


def test_a_worker_gives_signs_of_life_and_ends_after_its_master_has_ended(serve):
    server = serve()
    for _ in range(2):
        seen = server.worker.tmp.last_update()
        wait_until(lambda seen=seen: server.worker.tmp.last_update() != seen)
    server.worker.ppid = -1
    server.wait_for_its_end()


def test_a_worker_has_one_thread_more_than_slots_and_all_are_daemons(serve):
    before = {*threading.enumerate()}
    serve(threads=3)

    def threads():
        started = {*threading.enumerate()} - before
        return [thread for thread in started if thread.name.startswith("request")]

    wait_until(lambda: len(threads()) == 4)
    assert all(thread.daemon for thread in threads())


def test_with_too_many_connections_the_oldest_idle_one_is_closed_and_the_log_says_so_once(
    serve, caplog
):
    server = serve(worker_connections=12, threads=2)
    clients = []
    for number in range(1, 11):
        clients.append(server.ask())
        assert read(clients[-1]).headers["connection"] == "keep-alive"
        server.wait_for_connections(number, server.worker.idle)
    running = server.ask("/wait")
    assert receive_all(clients[0]) == b""
    server.wait_for_connections(10)
    second = server.ask("/wait")
    assert receive_all(clients[1]) == b""
    server.wait_for_connections(10)
    server.application.proceed.set()
    assert {read(client).headers["connection"] for client in (running, second)} == {"keep-alive"}
    # Two connections were closed; the worker logs the line at most once a minute.
    (line,) = caplog.messages
    assert line.startswith("Too many connections for this process, which takes 12:")


def test_the_worker_drops_no_connection_of_a_state_that_holds_only_a_fifth_of_them(serve):
    """Nine requests run. The worker closes the connection beyond the maximum after its response."""
    server = serve(worker_connections=19, threads=9)
    running = [server.occupy() for _ in range(9)]
    idle = server.connect()
    server.wait_for_connections(10)
    other = server.ask("/wait")
    server.wait_for_connections(10, server.worker.complete)
    assert server.connections(server.worker.reading)
    server.application.proceed.set()
    assert read(running[0]).headers["connection"] == "close"
    assert read(other).status == 200
    assert read(server.ask(client=idle)).status == 200


def test_a_client_beyond_the_maximum_is_accepted_after_another_client_has_gone(serve):
    server = serve({"LINGER": 0.1}, worker_connections=6, threads=1)
    clients = []
    for number in range(1, 7):
        clients.append(server.ask("/wait"))
        server.wait_for_connections(number, server.worker.complete)
    clients.append(server.ask())
    settle()
    assert len(server.connections()) == 6
    server.application.proceed.set()
    assert [read(client).status for client in clients] == [200] * 7


@pytest.mark.slow
def test_a_process_with_connections_leaves_a_new_client_to_a_process_with_fewer(
    serve, monkeypatch, caplog
):
    server = serve(workers=2)
    assert read(server.ask()).status == 200
    monkeypatch.setattr(module, "YIELD", 2)
    server.connect()
    settle()
    # Accept the client as another process would.
    accepted, _ = server.listener.accept()
    accepted.close()
    wait_until(lambda: not server.worker.accepting.locked())
    assert len(server.connections()) == 1
    assert not caplog.records


def test_a_thread_waits_half_a_millisecond_for_the_interpreter_lock(serve):
    sys.setswitchinterval(0.005)
    serve()
    assert sys.getswitchinterval() == pytest.approx(0.0005)


class Timeless(Worker):
    """A worker whose ticks wait until the test lets them go on."""

    def tick(self):
        self.clock.wait(60)
        super().tick()


def test_clients_that_arrive_together_are_served_without_waiting_for_the_next_tick(serve):
    Timeless.clock = threading.Event()
    server = serve(kind=Timeless)
    clients = [server.ask() for _ in range(8)]
    assert [read(client).status for client in clients] == [200] * 8
    Timeless.clock.set()


def test_a_stopping_worker_answers_running_requests_and_one_last_request_per_idle_client(
    serve, monkeypatch
):
    monkeypatch.setattr(module, "STOP_GRACE", 60)
    server = serve()
    idle, forgotten = server.ask(), server.ask()
    assert [read(idle).status, read(forgotten).status] == [200, 200]
    server.wait_for_connections(2, server.worker.idle)
    for conn in server.connections():
        conn.since -= 60
    half = server.connect()
    half.sendall(b"GET / HT")
    running = server.occupy()
    server.worker.alive = False
    wait_until(lambda: server.listener.fileno() == -1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address)
    settle()
    server.ask(client=idle)
    server.wait_for_connections(2, server.worker.complete)
    server.application.proceed.set()
    for client in (running, idle):
        answer = Answer(receive_all(client))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        client.close()
    assert server.worker.idle.seconds == server.worker.reading.seconds == 60
    server.worker.idle.seconds = server.worker.reading.seconds = 0.1
    assert receive_all(forgotten) == b""
    assert Answer(receive_all(half)).status == 408
    half.close()
    server.wait_for_its_end()


@pytest.mark.slow
def test_a_stopping_worker_waits_for_a_request_no_longer_than_graceful_timeout(serve):
    server = serve(graceful_timeout=1)
    server.occupy()
    start = time.monotonic()
    server.worker.alive = False
    server.wait_for_its_end()
    assert time.monotonic() - start > 0.9


class Exhausted:
    """A listener that cannot accept: no file descriptor is left, or the client has given up."""

    def __init__(self, number):
        self.number, self.asked = number, 0

    def accept(self):
        self.asked += 1
        raise OSError(self.number, os.strerror(self.number))


def test_without_a_file_descriptor_a_waiting_connection_is_closed_and_the_log_says_so(
    serve, caplog
):
    server = serve()
    (number,) = server.worker.listeners
    idle = server.ask()
    assert read(idle).status == 200
    running = server.occupy()
    for _ in range(2):
        exhausted = Exhausted(errno.EMFILE)
        server.worker.listeners[number] = exhausted
        late = server.connect()
        wait_until(lambda exhausted=exhausted: exhausted.asked > 3)
        server.worker.listeners[number] = server.listener
        server.ask(client=late)
        wait_until(lambda: server.connections(server.worker.complete)[1:])
        # In the second round, no idle connection is left that the worker could close.
    assert receive_all(idle) == b""
    assert caplog.messages == ["No file descriptor is left for a new client"] * 2
    server.application.proceed.set()
    assert [read(client).status for client in (running, late)] == [200, 200]


def test_a_client_that_gives_up_before_it_is_accepted_does_not_affect_other_clients(serve, caplog):
    server = serve()
    (number,) = server.worker.listeners
    idle = server.ask()
    assert read(idle).status == 200
    exhausted = server.worker.listeners[number] = Exhausted(errno.ECONNABORTED)
    late = server.connect()
    wait_until(lambda: exhausted.asked)
    server.worker.listeners[number] = server.listener
    assert read(server.ask(client=late)).status == 200
    assert read(server.ask(client=idle)).status == 200
    assert not caplog.records


@pytest.mark.parametrize("fault", ["value", "os", "exit"])
def test_an_application_that_fails_is_500_and_the_log_has_the_place_without_the_message(
    serve, caplog, fault
):
    server = serve()
    for _ in range(2):
        client = server.ask()
        assert read(client).headers["connection"] == "keep-alive"
        answer = Answer(receive_all(server.ask(f"/fail/{fault}", client=client)))
        assert (answer.status, answer.headers["connection"]) == (500, "close")
        assert SECRET not in answer.body.decode()
    for record in caplog.records:
        assert SECRET not in record.message
        assert "conftest.py" in record.message
    assert len(caplog.records) == 2


def test_a_response_that_the_application_cannot_finish_is_truncated(serve):
    server = serve()
    answer = Answer(receive_all(server.ask("/break")))
    assert (answer.body, answer.headers["content-length"]) == (b"part", "9")
    assert answer.headers["connection"] == "close"
    assert read(server.ask()).status == 200


def test_a_client_that_stops_sending_within_its_body_gets_400(serve):
    server = serve()
    client = server.connect()
    client.sendall(HALF["half a body"][0])
    client.shutdown(socket.SHUT_WR)
    assert Answer(receive_all(client)).status == 400


def test_a_client_that_hangs_up_is_forgotten_immediately(serve):
    server = serve()
    for half, hard in ((b"", False), (b"GET", False), (b"GET", True)):
        client = server.connect()
        client.sendall(half)
        wait_until(lambda: server.connections())
        if hard:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        wait_until(lambda: not server.connections())


def test_unread_responses_have_one_common_limit_and_count_until_their_last_byte_is_sent(
    serve, monkeypatch
):
    """A client leaves more unread than the buffers of the system take, about 4 MB."""
    monkeypatch.setattr(module, "MAX_UNSENT", 16_000_000)
    server = serve()
    for _ in range(2):
        assert len(read(server.ask("/large/12000000")).body) == 12_000_000
        # A response that has just been read may still count for a moment.
        wait_until(lambda: not server.connections(server.worker.flushing))
    first = server.ask("/large/12000000", buffer=2**17)
    raw = first.recv(2**17)
    wait_until(lambda: server.connections(server.worker.flushing))
    assert len(read(server.ask("/large/2000000")).body) == 2_000_000
    while len(raw) < 5_000_000:
        raw += first.recv(2**17)
    # The worker does not drop a connection while a thread sends to it.
    wait_until(lambda: server.at_rest(server.worker.flushing))
    (unread,) = server.connections(server.worker.flushing)
    second = server.ask("/large/8000000", buffer=2**17)
    wait_until(lambda: unread not in server.connections())
    with pytest.raises(ConnectionResetError):
        receive_all(first)
    assert len(read(second).body) == 8_000_000


@pytest.mark.parametrize(("arriving", "number"), [(300_000, 3), (1_000, 2)])
def test_requests_that_wait_for_a_slot_have_one_common_limit_of_bytes(
    serve, monkeypatch, arriving, number
):
    """Together they may have MAX_PENDING bytes, or twice the largest body if that is more."""
    monkeypatch.setattr(module, "MAX_PENDING", arriving)
    server = serve()
    body = b"x" * 90_000
    running = [server.occupy(), *[server.ask("/", body=body) for _ in range(number)]]
    server.wait_for_connections(number + 1, server.worker.complete)
    answer = Answer(receive_all(server.ask("/", body=body)))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    small = server.ask("/", body=body[:40_000])
    server.wait_for_connections(number + 2, server.worker.complete)
    server.application.proceed.set()
    assert [read(client).status for client in (*running, small)] == [200] * (number + 2)
    assert [len(body) for body in server.application.bodies] == [0, *[90_000] * number, 40_000]


def test_the_oldest_unfinished_request_is_dropped_to_make_room_for_a_new_one(serve, monkeypatch):
    monkeypatch.setattr(module, "MAX_PENDING", 200_000)
    server = serve()
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    clients = [server.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(head + b"x" * 90_000)
        wait_until(
            lambda n=number: sum(c.reader.size for c in server.connections()) >= min(n + 1, 2) * 9e4
        )
    assert receive_all(clients[0]) == b""
    for client in clients[1:]:
        client.sendall(b"x" * 10_000)
        assert read(client).status == 200


def test_a_client_that_waits_for_100_continue_gets_it_once(serve):
    server = serve()
    client = server.connect()
    client.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    )
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    for byte in (b"a", b"b"):
        client.sendall(byte)
        settle()
    client.sendall(b"c")
    assert client.recv(12) == ACCEPTED
    assert server.application.bodies == [b"abc"]


def test_the_error_response_to_a_head_request_has_no_body(serve):
    server = serve()
    half = server.connect()
    half.sendall(b"HEAD / HT")
    clients = server.ask("/fail/value"), server.connect(), server.connect(), half
    for client, request in (
        (clients[1], b"HEAD / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
        (clients[2], b"HEAD /fail/value HTTP/1.1\r\nHost: x\r\n\r\n"),
    ):
        client.sendall(request)
    answers = [Answer(receive_all(client)) for client in clients[:3]]
    server.worker.reading.seconds = 0.1
    answers.append(Answer(receive_all(half)))
    assert [answer.status for answer in answers] == [500, 400, 500, 408]
    assert [bool(answer.body) for answer in answers] == [True, False, False, False]
    assert all(int(answer.headers["content-length"]) > 0 for answer in answers)


def test_pipelined_requests_are_answered_in_turn_and_head_without_a_body(serve):
    head = b"%b / HTTP/1.%d\r\nHost: x\r\n\r\n"
    chunked = b"GET /large/3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    client = serve().connect()
    client.sendall(head % (b"GET", 1) + chunked + head % (b"HEAD", 1) + head % (b"GET", 0))
    heads = receive_all(client).split(b"\r\n\r\n")
    assert [part.partition(b"HTTP/1.1 200 OK")[0] for part in heads] == [
        b"",
        b"xx",
        b"xxx",
        b"",
        b"xx",
    ]
    assert b"Connection: close" in heads[3]


def test_an_early_response_can_be_read_after_the_whole_body_and_an_endless_body_is_cut_off(serve):
    server = serve({"LINGER": 60})
    answer = read(server.ask("/", body=b" " * 2_000_000))
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    endless = server.ask("/", "Content-Length: 1000000000")
    with pytest.raises(ConnectionError):
        endless.sendall(b" " * 20 * module.MAX_DRAIN)


def test_a_request_with_the_method_connect_gets_405_and_an_empty_allow_header(serve):
    client = serve().connect()
    client.sendall(b"CONNECT x.example:443 HTTP/1.1\r\nHost: x.example:443\r\n\r\n")
    answer = Answer(receive_all(client))
    assert (answer.status, answer.headers["allow"]) == (405, "")


def test_a_response_beyond_the_common_limit_is_reset_while_another_client_uses_less(
    serve, monkeypatch
):
    """Its client has no other connection that could make room.

    If no other client needs room, the response may be larger.
    """
    monkeypatch.setattr(module, "MAX_UNSENT", 16_000_000)
    server = serve()
    large = server.ask("/large/20000000", buffer=2**17)
    assert len(read(large).body) == 20_000_000
    other = server.stack.enter_context(socket.socket())
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)
    other.settimeout(60)
    other.bind(("127.0.0.2", 0))
    other.connect(server.address)
    flushing = server.worker.flushing
    server.ask("/large/8000000", client=other)
    # For a moment, the first response may count as one that its client still reads.
    wait_until(lambda: [conn.address for conn in server.connections(flushing)] == ["127.0.0.2"])
    client = server.ask("/large/24000000", buffer=2**17)
    # A client that read now could take the response before the worker checks the limit.
    wait_until(lambda: len(server.application.environs) == 3 and len(server.connections()) == 2)
    with pytest.raises(ConnectionResetError):
        receive_all(client)
    assert len(read(other).body) == 8_000_000


@pytest.mark.slow
def test_a_worker_whose_slots_are_all_taken_for_longer_than_timeout_logs_that_and_ends(
    serve, caplog
):
    server = serve(timeout=1)
    start = time.monotonic()
    for _ in range(3):
        assert read(server.ask()).status == 200
        time.sleep(0.1)
    server.occupy()
    server.wait_for_its_end()
    assert time.monotonic() - start > 1.2
    assert caplog.messages == [
        "Worker ends, so that another one starts: all requests run for too long"
    ]


@pytest.mark.slow
def test_a_busy_worker_whose_requests_end_in_time_continues(serve):
    server, turns = serve(timeout=4), threading.Semaphore(0)
    server.application.proceed = SimpleNamespace(
        wait=lambda seconds: turns.acquire(timeout=seconds), set=lambda: turns.release(9)
    )
    # Together the requests take longer than the timeout; each takes far less, even on a busy
    # machine. The worker takes clients that arrive at the same time in any order.
    clients = [server.ask("/wait") for _ in range(10)]
    while clients:
        time.sleep(0.5)
        turns.release()
        answered, _, _ = select.select(clients, [], [], 30)
        assert read(answered[0]).status == 200
        clients.remove(answered[0])
    assert server.thread.is_alive()


@pytest.mark.slow
def test_a_worker_with_a_free_slot_or_without_a_timeout_continues(serve):
    two, endless = serve(timeout=1, threads=2), serve(timeout=0)
    two.occupy()
    endless.occupy()
    time.sleep(1.5)
    assert two.thread.is_alive()
    assert endless.thread.is_alive()


def test_a_worker_that_has_lost_a_thread_logs_that_and_ends(serve, caplog):
    server = serve()
    running = server.occupy()
    server.worker.threads.append(threading.Thread())
    wait_until(lambda: not server.worker.listeners)
    server.application.proceed.set()
    assert read(running).status == 200
    server.wait_for_its_end()
    assert caplog.messages == ["Worker ends, so that another one starts: a thread has ended"]


class Slow:
    """A listener that tells the worker to stop while it accepts a client; the worker waits."""

    def __init__(self, server):
        self.server = server

    def accept(self):
        accepted = self.server.listener.accept()
        self.server.worker.alive = False
        settle()
        return accepted

    def __getattr__(self, name):
        return getattr(self.server.listener, name)


@pytest.mark.slow
def test_a_client_that_is_being_accepted_when_the_worker_stops_is_answered(serve, caplog):
    server = serve()
    (number,) = server.worker.listeners
    server.worker.listeners[number] = Slow(server)
    answer = read(server.ask())
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    server.wait_for_its_end()
    assert not caplog.records


def test_the_worker_ignores_an_event_of_a_listener_that_it_has_closed(serve, caplog):
    server = serve()
    (number,) = server.worker.listeners
    server.worker.alive = False
    wait_until(lambda: not server.worker.listeners)
    assert server.worker.accept(number) is None
    assert not caplog.records
