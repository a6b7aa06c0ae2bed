"""What the command passes to gunicorn's process, as JSON in an environment variable."""

import json
import os
from typing import NamedTuple

VARIABLE = "TASK_SERVICE_DOUBLE"


class Environment(NamedTuple):
    """The values. A worker process that gunicorn starts later inherits them as well."""

    control_url: str
    # The file descriptor of the socket that listens at the control URL. It outlives a worker.
    control_fd: int
    # The file descriptor of a pipe, on which EOF means that the database is ready.
    ready_fd: int
    # The API token of the owner, if the option --token gives one.
    token: str | None
    # The process that POST /stop ends.
    pid: int
    # The host names by which clients may reach the control URL, besides localhost.
    control_host_names: list[str]

    @classmethod
    def read(cls) -> "Environment":
        return cls(**json.loads(os.environ[VARIABLE]))

    def variables(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(self._asdict())}
