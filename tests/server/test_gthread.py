"""What differs without the speedups, which docs/operations/settings.md lists."""

import json

import pytest
from support.processes import ALICE, connect, get, receive, send, serving

HALF = f"GET /api/tasks HTTP/1.1\r\n{ALICE}".encode()


@pytest.fixture(scope="module")
def server(database_url):
    settings = {"WEB_CONCURRENCY": "1", "WEB_THREADS": "2", "SPEEDUPS": "off"}
    with serving(database_url, **settings) as server:
        yield server


MALFORMED = {
    "garbage": (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    "bad name": (HALF + b"X(A: b\r\n\r\n", 400),
    "long line": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "long header": (HALF + b"X-A: " + b"x" * 9000 + b"\r\n\r\n", 431),
    "unknown expectation": (HALF + b"Expect: the worst\r\n\r\n", 417),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MALFORMED)
def test_gunicorn_rejects_a_malformed_request_with_an_html_page(server, name):
    request, status = MALFORMED[name]
    answer = send(server.port, request, finish=True)
    assert answer.status == status
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.slow
def test_a_request_that_offers_websocket_gets_405_because_flask_finds_no_view_for_it(server):
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    answer = send(server.port, f"GET /api/tasks HTTP/1.1\r\n{ALICE}{upgrade}\r\n".encode())
    assert answer.status == 405


@pytest.mark.slow
def test_a_long_query_reaches_the_service_as_it_does_with_the_speedups(server):
    answer = get(server.port, f"/api/tasks?q={'x' * 8000}")
    assert answer.status == 400
    assert json.loads(answer.body)["errors"][0]["field"] == "q"


@pytest.mark.slow
def test_slow_clients_occupy_threads_and_even_the_health_check_waits_for_a_free_thread(server):
    """Therefore a proxy that buffers requests, such as nginx, must stand in front."""
    with connect(server.port) as first, connect(server.port) as second:
        first.sendall(HALF)
        second.sendall(HALF)
        with pytest.raises(TimeoutError):
            get(server.port, "/healthz", timeout=1)
        first.sendall(b"\r\n")
        assert receive(first).status == 200
        assert get(server.port, "/healthz").status == 200
        second.sendall(b"\r\n")
        assert receive(second).status == 200
