"""What gunicorn and flask load: ``gunicorn app:app``, ``flask dev``."""

import sys

from service import create_app
from service.settings import InvalidSetting

try:
    app = create_app()
except InvalidSetting as error:
    sys.exit(f"Error: {error}")
