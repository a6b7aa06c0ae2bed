"""The kit of a developer: the service with a PostgreSQL of its own."""
