"""A TCP proxy in front of PostgreSQL that behaves like a broken network."""

import socket
import struct
import threading
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict
from support.processes import free_port

# Close with RST instead of FIN.
RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards connections to PostgreSQL until a test breaks them.

    ``url`` is the URL of the database through the proxy.
    """

    def __init__(self, database_url):
        self.target = conninfo_to_dict(database_url)
        self.flowing = threading.Event()
        self.flowing.set()
        self.losing = False
        self.sockets = []
        self.listener = None
        # No other connection can get this port while the proxy does not listen.
        self.port = free_port()
        self.listen()

    @property
    def url(self):
        parts = {**self.target, "host": "127.0.0.1", "port": str(self.port)}
        return " ".join(f"{name}='{value}'" for name, value in parts.items())

    def listen(self):
        """Accept connections; after ``refuse``, accept them again on the same port."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.accepting = threading.Thread(target=self._accept, args=(self.listener,), daemon=True)
        self.accepting.start()

    def refuse(self):
        """Close the listener and every connection."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        # The thread may have accepted one more connection, so close the connections after it ends.
        self.accepting.join()
        self.listener.close()
        self.reset()

    def reset(self):
        """Close every connection with RST; still accept new connections."""
        for end in self.sockets:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.sockets.clear()

    def freeze(self):
        """Accept connections and bytes, but forward nothing until ``thaw``."""
        self.flowing.clear()

    def thaw(self):
        self.flowing.set()

    def lose(self):
        """Accept connections and discard all bytes, like a black hole, until ``restore``."""
        self.losing = True

    def restore(self):
        """Forward bytes again. Close all connections, because they have lost bytes."""
        self.losing = False
        self.reset()

    def forwarded(self, content):
        """Return the bytes to forward instead of these; subclasses change or delay them."""
        return content

    def close(self):
        self.flowing.set()
        self.refuse()

    def _accept(self, listener):
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.sockets.append(client)
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                self.sockets.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _connect(self):
        host, port = self.target["host"], int(self.target.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            server.close()
            raise
        return server

    def _forward(self, source, target):
        with suppress(OSError):
            while content := source.recv(65536):
                self.flowing.wait()
                if not self.losing:
                    target.sendall(self.forwarded(content))
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class CuttingProxy(Proxy):
    """Stands before a service; cuts connections while a request or its response passes."""

    def __init__(self, port, chance):
        self.random, self.cuts = chance, 0
        super().__init__(f"host=127.0.0.1 port={port}")

    def forwarded(self, content):
        if self.random.random() < 0.08:
            self.cuts += 1
            raise ConnectionResetError
        return content
