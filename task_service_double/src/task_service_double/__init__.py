"""The test double: the real service in a known state, which a test resets and disturbs.

``task-service dev --json`` runs ``command``, which forks by ``starter``: the first process ends
with its parent; the second process starts everything, and removes everything in the end. gunicorn
runs ``wsgi``. The distribution pytest-task-service speaks to the control URL.
"""

from pathlib import Path

from service.statements import STATEMENTS, read_statements

# ``double/cast`` is the file sql/double/cast.sql of this folder.
SQL = Path(__file__).with_name("sql")

STATEMENTS.update(read_statements(SQL))
