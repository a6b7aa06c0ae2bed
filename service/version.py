"""The version of the service, and the commit that it was built from."""

import re
import subprocess
from configparser import RawConfigParser
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

# The versions of Python and PostgreSQL with which the tests of this release run, oldest first; the
# page docs/operations/untested.md has the exceptions. A newer version may work.
PYTHON = "3.11", "3.12", "3.13", "3.14"
POSTGRESQL = 15, 16, 17, 18

# setup.py writes this file into packages that it builds from a checkout.
BUILT_FROM = "built_from.txt"


@cache
def version() -> str:
    """The version of the package, even in a checkout in which the package is not installed."""
    try:
        return metadata.version("task-meeting-workspace-service")
    except metadata.PackageNotFoundError:
        found = RawConfigParser()
        found.read(Path(__file__).parents[1] / "setup.cfg", encoding="utf-8")
        return found["metadata"]["version"]


@cache
def build() -> str:
    """Join the version and the commit, if one is known: ``1.0.0+0123abc`` (PEP 440)."""
    known = commit()
    return f"{version()}+{known}" if known else version()


def numbers_of(version: str) -> list[int]:
    """Return the numbers of a version without the commit: 1, 0 and 0 of ``1.0.0+0123abc``."""
    return [int(number) for number in re.findall("[0-9]+", version.partition("+")[0])]


def commit() -> str | None:
    """Find the commit from which this package was built, or the current commit of the checkout."""
    package = Path(__file__).parent
    with suppress(OSError):
        return package.joinpath(BUILT_FROM).read_text(encoding="ascii").strip()
    # Ignore the repository of another project that merely contains this folder.
    if not package.parent.joinpath(".git").exists():
        return None
    command = ["git", "-C", str(package.parent), "rev-parse", "--short", "HEAD"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603
            command, check=True, capture_output=True, encoding="ascii", timeout=5
        ).stdout.strip()
    return None
