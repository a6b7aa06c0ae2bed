"""Logs: one line on stderr for each record and each request, as JSON or as plain text.

In plain text, a traceback follows its line. One handler writes all lines, including the lines of
libraries, but gunicorn's handlers write gunicorn's own lines, in the same format. If a line cannot
be written, it is lost, and the request continues.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from functools import lru_cache
from itertools import starmap
from time import monotonic, time
from typing import TextIO

Line = dict[str, object]
# The seconds that each part of a request took; ``ms`` is the whole request.
Times = dict[str, float]

# An error that keeps occurring is logged again after RARE seconds, or after MAX_RARE other ones.
RARE, MAX_RARE = 60, 1000
# A part of a request that took fewer seconds than this is not logged.
SHORTEST = 0.001
# When each text was logged, by ``monotonic()``.
rarely_logged: dict[str, float] = {}


class JSONFormat(logging.Formatter):
    """One JSON object per line; ``time`` is a timestamp of RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, process and message; a traceback is the member ``exception``."""
        line: Line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)

    def request(self, line: Line, times: Times, request_id: str, created: str | None) -> str:
        """Write the members of the line, the times as milliseconds, and the ids."""
        members = ", ".join(starmap(member, line.items()))
        # Not cached, because each line has other times and ids. An id has no character that JSON
        # escapes.
        own = "".join(
            [
                f'"{name}": {seconds * 1000:.2f}, '
                for name, seconds in times.items()
                if seconds >= SHORTEST or name == "ms"
            ]
        )
        if created:
            own += f'"created": "{created}", '
        return f'{{"time": "{timestamp(time())}", {members}, {own}"requestId": "{request_id}"}}'


class TextFormat(logging.Formatter):
    """A line for people: ``16:05:09 201 POST /api/tasks 12.3 ms``."""

    # ANSI colours by the first digit of a status.
    COLOURS = {"2": 32, "3": 36, "4": 33, "5": 31}

    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        self.colour = colour

    def request(self, line: Line, times: Times, _request_id: str, _created: str | None) -> str:
        """Write time, status, method, path and milliseconds; only the status has a colour."""
        status, path = str(line["status"]), str(line["path"])
        if self.colour:
            status = f"\x1b[{self.COLOURS.get(status[0], 0)}m{status}\x1b[0m"
        # Escape control characters in the path, because a terminal would execute them.
        shown = path if path.isprintable() else repr(path)
        ms = f"{times['ms'] * 1000:.2f}"
        return f"{datetime.now():%H:%M:%S} {status} {line['method']} {shown} {ms} ms"


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes to stderr. ``write`` writes the line of a request without a record of ``logging``.

    A record would take longer than the line: speedups/README.md says how long.
    """

    def __init__(self, lines: JSONFormat | TextFormat) -> None:
        super().__init__()
        self.setFormatter(lines)
        self.lines = lines

    def write(self, line: Line, times: Times, request_id: str, created: str | None) -> None:
        try:
            self.stream.write(self.lines.request(line, times, request_id, created) + "\n")
        except (OSError, ValueError):
            # The request continues without a line in the log.
            return


def timestamp(at: float) -> str:
    """Write a Unix time in the form of RFC 3339, with milliseconds."""
    second, microseconds = divmod(round(at * 1_000_000), 1_000_000)
    return f"{date_and_time(second)}.{microseconds // 1000:03}Z"


@lru_cache(maxsize=1)
def date_and_time(second: int) -> str:
    """Write a timestamp without milliseconds, which all lines of one second share."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:-6]


@lru_cache(maxsize=2048, typed=True)
def member(name: str, value: object) -> str:
    """Write a member of a JSON object. It is cached, because many lines have the same members."""
    return f'"{name}": {json.dumps(value)}'


def new_format(name: str) -> JSONFormat | TextFormat:
    """Make the format ``json`` or ``text``.

    Text has colours on a terminal, unless NO_COLOR is set.
    """
    if name == "text":
        return TextFormat(colour=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
    return JSONFormat()


def configure(name: str) -> LineHandler:
    """Let one handler write the logs of this process as ``json`` or ``text``, and return it.

    A second call returns the handler of the first one.
    """
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, LineHandler):
            return handler
    added = LineHandler(new_format(name))
    root.addHandler(added)
    logging.getLogger("service").setLevel(logging.INFO)
    return added


def is_rare(text: str) -> bool:
    """Return whether to log a text, because it was not logged within the last minute.

    True also records the text as logged now.
    """
    now = monotonic()
    if now < rarely_logged.get(text, -RARE) + RARE:
        return False
    if len(rarely_logged) >= MAX_RARE:
        rarely_logged.clear()
    rarely_logged[text] = now
    return True


def is_rare_record(record: logging.LogRecord) -> bool:
    return is_rare(record.getMessage())
