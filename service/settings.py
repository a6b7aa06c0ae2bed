"""The settings of the service, read from environment variables and checked once, at the start."""

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

# The platforms Heroku, Render and Fly set these variables. There, requests come from a router on
# another machine, so the service must listen on all addresses.
PLATFORMS = {"DYNO", "RENDER", "FLY_APP_NAME"}
# The words for on and off, in any case.
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
# The minimum length of each key in WEBHOOK_KEY, in characters.
MIN_KEY = 32
# Several keys as generators write them, where a semicolon stands instead of the comma. A key of
# other characters may contain semicolons.
WITH_SEMICOLONS = re.compile(rf"([A-Za-z0-9+/=_-]{{{MIN_KEY},}} *; *)+([A-Za-z0-9+/=_-]{{32,}})?")
# A URL that has another @ than the one after the user and the password.
SECOND_AT = re.compile(r"postgres(?:ql)?://(?:[^/@]*@)?+[^?]*@")


class InvalidSetting(ValueError):
    """An environment variable is missing or has an invalid value; the message names it."""


# Reads the text of a variable; raises ValueError, whose message says what is allowed.
Kind = Callable[[str], Any]


def integer(low: int, high: int, what: str = "an integer") -> Kind:
    def read(text: str) -> int:
        # int() would accept other forms too: 1_0, +1, full-width digits.
        if not re.fullmatch("[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be {what} from {low} to {high}, in digits only")
        return int(text)

    return read


def seconds(text: str) -> float:
    number = float(text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) else 0
    if not 0 < number <= 86_400:
        raise ValueError(
            "must be a number of seconds, more than 0 and at most 86400, without a unit, like 2 or"
            " 0.5"
        )
    return number


def switch(text: str) -> bool:
    """Read on or off, or a word that other programs use for them."""
    word = text.lower()
    if word not in (*ON, *OFF):
        raise ValueError("must be on or off")
    return word in ON


def log_format(text: str) -> str:
    if text.lower() not in ("json", "text"):
        raise ValueError("must be json or text")
    return text.lower()


def list_of(kind: Kind) -> Kind:
    return lambda text: tuple(kind(item) for item in split(text) if item)


def split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def schedule(text: str) -> tuple[float, ...]:
    try:
        delays: tuple[float, ...] = list_of(seconds)(text)
    except ValueError as error:
        raise ValueError(f"{error}; commas separate the delays") from None
    if not delays:
        raise ValueError("must be numbers of seconds, like 5,300")
    return delays


def host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", text):
        try:
            ip_address(text)
        except ValueError:
            raise ValueError(
                "must be a host name or an IP address, like 127.0.0.1, or 0.0.0.0 for all"
                " addresses; without http://, port and brackets"
            ) from None
    return text


def host_or_network(text: str) -> str:
    try:
        ip_network(text, strict=False)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}", text):
            raise ValueError(
                "must be hosts and networks like localhost,10.0.0.0/8, separated by commas, without"
                f" http://, ports, brackets and wildcards; {text} is neither"
            ) from None
    return text


def origin(text: str) -> str:
    """Read an origin as browsers write it."""
    match = re.fullmatch(
        r"([a-z][a-z0-9+.-]*)://(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
        r"(?::([1-9][0-9]{0,4}))?",
        text,
    )
    if (
        match is None
        or match.groups() in (("http", "80"), ("https", "443"))
        or ".." in text
        or int(match[2] or 0) > 65535
    ):
        raise ValueError(
            "must be origins like https://app.example.com, separated by commas, in lower case,"
            f" without a path and without the default port; {text} is not an origin"
        )
    return text


def webhook_keys(text: str) -> str:
    keys = split(text)
    if min(map(len, keys)) < MIN_KEY or any(map(WITH_SEMICOLONS.fullmatch, keys)):
        raise ValueError(
            f"must be keys of at least {MIN_KEY} characters, separated by commas, the newest first;"
            " a key contains no comma"
        )
    if quotes := set(text) & set("'\"`\u2018\u2019\u201c\u201d"):
        raise ValueError(
            f"must not contain the quote {min(quotes)}: in a file of settings, begin and end the"
            " value with the same straight quote"
        )
    return text


def login_keys(text: str) -> str:
    """Read keys, each of which is long enough and fits into a header."""
    if not all(re.fullmatch(r"[A-Za-z0-9._~+/=-]{32,200}", key) for key in split(text)):
        raise ValueError(
            f"must be keys of {MIN_KEY} to 200 characters, separated by commas; a key may contain"
            " the characters A-Z a-z 0-9 . _ ~ + / = -"
        )
    return text


def conninfo(text: str) -> str:
    """Read a libpq string or a URL.

    libpq accepts an unencoded @ or / in the password of a URL, and semicolons between the parts of
    a string, too. But it then takes a part of the password for the host, the port or the database,
    and errors and the log show these.
    """
    try:
        read = conninfo_to_dict(text)
    except ProgrammingError:
        read = {"port": "invalid"}
    if (
        text.isspace()
        or SECOND_AT.match(text)
        or not re.fullmatch("[0-9, ]*", str(read.get("port", "")))
        or any("password=" in str(value).lower() for value in read.values())
    ):
        raise ValueError(
            "must be a libpq string like host=/tmp dbname=name, with spaces, or a URL like"
            " postgresql://user:password@host:5432/name: without +psycopg or another driver, with"
            " no parameters but libpq's, and with the characters :/?#[]@% of a password as %XX,"
            " like %2F for /"
        )
    return text


def bare(text: str) -> str:
    """Return a text without white space at its ends, and without quotes around it.

    ``echo`` ends a file, and so a variable made from it, with a newline. Some readers of files with
    variables keep the quotes.
    """
    text = text.strip() or text
    return text[1:-1] if re.fullmatch("(?s)\".*\"|'.*'", text) else text


def text_of(item: Field[Any], environment: Mapping[str, str]) -> str:
    """Return the text of a setting, or ""; raises InvalidSetting if its file cannot be read.

    A secret may be in a file, because container platforms provide secrets as files. For example,
    ``DATABASE_URL_FILE`` names the file with the text of ``DATABASE_URL``.
    """
    variable = item.name.upper()
    text = bare(environment.get(variable, ""))
    if item.metadata["secret"] and not text and (file := environment.get(f"{variable}_FILE")):
        try:
            return bare(Path(bare(file)).read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            # The message does not show the name, because it could be the secret itself.
            raise InvalidSetting(
                f"{variable}_FILE: must be the path of a file with the value;"
                f" reading it failed with {type(error).__name__}"
            ) from None
    if variable == "HOST" and "PORT" in environment and PLATFORMS & set(environment):
        return text or "0.0.0.0"  # noqa: S104
    return text


def setting(default: str | None, kind: Kind, meaning: str, *, secret: bool = False) -> Any:
    """Declare a setting; ``default`` is a text like the text of the variable."""
    metadata = {"default": default, "kind": kind, "meaning": meaning, "secret": secret}
    return field(metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """All settings. The variable of a setting has the name of the setting in upper case."""

    database_url: str | None = setting(
        None,
        conninfo,
        "the PostgreSQL database, version 15 or later: a URL or a libpq string",
        secret=True,
    )
    port: int = setting("8000", integer(1, 65535), "port to listen on")
    host: str = setting("127.0.0.1", host, "address to listen on")
    web_concurrency: int = setting("2", integer(1, 256), "web processes (gunicorn workers)")
    web_threads: int = setting(
        "4",
        integer(1, 256),
        "threads per process: the most requests that it runs, and connections that it opens, at the"
        " same time",
    )
    trusted_proxies: int = setting(
        "0",
        integer(0, 16, "a number of proxies"),
        "number of proxies whose X-Forwarded-For entries are trusted",
    )
    database_prepare: bool = setting(
        "on", switch, "use prepared statements; set to off behind a PgBouncer older than 1.22"
    )
    statement_timeout: float = setting(
        "4",
        seconds,
        "maximum duration of one statement, in seconds; a statement waits for a lock for a quarter"
        " of it",
    )
    pool_timeout: float = setting(
        "2",
        seconds,
        "seconds to wait for a database connection, less the wait for a thread, but at least 0.2",
    )
    max_body: int = setting(
        "1048576", integer(1, 2**30, "a number of bytes"), "maximum size of a request body in bytes"
    )
    docs: bool = setting("off", switch, "serve the reference page at /docs; for development")
    speedups: bool = setting(
        "on", switch, "use the faster parts of the package speedups, if it is installed"
    )
    cors_origins: tuple[str, ...] = setting(
        "",
        list_of(origin),
        "origins whose pages may call the service from a browser, separated by commas, like"
        " https://app.example.com",
    )
    login_key: str | None = setting(
        None,
        login_keys,
        "key with which a login page can create a session for any user: 32 to 200 characters;"
        " without a key, no page can; to change it, list both keys for a while, separated by a"
        " comma",
        secret=True,
    )
    members_create_users: bool = setting(
        "on",
        switch,
        "adding a member with an unknown e-mail address over HTTP creates the user",
    )
    log_format: str = setting(
        "json",
        log_format,
        "format of log lines: json, or text for development",
    )
    webhook_key: str | None = setting(
        None,
        webhook_keys,
        "key from which webhook secrets are derived: at least 32 characters, no comma and no quote;"
        " keep it secret and back it up; to change it, put the new key and a comma before the old"
        " one",
        secret=True,
    )
    webhook_allow: tuple[str, ...] = setting(
        "",
        list_of(host_or_network),
        "private hosts and networks that webhooks may reach, separated by commas, like"
        " localhost,10.0.0.0/8",
    )
    webhook_timeout: float = setting(
        "2", seconds, "seconds that a request may spend on posting its events"
    )
    webhook_schedule: tuple[float, ...] = setting(
        "5,300,1800,7200,18000,36000,50400,72000",
        schedule,
        "delays before the retries of a failed delivery, in seconds",
    )
    webhook_lease: float = setting(
        "60",
        seconds,
        "seconds after which another process repeats an attempt that has no recorded outcome",
    )
    webhook_disable_after: int = setting(
        "120",
        integer(1, 8760, "a number of hours"),
        "hours without a successful delivery after which a failing webhook is disabled",
    )
    webhook_keep: int = setting(
        "216",
        integer(1, 8760, "a number of hours"),
        "hours for which finished deliveries, and events for disabled webhooks or polling"
        " clients, are kept",
    )

    def require_database(self) -> str:
        """Return DATABASE_URL; raises InvalidSetting if it is not set."""
        if not self.database_url:
            raise InvalidSetting(
                "DATABASE_URL is not set: it names the PostgreSQL database, like"
                " postgresql://user:password@host:5432/name (the command dev has its own database)"
            )
        return self.database_url

    def require_webhook_key(self) -> str:
        """Return the newest key of WEBHOOK_KEY; raises InvalidSetting if the setting is not set."""
        if not self.webhook_key:
            raise InvalidSetting(
                "WEBHOOK_KEY is not set: the secrets of webhooks are derived from it;"
                " generate a key with: openssl rand -hex 32"
            )
        return self.webhook_keys[0]

    @property
    def uses_speedups(self) -> bool:
        """True if SPEEDUPS is on and the package ``service.speedups`` is installed."""
        # When Git deletes a package, it can leave a folder without code. Python finds such a folder
        # as a namespace package, which has no location.
        found = find_spec("service.speedups") if self.speedups else None
        return found is not None and found.has_location

    @property
    def login_keys(self) -> list[str]:
        """The keys of LOGIN_KEY; empty if the setting is not set."""
        return split(self.login_key) if self.login_key else []

    @property
    def webhook_keys(self) -> list[str]:
        """The keys of WEBHOOK_KEY, newest first; empty if the setting is not set."""
        return split(self.webhook_key) if self.webhook_key else []

    @classmethod
    def secrets(cls) -> list[str]:
        return [item.name for item in fields(cls) if item.metadata["secret"]]

    @classmethod
    def changed(cls, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables whose values differ from the defaults, with their values.

        Instead of a secret, the value is the word "set".
        """
        return {
            item.name.upper(): "set" if item.metadata["secret"] else text
            for item in fields(cls)
            if (text := text_of(item, environment)) and text != item.metadata["default"]
        }

    @classmethod
    def misspelled(cls, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables that look like misspelt settings, each with the nearest setting."""
        names = [item.name.upper() for item in fields(cls)]
        names += [f"{name.upper()}_FILE" for name in cls.secrets()]
        return {
            variable: nearest[0]
            for variable in sorted(set(environment) - set(names))
            if (nearest := difflib.get_close_matches(variable.upper(), names, 1, cutoff=0.85))
        }

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read and check all settings; raises InvalidSetting, which names an invalid variable."""
        if sys.flags.optimize > 1:
            raise InvalidSetting(
                "PYTHONOPTIMIZE: must be 0 or 1, because 2 removes the docstrings, which are the"
                " descriptions of the document and of the commands"
            )
        values: dict[str, Any] = {}
        for item in fields(cls):
            variable = item.name.upper()
            text = text_of(item, environment) or item.metadata["default"]
            try:
                values[item.name] = None if text is None else item.metadata["kind"](text)
            except ValueError as error:
                shown = variable if item.metadata["secret"] else f"{variable}={text!r}"
                raise InvalidSetting(f"{shown}: {error}") from None
        settings = cls(**values)
        if settings.webhook_lease <= settings.webhook_timeout:
            raise InvalidSetting("WEBHOOK_LEASE: must be longer than WEBHOOK_TIMEOUT")
        return settings
