"""The service as a test double: a real one, in a known state, that a test resets and disturbs.

``task-service dev --json`` starts it, and no other part of the service imports this package, so a
deployment has none of it. The package ``pytest_task_service`` beside it speaks to its control URL.
"""
