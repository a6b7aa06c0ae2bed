"""A gunicorn worker whose threads get complete requests.

``gunicorn -k service.speedups.http_server.Worker`` serves an application with it. README.md has
what it promises, and how an application changes it.
"""

from service.speedups.http_server.gunicorn_worker import Worker

__all__ = ["Worker"]
