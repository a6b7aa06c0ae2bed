"""What ``gunicorn app:app`` reads in this folder: the configuration of the command ``web``.

This file runs the other one instead of importing it: gunicorn reads its configuration again at
SIGHUP, and Python imports a module only once.
"""

from pathlib import Path

CONFIGURATION = Path(__file__).with_name("service") / "gunicorn" / "configuration.py"
exec(compile(CONFIGURATION.read_bytes(), CONFIGURATION, "exec"))  # noqa: S102
