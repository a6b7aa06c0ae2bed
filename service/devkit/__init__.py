"""The kit of a developer: the command ``dev``, and a PostgreSQL that needs no installation."""
