"""The benchmark: CPU per request of the service, of a bare WSGI callable, and of pgbench."""
