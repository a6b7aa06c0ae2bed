"""The HTTP client for untrusted URLs: public addresses only, within a deadline.

It resolves a name once, checks every address, and connects only to an address that it has checked:
to the first one that accepts (RFC 8305). The status counts, whatever happens to the body after it.
It does not follow redirects. Source: OWASP, Server-Side Request Forgery.
"""

import ipaddress
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from http.client import CONTINUE, HTTPException, HTTPResponse
from selectors import EVENT_WRITE, DefaultSelector
from threading import Lock, Thread, Timer
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

MAX_RESPONSE_BYTES = 64 * 1024
# How long an attempt waits for the body once it knows the status.
BODY_SECONDS = 0.25
# An attempt tries the next address of a host after so many seconds, or when the address before has
# failed. It tries only the first addresses, because a stranger's name server may return thousands.
ADDRESS_SECONDS, MAX_ADDRESSES = 0.25, 16
# The maximum number of concurrent look-ups of a process, each in a thread. The units in docs/deploy
# limit the threads of all processes (TasksMax).
MAX_LOOK_UPS = 64

# Networks that are not public, even if a version of the standard library says that they are.
NON_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        # Translated and tunnelled IPv4.
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/23", "::/96", "192.88.99.0/24"),
        # Protocol assignments, with the metadata of clouds, and the metadata of Azure.
        *("192.0.0.0/24", "168.63.129.16/32"),
        # Site-local addresses (obsolete), and addresses for documentation.
        *("fec0::/10", "3fff::/20"),
    )
]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# A row of getaddrinfo: family, type, protocol, canonical name and the address to connect to.
AddressInfo = tuple[
    int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]


class BlockedURL(ValueError):
    """A URL that must not be posted to; the message says why, for operators.

    ``reason`` is form (malformed), unresolved or private. Clients get only the reason, because the
    message can name an address inside the network of the service.
    """

    def __init__(self, message: str, reason: str = "form") -> None:
        super().__init__(message)
        self.reason = reason


class Resolver:
    """Looks up names within a timeout, because getaddrinfo has no timeout.

    Each host is looked up in a separate thread, so a dead name server delays only its own hosts. A
    look-up that still runs serves all callers that wait for the same host.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[tuple[str, int], Future[Sequence[AddressInfo]]] = {}

    def look_up(self, host: str, port: int, timeout: float) -> Sequence[AddressInfo]:
        """Find the addresses of a host; raises TimeoutError, OSError or UnicodeError."""
        try:
            return socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            # The host is a name: look it up.
            pass
        with self._lock:
            future = self._running.get((host, port))
            if future is None:
                if len(self._running) >= MAX_LOOK_UPS:
                    raise TimeoutError
                future = Future()
                try:
                    Thread(target=self._run, args=(host, port, future), daemon=True).start()
                except RuntimeError:
                    # The process has reached its limit of threads.
                    raise TimeoutError from None
                # The look-up is still running: it takes the lock before it ends, and this thread
                # holds the lock.
                self._running[host, port] = future
        return future.result(timeout)

    def _run(self, host: str, port: int, future: "Future[Sequence[AddressInfo]]") -> None:
        outcome: Sequence[AddressInfo] | Exception
        try:
            outcome = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except Exception as error:
            outcome = error
        # The next caller starts a new look-up.
        with self._lock:
            del self._running[host, port]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


resolver = Resolver()


@dataclass(frozen=True)
class Answer:
    """The receiver's status and first bytes, or an error: timeout, blocked, or its class.

    An answer with a status has no error, even if its body has not arrived completely.
    """

    status: int | None = None
    content: bytes = b""
    error: str | None = None
    retry_after: str | None = None

    @property
    def success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def resolve(
    url: str, allowed: Collection[str], timeout: float = 10
) -> tuple[SplitResult, int, Sequence[AddressInfo]]:
    """Check a URL; return its parts, its port and the addresses to connect to.

    Raises BlockedURL, or TimeoutError when the look-up takes too long. ``allowed`` names hosts and
    networks that may be reached although they are not public.
    """
    if not url.isascii() or any(character <= " " for character in url):
        raise BlockedURL(
            "must be plain ASCII without spaces (punycode for the host, %XX for the path)"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BlockedURL(f"is not a URL: {error}") from None
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    if port == 0:
        raise BlockedURL("must not have the port 0")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BlockedURL("must be an http or https URL with a host")
    if parts.username is not None:
        raise BlockedURL("must not carry a user name or a password")
    try:
        addresses = resolver.look_up(parts.hostname, port, timeout)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:
        raise BlockedURL(f"cannot be resolved: {error}", "unresolved") from None
    networks = [network for word in allowed if (network := _network(word))]
    hosts = {word.lower() for word in allowed}
    for *_, address in addresses:
        number = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if not (
            parts.hostname in hosts
            or any(number in network for network in networks)
            or public(number)
        ):
            raise BlockedURL(f"leads to {address[0]}, which is not a public address", "private")
    return parts, port, addresses


def _network(word: str) -> Network | None:
    try:
        return ipaddress.ip_network(word, strict=False)
    except ValueError:
        return None


def public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in NON_PUBLIC)


class FinalResponse(HTTPResponse):
    """Skips all interim responses (RFC 9110, section 15.2); http.client skips only 100.

    http.client has no public method that is called between two responses.
    """

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        # 101 is final here: the request asks for no other protocol.
        return version, CONTINUE if 102 <= status < 200 else status, reason


def begin_to_connect(address: AddressInfo) -> socket.socket:
    """Return a socket that is connecting to this address, or has connected; raises OSError."""
    family, kind, protocol, _, target = address
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    try:
        with suppress(BlockingIOError):
            connection.connect(target)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_first(addresses: Sequence[AddressInfo], end: float) -> socket.socket:
    """Connect to the first address that accepts, and return the socket (RFC 8305, section 5).

    The addresses are tried in order, and an attempt goes on while the next one begins. Raises the
    last error if all of them fail, and TimeoutError at the time ``end`` (``monotonic()``).
    """
    left = [*addresses[:MAX_ADDRESSES]]
    # All attempts begin in the first half of the time, so that the last one has time as well.
    pause = min(ADDRESS_SECONDS, (end - monotonic()) / 2 / len(left))
    failure = OSError()
    with DefaultSelector() as selector:
        attempts = selector.get_map()
        try:
            while left or attempts:
                if left:
                    try:
                        begun = begin_to_connect(left.pop(0))
                    except OSError as error:
                        failure = error
                        continue
                    selector.register(begun, EVENT_WRITE, begun)
                remaining = end - monotonic()
                ready = selector.select(min(pause, remaining) if left else remaining)
                if not ready and remaining <= 0:
                    raise TimeoutError
                for key, _ in ready:
                    attempt: socket.socket = key.data
                    selector.unregister(attempt)
                    code = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code == 0:
                        return attempt
                    attempt.close()
                    failure = OSError(code, os.strerror(code))
            raise failure
        finally:
            for key in attempts.values():
                key.data.close()


class _Pinned:
    """A connection to addresses that were checked. The name of the host is not resolved again.

    urllib3 itself replaces this method for its proxies (``urllib3.contrib.socks``). Its documented
    way, an address as the host together with ``server_hostname``, returns the socket only after
    the TLS handshake. That is too late, because the deadline must also end the handshake.
    """

    response_class: type[HTTPResponse] = FinalResponse
    timeout: float | None
    addresses: Sequence[AddressInfo]
    # When the attempt must end, by ``monotonic()``.
    end: float
    socket_copy: socket.socket | None = None
    expired = False

    def _new_conn(self) -> socket.socket:
        connection = connect_to_first(self.addresses, self.end)
        connection.settimeout(self.timeout)
        # TLS detaches the socket object, and http.client does after the headers.
        self.socket_copy = connection.dup()
        if self.expired:
            self.abort()
        return connection

    def abort(self) -> None:
        """Shut the connection down, even while another thread waits for the receiver."""
        self.expired = True
        if self.socket_copy is not None:
            with suppress(OSError):
                self.socket_copy.shutdown(socket.SHUT_RDWR)


class PinnedHTTP(_Pinned, HTTPConnection):
    """A pinned connection without TLS."""


class PinnedHTTPS(_Pinned, HTTPSConnection):
    """A pinned connection with TLS, for the name in the URL."""


def beginning_of_body(response: BaseHTTPResponse, stream: socket.socket | None) -> bytes:
    """Return the bytes of the body that arrive soon; it may never end, break off or be garbled.

    ``stream`` is the socket of the response.
    """
    content, end = b"", monotonic() + BODY_SECONDS
    with suppress(HTTPError, HTTPException, OSError, ValueError):
        if stream is not None:
            stream.settimeout(BODY_SECONDS)
        while len(content) < MAX_RESPONSE_BYTES and monotonic() < end:
            left = MAX_RESPONSE_BYTES - len(content)
            piece = response.read1(left, decode_content=False)
            if not piece:
                break
            content += piece
    return content


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout: float,
    allowed: Collection[str] = (),
) -> Answer:
    """Post ``body`` and return an Answer within ``timeout`` seconds; a failure is an Answer too."""
    end = monotonic() + timeout
    try:
        parts, port, addresses = resolve(url, allowed, timeout)
    except BlockedURL as blocked:
        return Answer(error=f"blocked: {blocked}")
    except TimeoutError:
        return Answer(error="timeout")
    left = max(0.01, end - monotonic())
    kind = PinnedHTTPS if parts.scheme == "https" else PinnedHTTP
    connection = kind(parts.hostname or "", port, timeout=left)
    connection.addresses, connection.end = addresses, end
    # Unlike the timeout of the socket, this deadline does not restart with each byte. The timer's
    # thread is a daemon if this thread is one.
    deadline = Timer(left, connection.abort)
    deadline.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=headers, preload_content=False)
        stream = connection.sock
        response = connection.getresponse()
        if connection.expired:
            # Without this check, a head that the deadline has cut off would look complete.
            return Answer(error="timeout")
        content = beginning_of_body(response, stream)
        return Answer(response.status, content, retry_after=response.headers.get("Retry-After"))
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        late = connection.expired or isinstance(error, TimeoutError)
        return Answer(error="timeout" if late else type(error).__name__)
    finally:
        deadline.cancel()
        connection.close()
        if connection.socket_copy is not None:
            connection.socket_copy.close()
