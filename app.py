"""What ``gunicorn app:app`` and ``flask`` load in this folder."""

from service.wsgi import app

__all__ = ["app"]
