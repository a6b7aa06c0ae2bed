"""What ``gunicorn app:app`` loads in this folder."""

from service.app import create_app

app = create_app()
