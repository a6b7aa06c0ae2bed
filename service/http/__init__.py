"""The HTTP side of the service: what every request and every answer goes through."""
