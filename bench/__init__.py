"""What a request costs: the service beside two floors, a bare WSGI callable and the same SQL by pgbench."""
