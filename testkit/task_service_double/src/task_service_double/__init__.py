"""The test double: the real service in a known state, which a test can reset and disturb.

``task-service dev --json`` runs ``command``, which calls ``serving``. ``serving`` uses ``cleanup``
to fork. The first process ends with its parent. The second process starts everything, and removes
everything at the end. gunicorn runs ``wsgi``, which also serves the control URL. The distribution
pytest-task-service sends requests to the control URL.
"""
