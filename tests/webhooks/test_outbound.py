"""The outbound client: it connects only to public addresses, however a URL spells an address."""

import gc
import gzip
import ipaddress
import re
import socket
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from time import monotonic, sleep

import pytest
from support.processes import wait_until
from support.receivers import (
    CERTIFICATE,
    PATIENCE,
    PROJECT,
    Receiver,
    answer,
    cut_body,
    drip_body,
    drip_body_of_unknown_length,
    drip_headers,
    endless,
    garbled_body,
    hang,
    hold_body,
    reset,
)

from service.webhooks.outbound import (
    MAX_ADDRESSES,
    MAX_LOOK_UPS,
    Answer,
    BlockedURL,
    post,
    public,
    resolve,
    resolver,
)

pytestmark = pytest.mark.nodatabase

# Addresses of this host and of private networks, for documentation, tests and multicast, and of
# metadata servers in clouds; and such addresses when IPv6 maps, translates or tunnels them.
PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.169.254", "169.254.170.2",
    "100.100.100.200", "192.0.0.192", "168.63.129.16", "192.0.0.8", "192.0.2.1", "198.51.100.1",
    "203.0.113.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:10.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]", "[64:ff9b:1::10.0.0.1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]",
    "[2002:808:808::1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[100::1]", "[2001:1::1]",
    "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]",
    "[fec0::1]", "[ff02::1]", "[ff0e::1]",
]  # fmt: skip

# Each of these stands for this host or is invalid.
SPELLINGS = [
    "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "017700000001",
    "0177.0.0.1", "0177.0.0.01", "0", "localhost", "LOCALHOST",
    "\N{CIRCLED LATIN SMALL LETTER L}ocalhost", "\N{FULLWIDTH DIGIT ONE}27.0.0.1",
    "127\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}1",
    "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::1%25lo]", "127.0.0.1%00.example.com",
    "example.com@127.0.0.1", "127.0.0.1\\@example.com",
]  # fmt: skip

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "100.128.0.1",
    "192.0.1.1", "198.20.0.1", "223.255.255.254", "[2606:4700:4700::1111]",
    "[2a00:1450:4001:81b::200e]", "[::ffff:8.8.8.8]",
]  # fmt: skip

attempted = None
# Seconds for which a thread stops before it connects.
pause = 0


def witness(event, arguments):
    """An audit hook: Python calls it for each connection that this process attempts."""
    if event == "socket.connect":
        if pause:
            sleep(pause)
        if attempted is not None:
            attempted.append(arguments[1])


sys.addaudithook(witness)


@pytest.fixture
def connects():
    """Yield the list of addresses to which this test attempts to connect."""
    global attempted
    attempted = []
    yield attempted
    attempted = None


@pytest.fixture
def names(monkeypatch):
    """Yield the answers of a hostile name server, which a test fills in.

    The value of a host is a list with one answer for each look-up; the last one is repeated. An
    answer is a list of addresses, or a function that returns one.
    """
    answers = {"asked": []}
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **options):
        if host not in answers or options.get("flags"):
            return real(host, port, *args, **options)
        answers["asked"].append(host)
        left = answers[host]
        addresses = left.pop(0) if len(left) > 1 else left[0]
        if callable(addresses):
            addresses = addresses()
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield answers
    # Threads that look up names belong to the process. The next test must begin without them.
    wait_until(lambda: not resolver._running)


def silence(released):
    """Return an answer that keeps the look-up waiting until the event is set, and then fails it."""

    def resolve():
        released.wait(30)
        raise socket.gaierror("no name server responds")

    return resolve


def send(url, allowed=("127.0.0.1/32",), timeout=5, **headers):
    return post(url, b"{}", headers, timeout=timeout, allowed=allowed)


def times_out(url, timeout, *, least=0, most=9000):
    """Require that an attempt times out, after ``least`` to ``most`` milliseconds."""
    began = monotonic()
    sent = send(url, timeout=timeout)
    assert (sent.status, sent.error) == (None, "timeout")
    assert least <= (monotonic() - began) * 1000 <= most


@pytest.mark.parametrize("host", PRIVATE)
def test_an_address_that_is_not_public_is_blocked(host, names, connects):
    """It is blocked as the host of a URL, and as an address to which a name resolves."""
    for url in (f"http://{host}/", f"https://{host}:8443/x?y"):
        with pytest.raises(BlockedURL, match=r"not a public address|cannot be resolved"):
            resolve(url, ())
        assert send(url, allowed=()).error.startswith("blocked: ")
    address = host.strip("[]")
    for addresses in ([address], ["8.8.8.8", address]):
        names["innocent.example.com"] = [addresses]
        sent = send("http://innocent.example.com/", allowed=())
        assert sent.error == f"blocked: leads to {address}, which is not a public address"
    assert connects == []


# One address of each network that is not public according to RFC 6052, 8215, 3056, 2928, 4291,
# 3068, 6890, 3879 or 9637, and one address that Azure reserves.
RESERVED = [
    "64:ff9b::808:808", "64:ff9b:1::808:808", "2002:808:808::1", "2001:1ff:ffff::1", "::808:808",
    "192.88.99.1", "192.0.0.9", "168.63.129.16", "fec0::1", "3fff::1",
]  # fmt: skip


class Global4(ipaddress.IPv4Address):
    is_global, is_reserved, is_multicast, is_private = True, False, False, False


class Global6(ipaddress.IPv6Address):
    is_global, is_reserved, is_multicast, is_private = True, False, False, False


def test_a_reserved_network_is_not_public_even_if_the_standard_library_says_so():
    """The tables of the standard library differ between versions of Python."""
    kinds = {address: Global6 if ":" in address else Global4 for address in RESERVED}
    assert [address for address, kind in kinds.items() if public(kind(address))] == []


def test_an_address_is_public_only_if_the_standard_library_agrees():
    for name, value in (("is_global", False), ("is_reserved", True), ("is_multicast", True)):
        address = Global6("2606:4700::1")
        assert public(address)
        setattr(address_class := type("Odd", (Global6,), {}), name, value)
        assert not public(address_class("2606:4700::1"))
    mapped = Global6("::ffff:127.0.0.1")
    assert not public(mapped)


def test_every_spelling_of_loopback_is_blocked(connects, receiver):
    for host in SPELLINGS:
        sent = send(f"http://{host}:{receiver.port}/", allowed=())
        assert (sent.error or "").startswith("blocked: "), host
    assert connects == []
    assert receiver.connections == 0


@pytest.mark.parametrize("host", PUBLIC)
def test_public_addresses_are_allowed(host):
    assert resolve(f"http://{host}/", ())[1] == 80
    _, port, ((*_, address),) = resolve(f"https://{host}/", ())
    assert port == 443
    assert address[0].removeprefix("::ffff:") == host.strip("[]").removeprefix("::ffff:")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://8.8.8.8/", "must be an http or https URL"),
        ("file:///etc/passwd", "must be an http or https URL"),
        ("gopher://8.8.8.8/", "must be an http or https URL"),
        ("//8.8.8.8/", "must be an http or https URL"), ("8.8.8.8", "must be an http or https URL"),
        ("http://", "must be an http or https URL"), ("http:///x", "must be an http or https URL"),
        ("", "must be an http or https URL"),
        ("http://user:secret@8.8.8.8/", "must not carry a user name"),
        ("http://@8.8.8.8/", "must not carry a user name"),
        ("http://8.8.8.8:99999/", "is not a URL"), ("http://8.8.8.8:x/", "is not a URL"),
        ("http://8.8.8.8:0/", "must not have the port 0"),
        ("https://8.8.8.8:00/", "must not have the port 0"),
        ("http://[::1/", "is not a URL"), ("http://8.8.8.8/a b", "must be plain ASCII"),
        ("http://8.8.8.8/\r\nX-Evil: 1", "must be plain ASCII"),
        ("http://bücher.example/", "must be plain ASCII"),
        ("http://" + "a" * 64 + ".example/", "cannot be resolved"),
    ],
)  # fmt: skip
def test_an_invalid_url_is_blocked_with_the_reason(url, reason, connects):
    with pytest.raises(BlockedURL, match=reason):
        resolve(url, ("0.0.0.0/0",))
    assert send(url).error.startswith(f"blocked: {reason}")
    assert connects == []


def test_a_private_address_is_posted_to_only_if_its_network_is_allowed(receiver):
    assert send(receiver.url, allowed=("127.0.0.1",)).success
    assert send(receiver.url, allowed=("10.0.0.0/8", "127.0.0.0/8")).success
    assert send(receiver.url, allowed=("127.0.0.1/8",)).success
    assert send(receiver.url, allowed=("10.0.0.0/8", "::1")).error.startswith("blocked: ")
    assert send(receiver.url, allowed=("example.com",)).error.startswith("blocked: ")
    assert receiver.connections == 3


def test_a_host_can_be_allowed_by_its_name_in_any_case(names, receiver):
    # A name server puts the address that it prefers first.
    names["hooks.internal"] = [["127.0.0.1", "127.0.0.2"]]
    for host in ("hooks.internal", "HOOKS.internal"):
        url = f"http://{host}:{receiver.port}/"
        assert send(url, allowed=("hooks.internal",)).success
        assert send(url, allowed=("Hooks.Internal",)).success
        assert send(url, allowed=("internal",)).error.startswith("blocked: ")
    assert receiver.connections == 4


def test_a_connection_goes_to_the_address_that_was_checked(names, connects, receiver):
    """DNS rebinding: the second look-up of the name returns another address."""
    inside = Receiver(address=("127.0.0.2", receiver.port))
    names["rebinding.example.com"] = [["127.0.0.1"], ["127.0.0.2"]]
    assert send(f"http://rebinding.example.com:{receiver.port}/").success
    assert names["asked"] == ["rebinding.example.com"]
    assert connects == [("127.0.0.1", receiver.port)]
    sent = send(f"http://rebinding.example.com:{receiver.port}/")
    assert sent.error == "blocked: leads to 127.0.0.2, which is not a public address"
    assert len(connects) == 1
    assert (receiver.connections, inside.connections) == (1, 0)
    inside.close()


@contextmanager
def full(address):
    """Yield a socket that listens at this address, and lets nobody else connect for now.

    The kernel does not answer a client that connects while the queue of the socket is full.
    """
    with (
        socket.create_server(address, backlog=0) as server,
        socket.create_connection(server.getsockname()),
    ):
        yield server


@pytest.mark.parametrize("first", ["127.0.0.2", "::1"])
def test_a_host_whose_first_address_refuses_is_reached_at_the_second(
    first, names, connects, receiver
):
    """On many systems, localhost is ::1 first, where a receiver on 127.0.0.1 does not listen."""
    names["localhost"] = [[first, "127.0.0.1"]]
    assert send(f"http://localhost:{receiver.port}/", allowed=("localhost",)).success
    assert [address[0] for address in connects] == [first, "127.0.0.1"]
    assert receiver.take().headers["Host"] == f"localhost:{receiver.port}"


@pytest.mark.parametrize("silent", [1, pytest.param(MAX_ADDRESSES - 1, marks=pytest.mark.slow)])
def test_a_host_is_reached_at_its_last_address_even_if_the_others_do_not_answer(
    silent, names, receiver
):
    names["receiver.test"] = [["127.0.0.2"] * silent + ["127.0.0.1"]]
    with full(("127.0.0.2", receiver.port)):
        began = monotonic()
        url = f"http://receiver.test:{receiver.port}/"
        assert send(url, allowed=("receiver.test",), timeout=4).success
        assert monotonic() - began >= min(0.25, 2 / MAX_ADDRESSES)


@pytest.mark.slow
def test_an_attempt_to_connect_goes_on_while_the_next_address_is_tried(names, connects):
    """Neither address answers in time for the next attempt; later the first one does."""
    with full(("127.0.0.2", 0)) as first:
        port = first.getsockname()[1]
        names["receiver.test"] = [["127.0.0.2", "127.0.0.3"]]
        with full(("127.0.0.3", port)), ThreadPoolExecutor(1) as threads:
            url, allowed = f"http://receiver.test:{port}/", ("receiver.test",)
            sent = threads.submit(send, url, allowed=allowed, timeout=PATIENCE)
            wait_until(lambda: ("127.0.0.3", port) in connects)
            # The client that has filled the queue, and then the service.
            first.accept()[0].close()
            with first.accept()[0] as accepted:
                accepted.recv(65536)
                accepted.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                assert sent.result().status == 204


def test_an_attempt_fails_with_the_last_error_if_no_address_of_a_host_accepts(names, connects):
    """A name server of a stranger may return many addresses; 16 of them are tried."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    names["receiver.test"] = [[f"127.0.0.{number}" for number in range(1, 41)]]
    sent = send(f"http://receiver.test:{port}/", allowed=("receiver.test",))
    assert (sent.status, sent.error) == (None, "ConnectionRefusedError")
    assert connects == [(f"127.0.0.{number}", port) for number in range(1, 17)]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status, connects, receiver, other_receiver):
    for target in ("http://169.254.169.254/latest/meta-data/", other_receiver.url, "/again"):
        receiver.behaves(answer(status, Location=target))
        sent = send(receiver.url)
        assert (sent.status, sent.success, sent.error) == (status, False, None)
    assert connects == [("127.0.0.1", receiver.port)] * 3
    assert other_receiver.connections == 0


def test_proxies_of_the_environment_are_not_used(monkeypatch, connects, receiver, other_receiver):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, other_receiver.url)
        monkeypatch.setenv(name.upper(), other_receiver.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert send(receiver.url).success
    send(receiver.url.replace("http:", "https:"))
    assert connects == [("127.0.0.1", receiver.port)] * 2
    assert other_receiver.connections == 0


def test_path_and_query_are_sent_unchanged(receiver):
    send(f"http://127.0.0.1:{receiver.port}/a%20b/../c;d?x=1&y=%2F#fragment")
    received = receiver.take()
    assert received.path == "/a%20b/../c;d?x=1&y=%2F"
    assert received.headers["Host"] == f"127.0.0.1:{receiver.port}"
    send(f"http://127.0.0.1:{receiver.port}?only=query")
    assert receiver.take().path == "/?only=query"


@pytest.fixture
def patient(monkeypatch):
    """Let an attempt wait for the body for as long as a busy machine may take to send it."""
    monkeypatch.setattr("service.webhooks.outbound.BODY_SECONDS", PATIENCE)


@pytest.mark.usefixtures("patient")
def test_at_most_64_kib_of_a_response_are_read(receiver):
    receiver.behaves(endless)
    tracemalloc.start()
    sent = send(receiver.url)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (sent.status, len(sent.content)) == (200, 64 * 1024)
    assert peak < 2**21
    # The receiver could send a little more, because the kernel buffers it.
    assert receiver.sent < 2**25


@pytest.mark.parametrize("interim", [102, 103])
def test_interim_responses_are_skipped(interim, receiver):
    def behave(handler):
        head = f"HTTP/1.1 {interim} Interim\r\nLink: </style.css>; rel=preload\r\n\r\n"
        handler.wfile.write(2 * head.encode() + b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver.behaves(behave)
    answered = send(receiver.url)
    assert (answered.status, answered.success, answered.error) == (204, True, None)


@pytest.mark.usefixtures("patient")
def test_compressed_responses_are_not_decompressed(receiver):
    bomb = gzip.compress(b"\0" * 2**24)
    receiver.behaves(answer(200, bomb, Content_Encoding="gzip"))
    assert send(receiver.url).content == bomb


@pytest.mark.parametrize("behaviour", [hold_body, drip_body, drip_body_of_unknown_length, endless])
def test_the_status_counts_without_the_end_of_the_body(monkeypatch, behaviour, receiver):
    """Nor does the attempt wait for it: the request that posts the event waits for the attempt."""
    # The receiver sends a byte every 0.3 s, so no single read would time out.
    monkeypatch.setattr("service.webhooks.outbound.BODY_SECONDS", 0.4)
    receiver.behaves(behaviour)
    began = monotonic()
    sent = send(receiver.url, timeout=PATIENCE)
    assert (sent.status, sent.success, sent.error) == (200, True, None)
    assert monotonic() - began < PATIENCE / 4


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("behaviour", [cut_body, garbled_body])
def test_the_status_and_the_beginning_of_a_body_that_breaks_off_count(behaviour, receiver):
    receiver.behaves(behaviour)
    sent = send(receiver.url)
    assert (sent.status, sent.success, sent.error) == (200, True, None)
    assert sent.content == b"the beginning"


@pytest.mark.usefixtures("patient")
def test_the_status_counts_even_if_the_deadline_cuts_the_body_off(receiver):
    receiver.behaves(drip_body)
    sent = send(receiver.url, timeout=0.5)
    assert (sent.status, sent.error) == (200, None)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [drip_headers, hang])
def test_one_deadline_covers_the_whole_attempt(behaviour, receiver):
    receiver.behaves(behaviour)
    times_out(receiver.url, 0.7, least=650)


@pytest.mark.slow
def test_the_time_of_a_look_up_is_part_of_the_attempt(names, receiver):
    names["slow.example.com"] = [lambda: sleep(1) or ["127.0.0.1"]]
    receiver.behaves(hang)
    times_out(f"http://slow.example.com:{receiver.port}/", 1.5, least=1450, most=2400)
    assert receiver.connections == 1


def test_an_attempt_times_out_if_the_receiver_accepts_no_connection():
    with full(("127.0.0.1", 0)) as server:
        times_out("http://{}:{}/".format(*server.getsockname()), 0.3, least=250)


def test_an_attempt_times_out_even_if_the_thread_of_the_deadline_is_late(monkeypatch, receiver):
    monkeypatch.setattr(
        "service.webhooks.outbound.Timer", lambda left, abort: threading.Timer(left + 30, abort)
    )
    receiver.behaves(hang)
    times_out(receiver.url, 0.2)


def test_a_connection_that_is_made_after_the_deadline_is_shut_down(monkeypatch, receiver):
    """The deadline passes while the thread that is about to connect does not run."""
    receiver.behaves(drip_headers)
    monkeypatch.setattr(sys.modules[__name__], "pause", 0.6)
    # The receiver then sends a byte every 0.3 s, so no single read would time out.
    times_out(receiver.url, 0.4, least=550)


def test_an_attempt_leaves_no_thread_and_no_socket_behind(names, receiver):
    names["receiver.test"] = [["127.0.0.3", "127.0.0.2", "127.0.0.1"]]
    url, allowed = f"http://receiver.test:{receiver.port}/", ("receiver.test",)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
    before = set(threading.enumerate())
    with (
        full(("127.0.0.2", receiver.port)),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        for behaviour in (answer(200), hold_body, endless, reset):
            receiver.behaves(behaviour)
            send(receiver.url)
        receiver.behaves(answer(200))
        assert send(url, allowed=allowed).success
        send(url.replace("receiver.test", "127.0.0.2"), allowed=("127.0.0.2",), timeout=0.1)
        send("http://127.0.0.1:1/")
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    for timer in set(threading.enumerate()) - before:
        if isinstance(timer, threading.Timer):
            timer.join(2)
            assert not timer.is_alive()


PROGRAM = """
import functools, socket, sys, threading
from service.webhooks.outbound import post

never, real = threading.Event(), socket.getaddrinfo

def getaddrinfo(host, *arguments, flags=0, **options):
    return real(host, *arguments, flags=flags, **options) if flags else never.wait()

socket.getaddrinfo = getaddrinfo
print(post("http://dead.example.com/", b"", {}, timeout=0.05).error, flush=True)
attempt = functools.partial(post, sys.argv[1], b"", {}, timeout=60, allowed=["127.0.0.1"])
threading.Thread(target=attempt, daemon=True).start()
sys.stdin.read(1)
"""


@pytest.mark.slow
def test_a_process_can_end_while_a_look_up_or_an_attempt_hangs(receiver):
    receiver.behaves(hang)
    command = [sys.executable, "-c", PROGRAM, receiver.url]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "timeout\n"
            receiver.take()
            process.communicate("x", timeout=PATIENCE)
        finally:
            process.kill()
        assert process.returncode == 0


def test_a_process_looks_up_a_bounded_number_of_names_at_the_same_time(monkeypatch, names):
    monkeypatch.setattr("service.webhooks.outbound.MAX_LOOK_UPS", 2)
    released = threading.Event()
    for number in range(4):
        names[f"{number}.dead.example.com"] = [silence(released)]
        assert send(f"http://{number}.dead.example.com/", timeout=0.05).error == "timeout"
    assert names["asked"] == ["0.dead.example.com", "1.dead.example.com"]
    released.set()


def test_a_host_is_looked_up_successfully_after_no_thread_could_start_for_the_first_look_up(
    monkeypatch, names, receiver
):
    """Starting a thread fails once the process has as many threads as its unit allows."""
    names["receiver.test"] = [["127.0.0.1"]]
    url = f"http://receiver.test:{receiver.port}/"

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", fail)
        assert send(url).error == "timeout"
    assert send(url, allowed=("receiver.test",)).success


def test_the_systemd_units_allow_enough_threads_to_look_up_names():
    """The limit is enough for four processes that each have as many other threads."""
    limits = (PROJECT / "docs/deploy/10-task-service.conf").read_text(encoding="utf-8")
    (tasks,) = re.findall(r"^TasksMax=(\d+)$", limits, flags=re.MULTILINE)
    assert int(tasks) >= 4 * 2 * MAX_LOOK_UPS


@pytest.mark.parametrize(
    ("status", "success"), [(None, False), (199, False), (200, True), (299, True), (300, False)]
)
def test_a_delivery_succeeds_if_the_receiver_returns_any_status_of_2xx(status, success):
    assert Answer(status).success == success


def test_a_host_whose_name_server_is_dead_does_not_delay_other_hosts(names, receiver, connects):
    hosts = [f"{number}.dead.example.com" for number in range(8)]
    names |= {host: [silence(receiver.released)] for host in hosts}
    with ThreadPoolExecutor(16) as pool:
        for sent in pool.map(lambda host: send(f"http://{host}/", timeout=0.3), hosts * 2):
            assert (sent.status, sent.error) == (None, "timeout")
    # All of these look-ups still run. Other names and addresses can be looked up all the same.
    assert send(f"http://localhost:{receiver.port}/", allowed=("localhost",)).success
    assert send(receiver.url).success
    receiver.released.set()
    # Two callers asked for each host, and one look-up served both.
    assert sorted(names["asked"]) == hosts
    assert connects == [("127.0.0.1", receiver.port)] * 2


@pytest.fixture
def secure_receiver(names):
    names["receiver.test"] = [["127.0.0.1"]]
    receiver = Receiver(tls=True)
    yield receiver
    receiver.close()


def test_tls_verifies_the_name_at_the_checked_address(monkeypatch, secure_receiver, connects):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert send(f"https://receiver.test:{secure_receiver.port}/").status == 200
    assert secure_receiver.server_names == ["receiver.test"]
    received = secure_receiver.take()
    assert received.headers["Host"] == f"receiver.test:{secure_receiver.port}"
    assert connects == [("127.0.0.1", secure_receiver.port)]


class DrippingHandshake(BaseRequestHandler):
    """Sends the head of a record of TLS, and then a byte of the record every 0.3 s."""

    def handle(self):
        self.request.sendall(b"\x16\x03\x03\x40\x00")
        while not self.server.released.wait(0.3):
            self.request.sendall(b"x")


def test_the_deadline_covers_the_handshake_of_tls():
    with ThreadingTCPServer(("127.0.0.1", 0), DrippingHandshake) as server:
        server.daemon_threads, server.released = True, threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        times_out(f"https://127.0.0.1:{server.server_address[1]}/", 0.7, least=650)
        server.released.set()
        server.shutdown()


@pytest.mark.parametrize("trusted", [False, True], ids=["unknown issuer", "wrong host name"])
def test_a_receiver_with_an_invalid_certificate_gets_no_request(
    trusted, names, monkeypatch, secure_receiver
):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    names["other.test"] = [["127.0.0.1"]]
    host = "other.test" if trusted else "receiver.test"
    sent = send(f"https://{host}:{secure_receiver.port}/")
    assert (sent.status, sent.error) == (None, "SSLCertVerificationError")
    assert secure_receiver.take_all() == []


def test_a_receiver_without_tls_fails_over_https(receiver):
    assert "SSL" in send(receiver.url.replace("http:", "https:")).error
    assert receiver.take_all() == []
