"""What a test asks of a response and it lacks: the failure names request, status and message."""

import logging

from werkzeug.datastructures import Headers


class Absent(AssertionError):
    """A response has no such member or header, or no JSON."""


class Members(dict):
    """An object of a response. ``told`` says of which response, for the failure."""

    def __init__(self, members, told):
        super().__init__((name, with_name(value, told)) for name, value in members.items())
        self.told = told

    def __missing__(self, name):
        raise Absent(f"{self.told}: no member {name!r} in {sorted(self)}")

    def __reduce__(self):
        return dict, (dict(self),)


def with_name(value, told):
    """Return a value of JSON whose objects are ``Members``."""
    if isinstance(value, dict):
        return Members(value, told)
    return [with_name(item, told) for item in value] if isinstance(value, list) else value


class NamedHeaders(Headers):
    told = ""

    def __getitem__(self, name):
        if isinstance(name, str) and name not in self:
            raise Absent(f"{self.told}: no header {name}")
        return super().__getitem__(name)


class Cause(logging.Handler):
    """Keeps the last error that the service has logged: the body of a 500 does not show it."""

    text = ""

    def emit(self, record):
        error = record.exc_info[1] if record.exc_info else record.getMessage()
        self.text = str(error).partition("\n")[0]


CAUSE = Cause(logging.ERROR)
logging.getLogger("service.errors").addHandler(CAUSE)


def told(method, path, status, body):
    """Return request, status and message of a response; of a 500, the error that was logged."""
    message = body.get("message", "") if isinstance(body, dict) else ""
    cause = CAUSE.text if status == 500 else ""
    return ", ".join(map(str, filter(None, (f"{method} {path}", status, message, cause))))


class Answer:
    """A response of Werkzeug's test client whose missing headers and members say what it is."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.headers = NamedHeaders(self.headers)
        self.headers.told = self.told

    @property
    def told(self):
        body = super().get_json(silent=True) if self.status_code >= 400 else None
        return told(self.request.method, self.request.path, self.status_code, body)

    def get_json(self, *, silent=False):
        """Return the JSON of the body; without JSON, fail, or return None if ``silent``."""
        body = super().get_json(silent=True)
        if body is None and not silent:
            raise Absent(f"{self.told}: no JSON in the body {self.data[:200]!r}")
        return with_name(body, self.told)
