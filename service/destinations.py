"""Posting to addresses that strangers chose: public ones only, within a deadline, and nothing but that.

The name is resolved once, every address it has must be allowed, and the connection goes to the very
address that was checked; a redirect is an answer, not a way. OWASP: Server-Side Request Forgery.
"""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from threading import Timer
from time import monotonic
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

# Longer answers are cut off; nobody needs them.
ANSWER = 64 * 1024

# Not public, whatever the standard library of this Python says.
SPECIAL = [
    ipaddress.ip_network(text)
    for text in (
        # Translated and tunnelled IPv4.
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/23", "::/96", "192.88.99.0/24"),
        # Protocol assignments and the metadata of clouds among them; that of Azure is elsewhere.
        *("192.0.0.0/24", "168.63.129.16/32"),
        # Once local to a site, and for documentation.
        *("fec0::/10", "3fff::/20"),
    )
]

RESOLVERS = ThreadPoolExecutor(4, "resolver")


class Refused(ValueError):
    """This destination is not one that may be posted to; the message says why."""


@dataclass(frozen=True)
class Answer:
    """What came of one post: a status and the first bytes, or the kind of error that kept it away."""

    milliseconds: int
    status: int | None = None
    content: bytes = b""
    error: str | None = None
    retry_after: str | None = None

    @property
    def success(self):
        return self.status is not None and 200 <= self.status < 300


def resolve(url, allowed):
    """Check a URL; returns its parts, its port and the one address to connect to, or raises Refused.

    ``allowed`` names hosts and networks that are fine although they are not public.
    """
    if not url.isascii() or any(character <= " " for character in url):
        raise Refused(
            "must be plain ASCII without spaces (punycode for the host, %XX for the path)"
        )
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Refused(f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused("must be an http or https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise Refused("must not carry a user name or a password")
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"cannot be resolved: {error}") from None
    networks = [network for word in allowed if (network := _network(word))]
    for *_, address in found:
        number = ipaddress.ip_address(address[0].partition("%")[0])
        if not (
            parts.hostname in allowed
            or any(number in network for network in networks)
            or public(number)
        ):
            raise Refused(f"leads to {address[0]}, which is not a public address")
    return parts, port, found[0]


def _network(word):
    try:
        return ipaddress.ip_network(word, strict=False)
    except ValueError:
        return None


def public(address):
    """Whether an address is one on the public internet."""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in SPECIAL)


class _Pinned:
    """A connection to one address that has been checked already, whatever its name resolves to now."""

    address = None
    wire = None
    over = False

    def _new_conn(self):
        family, kind, protocol, _, address = self.address
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(self.timeout)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        # A second handle on it: TLS takes the first one away, and so does the end of the headers.
        self.wire = connection.dup()
        if self.over:
            self.shut()
        return connection

    def shut(self):
        """End the connection from another thread, whatever it is waiting for."""
        self.over = True
        if self.wire is not None:
            with suppress(OSError):
                self.wire.shutdown(socket.SHUT_RDWR)


class PinnedHTTP(_Pinned, HTTPConnection):
    pass


class PinnedHTTPS(_Pinned, HTTPSConnection):
    pass


def post(url, body, headers, *, timeout, allowed=()):
    """Post ``body`` and return an Answer, whatever happens, within ``timeout`` seconds."""
    began = monotonic()

    def answer(status=None, content=b"", error=None, retry_after=None):
        took = round((monotonic() - began) * 1000)
        return Answer(took, status, content, error, retry_after)

    try:
        # Looking up a name has no timeout of its own.
        parts, port, address = RESOLVERS.submit(resolve, url, allowed).result(timeout)
    except Refused as refused:
        return answer(error=f"refused: {refused}")
    except TimeoutError:
        return answer(error="timeout")
    left = max(0.01, timeout - (monotonic() - began))
    kind = PinnedHTTPS if parts.scheme == "https" else PinnedHTTP
    connection = kind(parts.hostname, port, timeout=left)
    connection.address = address
    # Timeouts of a socket begin anew with each byte; this deadline does not.
    deadline = Timer(left, connection.shut)
    deadline.daemon = True
    deadline.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=headers, preload_content=False)
        response = connection.getresponse()
        content = response.read(ANSWER, decode_content=False)
        if connection.over:
            # What was cut off by the deadline looks like the end of an answer.
            return answer(error="timeout")
        return answer(response.status, content, retry_after=response.headers.get("Retry-After"))
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        late = connection.over or isinstance(error, TimeoutError)
        return answer(error="timeout" if late else type(error).__name__)
    finally:
        deadline.cancel()
        connection.close()
        if connection.wire is not None:
            connection.wire.close()
