"""The threads that may wait for strangers: receivers and name servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock


class NoSlot(Exception):
    """All slots are taken."""


class WorkspaceCalls(NoSlot):
    """The workspace has a ping or a check of a URL that still runs."""


class OutboundSlots:
    """Lets few threads of a process wait for strangers, so that the others go on.

    A request that finds no slot leaves its events to the worker. Pings and checks of URLs cannot be
    left: a workspace has one at a time, so that it is refused before it takes the slots of others.
    """

    def __init__(self, places: int) -> None:
        # Whether requests post their events; otherwise the worker posts all.
        self.posts = True
        self._free = BoundedSemaphore(places)
        self._lock = Lock()
        self._workspaces: set[object] = set()

    @contextmanager
    def for_posts(self) -> Iterator[bool]:
        """Yield whether a slot is free for the events of a request."""
        taken = self.posts and self._free.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._free.release()

    @contextmanager
    def for_call(self, workspace_id: object, timeout: float) -> Iterator[None]:
        """Take a slot within ``timeout`` seconds; raises NoSlot."""
        with self._lock:
            if workspace_id in self._workspaces:
                raise WorkspaceCalls
            self._workspaces.add(workspace_id)
        try:
            if not self._free.acquire(timeout=timeout):
                raise NoSlot
            try:
                yield
            finally:
                self._free.release()
        finally:
            with self._lock:
                self._workspaces.remove(workspace_id)
