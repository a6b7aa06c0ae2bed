"""Commands run in this process, on the database of the tests."""

import pytest
from click import ClickException
from client import CommandRunner

from service.__main__ import main


@pytest.fixture
def cli(app):
    """Run a command and return its outcome."""
    runner = CommandRunner(app)
    return lambda *words: runner.invoke(args=words)


@pytest.fixture
def error_of(settings):
    """Run a command, also beside another one; return its error, or None."""

    def error_of(*words):
        try:
            main(words, obj=settings, standalone_mode=False)
        except ClickException as error:
            return error.message
        return None

    return error_of
