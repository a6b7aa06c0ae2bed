"""gunicorn's own log, in the format of the service's log."""

from gunicorn.config import Config
from gunicorn.glogging import Logger

from service import logs
from service.settings import Settings


class ServiceLogger(Logger):
    """gunicorn's logger, whose lines are JSON, or text to read if LOG_FORMAT says so."""

    def setup(self, cfg: Config) -> None:
        super().setup(cfg)
        lines = logs.new_format(Settings.read().log_format)
        for handler in self.error_log.handlers:
            handler.setFormatter(lines)
