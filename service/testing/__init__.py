"""The service as a test double: a real one, in a known state, that a test resets and disturbs.

``task-service dev --json`` starts it for any language, ``service.testing.plugin`` for pytest. No
other part of the service imports this package, so a deployment has none of it.
"""
