"""What one part of a test double passes to the next: its options, and the values for gunicorn."""

import json
import os
from pathlib import Path
from typing import NamedTuple, TypedDict

VARIABLE = "TASK_SERVICE_DOUBLE"


class DoubleOptions(TypedDict):
    """The options of the command, beside the port."""

    token: str | None
    database: str | None
    control_port: int
    control_path: str | None
    json_file: Path | None
    log_file: Path | None
    keep: bool


class Handover(NamedTuple):
    """JSON in an environment variable, which a new worker process inherits too."""

    control_url: str
    # The file descriptor of the socket that listens there: the socket outlives a worker.
    control_fd: int
    # The file descriptor of a pipe: EOF says that the database is ready.
    ready_fd: int
    # The API token of the owner, if the option --token gives one.
    token: str | None
    # The process to end for POST /stop.
    pid: int

    @classmethod
    def read(cls) -> "Handover":
        """Return the values of this process's environment."""
        return cls(**json.loads(os.environ[VARIABLE]))

    def variables(self) -> dict[str, str]:
        """Return the environment variable for gunicorn."""
        return {VARIABLE: json.dumps(self._asdict())}
