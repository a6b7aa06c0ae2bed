"""The process of the test double, as Python starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pytest_task_service.client import Service


class Process:
    """``task-service dev --json``, which ends with the process that started it."""

    def __init__(self, log: Path, environment: Mapping[str, str], database: str | None) -> None:
        self.log = log
        options = ["--database", database] if database else []
        with log.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603
                # -P: the folder here may have a package "service" of its own.
                [sys.executable, "-P", "-m", "service", "dev", "--json", "--port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"LOG_FORMAT": "text", **os.environ, **environment},
                # Ctrl-C at a debugger's prompt does not end it.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process, which leads a process group of its own."""
        return self._process.pid

    def wait(self) -> Service:
        """Wait until it serves; raises RuntimeError with what it printed if it does not."""
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"the service did not start: {self.log.read_text().strip()}")
        return Service(json.loads(line))

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        self._process.terminate()
        self._process.communicate()
