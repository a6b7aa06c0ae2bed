"""Tools for developers: the command ``dev``, and a PostgreSQL that needs no installation."""
