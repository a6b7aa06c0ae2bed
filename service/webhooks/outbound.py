"""The HTTP client for URLs that strangers chose: public addresses only, within a deadline.

A name is resolved once, each of its addresses must be allowed, and the connection goes to the very
address that was checked. Redirects are not followed. OWASP: Server-Side Request Forgery.
"""

import ipaddress
import socket
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from threading import Timer
from time import monotonic
from typing import Any
from urllib.parse import SplitResult, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

MAX_RESPONSE_BYTES = 64 * 1024

# Not public, whatever the standard library of this Python says.
NON_PUBLIC = [
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

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RESOLVERS = ThreadPoolExecutor(4, "resolver")


class BlockedURL(ValueError):
    """A URL that must not be posted to; the message says why."""


@dataclass(frozen=True)
class Answer:
    """What came of one post: a status and the first bytes, or the kind of error."""

    milliseconds: int
    status: int | None = None
    content: bytes = b""
    error: str | None = None
    retry_after: str | None = None

    @property
    def success(self) -> bool:
        """Whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300


def resolve(url: str, allowed: Collection[str]) -> tuple[SplitResult, int, Any]:
    """Check a URL; returns its parts, its port and the one address to connect to.

    Raises BlockedURL. ``allowed`` names hosts and networks that may be reached though not public.
    """
    if not url.isascii() or any(character <= " " for character in url):
        raise BlockedURL(
            "must be plain ASCII without spaces (punycode for the host, %XX for the path)"
        )
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise BlockedURL(f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BlockedURL("must be an http or https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise BlockedURL("must not carry a user name or a password")
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BlockedURL(f"cannot be resolved: {error}") from None
    networks = [network for word in allowed if (network := _network(word))]
    hosts = {word.lower() for word in allowed}
    for *_, address in found:
        number = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if not (
            parts.hostname in hosts
            or any(number in network for network in networks)
            or public(number)
        ):
            raise BlockedURL(f"leads to {address[0]}, which is not a public address")
    return parts, port, found[0]


def _network(word: str) -> Network | None:
    try:
        return ipaddress.ip_network(word, strict=False)
    except ValueError:
        return None


def public(address: Any) -> bool:
    """Whether an address is one on the public internet."""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in NON_PUBLIC)


class _Pinned:
    """A connection to one address that was checked, whatever its name resolves to now."""

    address: Any = None
    socket_copy: socket.socket | None = None
    expired = False

    def _new_conn(self) -> socket.socket:
        family, kind, protocol, _, address = self.address
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(self.timeout)  # type: ignore[attr-defined]
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        # A second handle on it: TLS takes the first one away, and so does the end of the headers.
        self.socket_copy = connection.dup()
        if self.expired:
            self.abort()
        return connection

    def abort(self) -> None:
        """End the connection from another thread, whatever it is waiting for."""
        self.expired = True
        if self.socket_copy is not None:
            with suppress(OSError):
                self.socket_copy.shutdown(socket.SHUT_RDWR)


class PinnedHTTP(_Pinned, HTTPConnection):
    """Plain."""


class PinnedHTTPS(_Pinned, HTTPSConnection):
    """With TLS, for the name in the URL."""


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout: float,
    allowed: Collection[str] = (),
) -> Answer:
    """Post ``body`` and return an Answer, whatever happens, within ``timeout`` seconds."""
    began = monotonic()

    def answer(
        status: int | None = None,
        content: bytes = b"",
        error: str | None = None,
        retry_after: str | None = None,
    ) -> Answer:
        took = round((monotonic() - began) * 1000)
        return Answer(took, status, content, error, retry_after)

    try:
        # Looking up a name has no timeout of its own.
        parts, port, address = RESOLVERS.submit(resolve, url, allowed).result(timeout)
    except BlockedURL as blocked:
        return answer(error=f"blocked: {blocked}")
    except TimeoutError:
        return answer(error="timeout")
    left = max(0.01, timeout - (monotonic() - began))
    kind = PinnedHTTPS if parts.scheme == "https" else PinnedHTTP
    connection = kind(parts.hostname or "", port, timeout=left)
    connection.address = address
    # Timeouts of a socket begin anew with each byte; this deadline does not.
    deadline = Timer(left, connection.abort)
    deadline.daemon = True
    deadline.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=headers, preload_content=False)
        response = connection.getresponse()
        content = response.read(MAX_RESPONSE_BYTES, decode_content=False)
        if connection.expired:
            # What was cut off by the deadline looks like the end of an answer.
            return answer(error="timeout")
        return answer(response.status, content, retry_after=response.headers.get("Retry-After"))
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        late = connection.expired or isinstance(error, TimeoutError)
        return answer(error="timeout" if late else type(error).__name__)
    finally:
        deadline.cancel()
        connection.close()
        if connection.socket_copy is not None:
            connection.socket_copy.close()
