"""The benchmark: CPU per request of the service, and of a bare WSGI callable."""
