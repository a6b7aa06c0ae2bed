"""A Postgres that is there but answers nothing: 503 in time, and no restart once it is back."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from client import TOKENS, Client, waiting
from psycopg.conninfo import conninfo_to_dict

REQUESTS = 8


class Proxy:
    """Forwards connections to Postgres; while frozen it accepts everything and forwards nothing."""

    def __init__(self, database_url):
        self.target = conninfo_to_dict(database_url)
        self.flowing = threading.Event()
        self.flowing.set()
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.sockets.append(client)
                server = self._connect()
                self.sockets.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _connect(self):
        host, port = self.target["host"], int(self.target.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _forward(self, source, target):
        with suppress(OSError):
            while content := source.recv(65536):
                self.flowing.wait()
                target.sendall(content)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.flowing.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        # What it has just accepted is to be closed too.
        self.accepting.join()
        self.listener.close()
        for end in self.sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def proxy(database_url):
    proxy = Proxy(database_url)
    yield proxy
    proxy.close()


@pytest.fixture
def behind_proxy(build, database_url, proxy):
    parts = {**conninfo_to_dict(database_url), "host": "127.0.0.1", "port": str(proxy.port)}
    url = " ".join(f"{name}='{value}'" for name, value in parts.items())
    return build(database_url=url, statement_timeout=0.5, pool_timeout=0.5)


def test_a_frozen_postgres_is_503_on_every_path_and_comes_back(behind_proxy, proxy):
    alice = Client(behind_proxy, TOKENS["alice"])
    assert alice.get("/tasks").status_code == 200
    proxy.flowing.clear()
    with ThreadPoolExecutor(REQUESTS) as threads:
        responses = list(threads.map(lambda _: alice.get("/tasks"), range(REQUESTS)))
    responses.append(behind_proxy.test_client().get("/healthz"))
    for response in responses:
        assert response.status_code == 503
        assert response.get_json()["status"] == 503
        assert response.headers["Retry-After"] == "1"
    proxy.flowing.set()
    for _ in range(50):
        if alice.get("/tasks").status_code == 200:
            break
    assert alice.get("/tasks").status_code == 200


def test_a_write_that_freezes_after_the_gate_is_503(behind_proxy, proxy, connection, database_url):
    alice = Client(behind_proxy, TOKENS["alice"])
    id = alice.post("/tasks", {"title": "x"}).get_json()["id"]
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor(1) as threads:
        holder.execute("SELECT FROM tasks WHERE id = %s FOR UPDATE", (id,))
        response = threads.submit(alice.patch, f"/tasks/{id}", {"title": "y"})
        while not waiting(connection):
            assert not response.done()
        proxy.flowing.clear()
        assert response.result(timeout=30).status_code == 503
