"""The configuration for ``gunicorn app:app``, which is the configuration of the command ``web``.

gunicorn reads this file in the folder in which it starts, and reads it again on SIGHUP. Therefore
this file executes the other one instead of importing it: Python imports a module only once.
"""

from pathlib import Path

CONFIGURATION = Path(__file__).with_name("service") / "server" / "configuration.py"
exec(compile(CONFIGURATION.read_bytes(), CONFIGURATION, "exec"))  # noqa: S102
