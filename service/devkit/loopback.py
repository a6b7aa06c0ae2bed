"""This machine alone: where a local run listens, and where its webhooks and libpq may connect."""

import os
import socket

import click

# The hosts that webhooks may reach.
LOOPBACK = "localhost,127.0.0.0/8,::1"


def forget_libpq() -> None:
    """Remove the variables that would change where and how libpq connects."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]


def listen(port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on the port; raises ClickException if the port is taken."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=2048)
    except OSError as error:
        raise click.ClickException(
            f"port {port}: {os.strerror(error.errno or 0)}; choose another with {option}"
        ) from None
