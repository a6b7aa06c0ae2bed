"""The benchmark: CPU per request of the service."""
