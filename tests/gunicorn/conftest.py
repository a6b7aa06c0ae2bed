"""Servers of one worker with four threads."""

from pathlib import Path

import pytest
from server import serving, web_line

ONE = {"WEB_CONCURRENCY": "1", "WEB_THREADS": "4"}
IMPATIENT = Path(__file__).with_name("impatient.py")


@pytest.fixture(scope="module")
def lone(database_url):
    with serving(database_url, **ONE) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(database_url):
    """Start a server with the time limits of ``impatient.py``."""
    program, *_ = web_line()
    command = [program, "-c", str(IMPATIENT), "app:app"]
    with serving(database_url, command=command, **ONE) as server:
        yield server
