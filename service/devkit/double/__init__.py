"""The service as a test double: a real one, in a known state, that a test resets and disturbs.

Only ``task-service dev --json`` imports this package, so a deployment runs none of it. The package
``pytest_task_service`` beside it speaks to its control URL.
"""
