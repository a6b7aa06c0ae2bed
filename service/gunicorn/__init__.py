"""Runs the service by gunicorn; no other package uses the internals of gunicorn."""

import sys
from pathlib import Path

# A path, not a module: gunicorn reads a file again at SIGHUP, but imports a module only once.
CONFIGURATION = Path(__file__).with_name("configuration.py")


def command(*options: str) -> list[str]:
    """The command line that runs the service by gunicorn, from any folder."""
    return [
        *(sys.executable, "-m", "gunicorn", "-c", str(CONFIGURATION)),
        *options,
        "service.wsgi:app",
    ]
