"""The test double: the real service in a known state, which a test resets and disturbs.

``task-service dev --json`` runs ``command``, and then ``serving``, which forks by ``cleanup``: the
first process ends with its parent; the second process starts everything, and removes everything in
the end. gunicorn runs ``wsgi``. The distribution pytest-task-service speaks to the control URL.
"""
