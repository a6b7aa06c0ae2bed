"""The benchmark, which measures how much CPU the service needs for a request."""
