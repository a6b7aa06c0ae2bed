"""What ``gunicorn app:app`` loads in this folder."""

from service.wsgi import app

__all__ = ["app"]
