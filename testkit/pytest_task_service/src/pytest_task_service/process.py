"""Find the command of the test double, and run it as a process."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

# pytest leaves the frames of this module out of tracebacks.
__tracebackhide__ = True

VARIABLE = "TASK_SERVICE_COMMAND"

# The variables that the service inherits. It does not inherit settings of the service, of
# PostgreSQL and of Python, because these belong to the project under test.
PASSED = ("HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER", "XDG_CACHE_HOME")

LAST_LINES = 20
# Seconds for which require() waits for the end of the service.
ENDING = 2


class Command(NamedTuple):
    """The command that starts ``task-service``, and where it was found."""

    words: list[str]
    source: str

    @classmethod
    def find(cls, option: str | None = None, *folders: Path) -> Command:
        """Return the first command in: the option, the variable, this environment, PATH.

        A relative path names a file in the first of these folders that has it. Raises RuntimeError
        if there is no command.
        """
        if option:
            return cls(words(option, folders), "as told")
        variable = os.environ.get(VARIABLE)
        if variable:
            return cls(words(variable, folders), VARIABLE)
        beside = Path(sys.executable).with_name("task-service")
        if beside.exists():
            return cls([str(beside)], "of this environment")
        found = shutil.which("task-service")
        if found:
            return cls([found], "on PATH")
        raise RuntimeError(
            "there is no task-service: install task-service-double in a virtual environment,"
            f" and name its command with --task-service-command=… or {VARIABLE}"
        )

    def __str__(self) -> str:
        return f"{shlex.join(self.words)} ({self.source})"


def words(command: str, folders: Iterable[Path]) -> list[str]:
    """Split a command as a shell does; a path of a file, which may contain spaces, stays whole."""
    for folder in folders:
        if (folder / command).is_file():
            return [str(folder / command)]
    program, *arguments = shlex.split(command)
    # A program without a slash is looked up on PATH.
    for folder in folders if "/" in program else ():
        if (folder / program).is_file():
            return [str(folder / program), *arguments]
    return [program, *arguments]


class Process:
    """A running ``task-service dev --json``, which ends when the process that started it ends."""

    def __init__(
        self, command: Command, environment: Mapping[str, str], database: str | None
    ) -> None:
        self.command = command
        self.line = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        # The log is not closed when the process ends, because the last test's report comes later.
        weakref.finalize(self, self._log.close)
        options = ["--database", database] if database else []
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [*command.words, "dev", "--json", "--port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={"LOG_FORMAT": "text", **passed, **environment},
                # So Ctrl-C at a debugger's prompt does not end the service.
                start_new_session=True,
            )
        except OSError as error:
            raise RuntimeError(f"{command}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """The id of the process, which is also the id of its process group."""
        return self._process.pid

    def wait(self) -> bytes:
        """Return the line that the process prints once it serves.

        Raises RuntimeError with the end of the log if the process ends without the line.
        """
        assert self._process.stdout is not None  # noqa: S101
        self.line = self._process.stdout.readline()
        if not self.line:
            self._process.wait()
            raise RuntimeError(self._report("did not start"))
        return self.line

    def require(self) -> None:
        """Raise RuntimeError with the end of the log if the process has ended."""
        try:
            # The process closes the control URL a moment before it ends.
            status = self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return
        raise RuntimeError(self._report(f"has ended with status {status}"))

    def _report(self, end: str) -> str:
        last = self.log().splitlines()[-LAST_LINES:]
        return "\n".join([f"{self.command} {end}:", *last])

    def log_size(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def log(self, start: int = 0) -> str:
        """Return the log without its first ``start`` bytes."""
        size = self.log_size() - start
        return os.pread(self._log.fileno(), size, start).decode(errors="replace")

    def stop(self) -> None:
        """End the process, and wait until it has ended. Its log can still be read."""
        self._process.terminate()
        self._process.communicate()
