"""What gunicorn and flask load: ``gunicorn app:app``, ``flask dev``."""

from service import create_app

app = create_app()
