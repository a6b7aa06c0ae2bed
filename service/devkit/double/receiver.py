"""A receiver of webhooks that verifies, records, and fails on demand."""

from threading import Condition
from typing import Any

from service.webhooks.secrets import is_genuine

BEHAVIORS = "accept", "fail", "hang", "gone"


class Receiver:
    """Records the posts with a valid signature, in order, each with the status it got."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._changed = Condition()
        self.clear()

    def clear(self) -> None:
        """Forget all posts, accept the next ones, and let those that hang go on."""
        self.behave("accept")
        with self._changed:
            self._posts: list[dict[str, Any]] = []

    def behave(self, behavior: str, times: int | None = None, status: int = 500) -> None:
        """Treat the next ``times`` posts, or all from now on, in this way."""
        with self._changed:
            self._behavior, self._times, self._status = behavior, times, status
            self._changed.notify_all()

    def posts(self) -> list[dict[str, Any]]:
        """All that was received so far."""
        with self._changed:
            return list(self._posts)

    def receive(self, headers: Any, body: bytes) -> int:
        """Take one post and return the status; 400 if it is not genuine."""
        if not is_genuine(headers, body, self._secret):
            return 400
        with self._changed:
            behavior = self._behavior
            if behavior != "accept" and self._times is not None:
                self._times -= 1
                if not self._times:
                    self._behavior = "accept"
            status = {"accept": 204, "fail": self._status, "gone": 410, "hang": 503}[behavior]
            self._posts.append(
                {
                    "status": None if behavior == "hang" else status,
                    "headers": {name.lower(): value for name, value in headers.items()},
                    "body": body.decode(errors="replace"),
                }
            )
            if behavior == "hang":
                # Whoever posts gives up before; a change of behavior ends it too.
                self._changed.wait(60)
        return status
