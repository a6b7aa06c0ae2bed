"""PostgreSQL: statements from files, connections, and the one connection of a request."""
