"""gunicorn's own log, in the format of the service's log."""

import re
from typing import Any

from gunicorn.config import Config
from gunicorn.glogging import Logger

from service import logs
from service.settings import Settings

# gunicorn quotes a malformed request, which may contain a token, after these words.
QUOTING = re.compile(r"(Invalid request from ip=[^ ]*|Error handling request).*", re.DOTALL)


class ServiceLogger(Logger):
    """gunicorn's logger, which writes JSON or text, as LOG_FORMAT says."""

    def setup(self, cfg: Config) -> None:
        super().setup(cfg)
        lines = logs.new_format(Settings.read().log_format)
        for handler in self.error_log.handlers:
            handler.setFormatter(lines)

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        super().warning(*without_quotation(msg, args), **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        super().exception(*without_quotation(msg, args), **kwargs)


def without_quotation(message: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the message and its values; remove the request that gunicorn may quote in it."""
    quoting = QUOTING.fullmatch(message)
    return (quoting[1],) if quoting else (message, *values)
