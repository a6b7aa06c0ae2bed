"""The service as a test double: a real one, in a known state, that a test resets and disturbs.

Only ``task-service dev --json`` imports this package, so a deployment runs none of it. Two
processes: ``starter`` ends with its starter, ``command`` runs everything and removes it in the end.
gunicorn runs ``wsgi``. The distribution pytest-task-service speaks to the control URL.
"""
