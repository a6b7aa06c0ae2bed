"""Keep a local run on this machine: port, webhooks and connections to PostgreSQL are local."""

import errno
import os
import socket

import click

# The hosts that webhooks of a local run may reach.
LOOPBACK = "localhost,127.0.0.0/8,::1"

# The prefixes of environment variables that change where and how libpq connects, and that configure
# Flask and gunicorn.
LIBPQ, SERVERS = "PG", ("FLASK_", "GUNICORN_")


def forget(*prefixes: str) -> list[str]:
    """Remove the environment variables with these prefixes, and return their names."""
    names = sorted(name for name in os.environ if name.startswith(prefixes))
    for name in names:
        del os.environ[name]
    return names


def listen(port: int, option: str = "--port", *, host: str = "127.0.0.1") -> socket.socket:
    """Open a socket that listens on the port; raises ClickException if the port is taken.

    ``host`` is 0.0.0.0 or a loopback address.
    """
    try:
        # A socket can listen on an interface that is down, where nobody reaches it. To connect a
        # UDP socket sends nothing, and fails without a way to the address.
        with socket.socket(type=socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", port or 1))
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.ENETUNREACH):
            raise click.ClickException(
                "the loopback interface of this machine is down, or has no address 127.0.0.1: run"
                " ip link set lo up, or ip address add 127.0.0.1/8 dev lo"
            ) from None
        raise click.ClickException(
            f"port {port}: {os.strerror(error.errno or 0)}; choose another with {option}"
        ) from None
