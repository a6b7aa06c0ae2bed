"""The application that gunicorn loads: ``service.wsgi:app``."""

import sys

from service.app import create_app
from service.settings import InvalidSetting

try:
    app = create_app()
except InvalidSetting as error:
    sys.exit(f"Error: {error}")
