"""A gunicorn worker whose threads get complete requests: ``gunicorn -k request_worker.Worker``.

README.md has what it promises, and how an application changes it.
"""

from request_worker.gunicorn_worker import Worker

__all__ = ["Worker"]
