"""Runs the service with gunicorn: the configuration and the format of gunicorn's log."""

import sys
from pathlib import Path

# A link to gunicorn.conf.py, which "gunicorn app:app" reads in a checkout. It is a path, because
# gunicorn reads a file again at SIGHUP, but imports a module only once.
CONFIGURATION = Path(__file__).with_name("configuration.py")

APP = "service.app:create_app()"


def command(*options: str, app: str = APP) -> list[str]:
    """The command line that runs the service, or another application, with gunicorn."""
    return [sys.executable, "-m", "gunicorn", "-c", str(CONFIGURATION), *options, app]
