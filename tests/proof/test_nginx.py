"""docs/deploy/nginx.conf without changes, run by Debian's nginx in front of the service."""

import gzip
import http.client
import json
import socket
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from support import front
from support.processes import free_port, receive_all, serving, wait_until
from support.project import blocks, replaced
from support.rows import TOKENS

pytestmark = [pytest.mark.proof, pytest.mark.needs("nginx")]

ALICE = {"Authorization": f"Bearer {TOKENS['alice']}"}
TLS = ssl._create_unverified_context()


class Nginx(NamedTuple):
    port: int
    service: subprocess.Popen
    log: Path


@pytest.fixture(scope="module")
def nginx(database_url, tmp_path_factory):
    """Run nginx with the file; the files that it includes have addresses of this machine."""
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    folder.chmod(0o755)
    with (
        open(folder / "service.log", "wb") as log,
        serving(database_url, TRUSTED_PROXIES="1", stderr=log) as service,
    ):
        hosts = f"server 127.0.0.1:{service.port};"
        site = front.service_site(folder, hosts, front.tls(folder, port))
        with front.nginx(folder, site, port):
            yield Nginx(port, service, folder / "access.log")


def request(port, method, path, host="127.0.0.1", **options):
    connection = http.client.HTTPSConnection(host, port, timeout=20, context=TLS)
    connection.request(method, path, **options)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.headers["Content-Encoding"] == "gzip":
        body = gzip.decompress(body)
    return response, json.loads(body)


def test_a_client_can_use_ipv6_and_the_service_logs_its_address(nginx):
    headers = {**ALICE, "X-Request-Id": "by-ipv6"}
    response, page = request(nginx.port, "GET", "/api/tasks", host="::1", headers=headers)
    assert (response.status, page["data"]) == (200, [])
    service = nginx.log.with_name("service.log")
    wait_until(lambda: any(line["requestId"] == "by-ipv6" for line in lines_of(service)))
    (line,) = [line for line in lines_of(service) if line["requestId"] == "by-ipv6"]
    assert line["client"] == "::1"


def test_a_compressed_response_has_the_same_json_and_a_weak_etag_that_both_conditions_accept(nginx):
    task = {"title": "Compress", "description": "ah " * 1000}
    headers = {**ALICE, "Content-Type": "application/json"}
    created, task = request(
        nginx.port, "POST", "/api/tasks", headers=headers, body=json.dumps(task)
    )
    assert created.status == 201
    headers = {**ALICE, "Accept-Encoding": "gzip"}
    response, compressed = request(nginx.port, "GET", f"/api/tasks/{task['id']}", headers=headers)
    assert (response.headers["Content-Encoding"], response.headers["ETag"]) == ("gzip", 'W/"1"')
    assert compressed == task
    headers = {**headers, "If-None-Match": 'W/"1"'}
    connection = http.client.HTTPSConnection("127.0.0.1", nginx.port, timeout=20, context=TLS)
    connection.request("GET", f"/api/tasks/{task['id']}", headers=headers)
    assert connection.getresponse().status == 304
    connection.close()
    headers = {
        **ALICE,
        "Accept-Encoding": "gzip",
        "Content-Type": "application/json",
        "If-Match": response.headers["ETag"],
    }
    change = {"method": "PATCH", "path": f"/api/tasks/{task['id']}", "body": '{"status": "done"}'}
    changed, task = request(nginx.port, headers=headers, **change)
    assert (changed.status, changed.headers["ETag"], task["version"]) == (200, 'W/"2"', 2)
    refused, error = request(nginx.port, headers=headers, **change)
    assert (refused.status, error["status"]) == (412, 412)


@pytest.mark.parametrize(
    ("offered", "kept"), [("of-the-client", True), ("two words", False), ("x" * 65, False)]
)
def test_the_response_and_both_logs_have_the_same_request_id(nginx, offered, kept):
    headers = {**ALICE, "X-Request-Id": offered}
    response, error = request(nginx.port, "GET", "/api/nothing", headers=headers)
    id = error["requestId"]
    assert (id == offered) is kept
    assert response.headers.get_all("X-Request-Id") == [id]
    for log in (nginx.log, nginx.log.with_name("service.log")):
        wait_until(lambda log=log: id in [line["requestId"] for line in lines_of(log)])


def lines_of(log):
    """Return the requests in a log; the lines of gunicorn itself are not JSON and are left out."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if "requestId" in line]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("G(T / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\n\r\n", 505),
        ("GET /-/error HTTP/1.0\r\n\r\n", 404),
        (f"GET /{'x' * 9000} HTTP/1.0\r\n\r\n", 414),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\nConnection: close\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\nConnection: close\r\n\r\n", 413),
    ],
)
def test_errors_that_nginx_itself_makes_are_json(nginx, lines, status):
    with TLS.wrap_socket(socket.create_connection(("127.0.0.1", nginx.port), timeout=20)) as client:
        client.sendall(lines.encode())
        hold_error(receive_all(client), status)


def test_the_log_has_the_path_and_never_the_query_even_for_an_error_of_nginx(nginx):
    for path, id in (("/api/nothing?secret", "of-the-service"), ("/-/error?secret", "of-nginx")):
        request(nginx.port, "GET", path, headers={**ALICE, "X-Request-Id": id})
        wait_until(lambda id=id: lines_of(nginx.log)[-1]["requestId"] == id)
        assert lines_of(nginx.log)[-1]["path"] == path.partition("?")[0]


def test_plain_http_on_the_tls_port_gets_400_as_json(nginx):
    with socket.create_connection(("127.0.0.1", nginx.port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        hold_error(receive_all(client), 400)


def hold_error(raw, status):
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    limits = b"X-RateLimit-Limit: 60", b"X-RateLimit-Remaining: 0", b"X-RateLimit-Reset: 1"
    for name in (*limits, b"X-Content-Type-Options: nosniff"):
        assert name in head
    error = json.loads(body)
    assert list(error) == ["message", "status", "requestId"]
    assert error["status"] == status
    assert f"X-Request-Id: {error['requestId']}".encode() in head
    assert b"Retry-After" not in head


def test_the_site_for_http_01_serves_challenges_and_redirects_all_else_to_https(readable):
    port = free_port()
    site = replaced(
        *blocks("docs/operations/deployment.md", language="nginx"),
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("listen [::]:80;", f"listen [::1]:{port};"),
        ("/var/www/html", str(readable)),
    )
    challenge = readable / ".well-known" / "acme-challenge" / "token"
    challenge.parent.mkdir(parents=True)
    challenge.write_text("proof")
    with front.nginx(readable, site, port):
        for host in ("127.0.0.1", "::1"):
            connection = http.client.HTTPConnection(host, port, timeout=20)
            connection.request("GET", "/.well-known/acme-challenge/token")
            assert connection.getresponse().read() == b"proof"
            connection.request("POST", "/api/tasks?a=1", headers={"Host": "api.example.com"})
            response = connection.getresponse()
            location = response.headers["Location"]
            assert (response.status, location) == (308, "https://api.example.com/api/tasks?a=1")
            connection.close()


def test_requests_get_502_as_json_while_the_service_is_down(nginx):
    nginx.service.terminate()
    nginx.service.wait(20)
    response, error = request(nginx.port, "GET", "/api/tasks", headers={"X-Request-Id": "lost"})
    assert (response.status, error["status"]) == (502, 502)
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Retry-After"] == "1"
    assert error["requestId"] == response.headers["X-Request-Id"] == "lost"
    wait_until(lambda: lines_of(nginx.log)[-1]["requestId"] == "lost")
