"""What a request costs: the service beside a bare WSGI callable and the same SQL by pgbench."""
