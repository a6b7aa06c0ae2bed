"""A receiver of webhooks: it verifies and records posts, and fails on demand."""

from threading import Condition
from typing import NamedTuple

from werkzeug.datastructures import Headers

from service.devkit.signatures import is_genuine

BEHAVIORS = "accept", "fail", "hang", "gone"

# Seconds for which a post hangs. The sender gives up earlier.
HANG = 60


class Post(NamedTuple):
    """A request with a valid signature, and the status of its response; None if it hung."""

    status: int | None
    headers: dict[str, str]
    body: str


class Receiver:
    """Records the posts with a valid signature, in order."""

    def __init__(self, secret: str) -> None:
        self._first_secret = secret
        self._changed = Condition()
        self.clear()

    def clear(self, secret: str | None = None) -> None:
        """Forget all posts, end the posts that hang, and accept the next posts.

        ``secret`` is the webhook's secret; without it, the secret before any rotation applies.
        """
        self.behave("accept")
        with self._changed:
            self.secret = secret or self._first_secret
            self._posts: list[Post] = []

    def behave(self, behavior: str, times: int | None = None, status: int = 500) -> None:
        """Treat the next ``times`` posts in this way; without ``times``, all posts from now on."""
        with self._changed:
            self._behavior, self._times, self._status = behavior, times, status
            self._changed.notify_all()

    def posts(self) -> list[Post]:
        with self._changed:
            return list(self._posts)

    def receive(self, headers: Headers, body: bytes) -> int:
        """Record a post, and return the status of its response; 400 if no signature is valid."""
        if not is_genuine(headers.get, body, self.secret):
            return 400
        with self._changed:
            behavior = self._behavior
            if behavior != "accept" and self._times is not None:
                self._times -= 1
                if not self._times:
                    self._behavior = "accept"
            status = {"accept": 204, "fail": self._status, "gone": 410, "hang": 503}[behavior]
            received = {name.lower(): value for name, value in headers.items()}
            shown = None if behavior == "hang" else status
            self._posts.append(Post(shown, received, body.decode(errors="replace")))
            if behavior == "hang":
                # behave() ends the wait earlier.
                self._changed.wait(HANG)
        return status
