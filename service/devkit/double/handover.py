"""What the command of a test double hands to the gunicorn that it starts."""

import json
import os
from typing import NamedTuple

VARIABLE = "TASK_SERVICE_DOUBLE"


class Handover(NamedTuple):
    """JSON in an environment variable, so that a worker that replaces another one has it too."""

    control_url: str
    # The file descriptor of the socket that listens there: it outlives a worker.
    control_fd: int
    # The file descriptor of a pipe: EOF says that the database is ready.
    ready_fd: int
    # The API token of the owner, if it was chosen.
    token: str | None
    # The process to end for POST /stop.
    pid: int

    @classmethod
    def read(cls) -> "Handover":
        """Read the variable."""
        return cls(**json.loads(os.environ[VARIABLE]))

    def variables(self) -> dict[str, str]:
        """The variable, for the environment of gunicorn."""
        return {VARIABLE: json.dumps(self._asdict())}
