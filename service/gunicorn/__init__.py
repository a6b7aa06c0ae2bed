"""Runs the service by gunicorn; no other package uses the internals of gunicorn."""

import sys
from pathlib import Path

# A path, not a module: gunicorn reads a file again at SIGHUP, but imports a module only once.
CONFIGURATION = Path(__file__).with_name("configuration.py")


APP = "service.wsgi:app"


def command(*options: str, app: str = APP) -> list[str]:
    """The command line that runs the service, or another application, by gunicorn."""
    return [sys.executable, "-m", "gunicorn", "-c", str(CONFIGURATION), *options, app]
