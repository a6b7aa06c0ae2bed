"""Commands run in this process, on the database of the tests."""

import pytest
from client import CommandRunner


@pytest.fixture
def cli(app):
    """Run a command and return its outcome."""
    runner = CommandRunner(app)
    return lambda *words: runner.invoke(args=words)
