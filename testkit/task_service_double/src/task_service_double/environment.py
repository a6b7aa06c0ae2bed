"""What gunicorn's process takes from the command: JSON in an environment variable."""

import json
import os
from typing import NamedTuple

VARIABLE = "TASK_SERVICE_DOUBLE"


class Environment(NamedTuple):
    """The values; a new worker process inherits them too."""

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
    def read(cls) -> "Environment":
        return cls(**json.loads(os.environ[VARIABLE]))

    def variables(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(self._asdict())}
