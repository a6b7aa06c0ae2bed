"""The folders of test doubles, and what a double that was killed has left there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time

from service.devkit.postgres import CannotStart, Postgres

# The prefix of the folders of test doubles; seconds in which a new folder may lack its lock.
PREFIX, YOUNG = "task-service-", 10


def older(base: Path) -> Iterator[Path]:
    """Yield the folders of other test doubles, but not those that are just being made."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            if folder.lstat().st_mtime < time() - YOUNG:
                yield folder
        except OSError:
            continue


def remove_abandoned(*folders: Path) -> None:
    """Stop PostgreSQL in folders that no process uses any more, and remove the folders."""
    for folder in folders:
        with suppress(CannotStart, OSError):
            if not (folder / "lock").exists():
                # Without a lock its database was elsewhere; rmdir removes an empty folder only.
                folder.rmdir()
            elif folder.stat().st_uid == os.geteuid():
                postgres = Postgres(folder)
                postgres.erase()
                shutil.rmtree(folder, ignore_errors=True)
                postgres.cleanup()
