"""Commands run in this process, on the database of the tests."""

import pytest


@pytest.fixture
def flask(app):
    """Run a command and return its outcome."""
    runner = app.test_cli_runner()
    return lambda *words: runner.invoke(args=words)
