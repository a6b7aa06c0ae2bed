"""docs/nginx.conf as it stands, run by Debian's nginx in front of the service."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess

import pytest
from client import TOKENS
from server import PROJECT, free_port, serving, wait_until

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed"),
]

TLS = ssl._create_unverified_context()


@pytest.fixture(scope="module")
def nginx(database_url, tmp_path_factory):
    """The port of an nginx that runs the file, with this machine's paths and ports in it."""
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    folder.chmod(0o755)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api.example.com",
         "-keyout", folder / "service.key", "-out", folder / "service.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    with serving(database_url, TRUSTED_PROXIES="1") as service:
        site = (PROJECT / "docs/nginx.conf").read_text(encoding="utf-8")
        for text, own in (
            ("/etc/nginx/service.", f"{folder}/service."),
            ("listen 443 ", f"listen 127.0.0.1:{port} "),
            ("127.0.0.1:8000", f"127.0.0.1:{service.port}"),
        ):
            assert text in site
            site = site.replace(text, own)
        (folder / "site.conf").write_text(site)
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
            f"events {{}}\nhttp {{ access_log off; include {folder}/site.conf; }}\n"
        )
        command = ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        process = subprocess.Popen(command)
        try:
            wait_until(lambda: connects(port), process)
            yield port, service
        finally:
            process.terminate()
            process.wait(10)


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def request(port, method, path, **options):
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=TLS)
    connection.request(method, path, **options)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response, body


def test_requests_reach_the_service_and_its_responses_come_back(nginx):
    port, _ = nginx
    headers = {"Authorization": f"Bearer {TOKENS['alice']}"}
    response, page = request(port, "GET", "/api/tasks", headers=headers)
    assert (response.status, page) == (200, {"data": [], "nextCursor": None})
    response, error = request(port, "GET", "/api/nothing", headers=headers)
    assert (response.status, error["message"]) == (404, "No resource has this path")


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
def test_the_errors_of_nginx_itself_are_json(nginx, lines, status):
    port, _ = nginx
    with TLS.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20)) as client:
        client.sendall(lines.encode())
        raw = b""
        while more := client.recv(65536):
            raw += more
    hold_error(raw, status)


def test_http_on_the_tls_port_is_400_as_json(nginx):
    port, _ = nginx
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        raw = b""
        while more := client.recv(65536):
            raw += more
    hold_error(raw, 400)


def hold_error(raw, status):
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    for name in (b"X-RateLimit-Limit: 60", b"X-RateLimit-Remaining: 0", b"X-RateLimit-Reset: 1"):
        assert name in head
    error = json.loads(body)
    assert list(error) == ["message", "status", "requestId"]
    assert error["status"] == status


def test_a_service_that_is_down_is_502_as_json(nginx):
    port, service = nginx
    service.terminate()
    service.wait(20)
    response, error = request(port, "GET", "/api/tasks")
    assert (response.status, error["status"]) == (502, 502)
    assert response.headers["Content-Type"] == "application/json"
