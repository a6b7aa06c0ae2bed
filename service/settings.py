"""Settings come from the environment, are checked once at the start, and never change after it."""

import os
import re
from dataclasses import dataclass, field, fields
from ipaddress import ip_address, ip_network

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict


class BadSetting(ValueError):
    """A variable of the environment has a value that cannot be used; the message names it."""


def _whole(minimum, maximum):
    def parse(text):
        if not re.fullmatch(r"[0-9]{1,12}", text) or not minimum <= int(text) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(text)

    return parse


def _seconds(text):
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not 0 < float(text) <= 86400:
        raise ValueError(
            "must be a number of seconds, more than 0 and at most 86400, like 2 or 0.5"
        )
    return float(text)


def _on_off(text):
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _schedule(text):
    if not re.fullmatch(r"[0-9.,]{1,200}", text):
        raise ValueError("must be seconds separated by commas, like 5,300,1800")
    return tuple(_seconds(part) for part in text.split(","))


def _words(text):
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _host(text):
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", text):
        try:
            ip_address(text)
        except ValueError:
            raise ValueError("must be a host name or an IP address, without a port") from None
    return text


def _allowed(text):
    for word in _words(text):
        if "/" in word:
            try:
                ip_network(word, strict=False)
            except ValueError:
                raise ValueError(f"must be networks like 10.0.0.0/8, unlike {word}") from None
        elif not re.fullmatch(r"[A-Za-z0-9.:_-]{1,253}", word):
            raise ValueError("must be hosts and networks separated by commas")
    return _words(text)


def _database(text):
    try:
        conninfo_to_dict(text)
    except ProgrammingError:
        raise ValueError(
            "must be a URL like postgresql://user:password@host:5432/name, or a libpq string"
        ) from None
    return text


def _key(text):
    if len(text) < 32:
        raise ValueError("must have at least 32 characters")
    return text


def _setting(default, parse, meaning, *, secret=False):
    return field(
        metadata={"default": default, "parse": parse, "meaning": meaning, "secret": secret}
    )


@dataclass(frozen=True)
class Settings:
    """All settings. Each is read from the variable of its name in upper case."""

    database_url: str | None = _setting(
        None, _database, "PostgreSQL 15 or later, as a URL or a libpq string", secret=True
    )
    port: int = _setting("8000", _whole(1, 65535), "port that gunicorn listens on")
    host: str = _setting("127.0.0.1", _host, "address that gunicorn listens on")
    web_concurrency: int = _setting("2", _whole(1, 256), "gunicorn worker processes")
    web_threads: int = _setting(
        "4", _whole(1, 256), "threads, and so database connections, per worker"
    )
    trusted_proxies: int = _setting(
        "0", _whole(0, 16), "proxies in front whose X-Forwarded-For entries are believed"
    )
    database_prepare: bool = _setting(
        "on", _on_off, "prepare statements; off behind a PgBouncer older than 1.22"
    )
    statement_timeout: float = _setting("5", _seconds, "seconds that one statement may take")
    pool_timeout: float = _setting("2", _seconds, "seconds that a request waits for a connection")
    max_body: int = _setting("1048576", _whole(1, 2**30), "bytes that a request body may have")
    docs: bool = _setting("off", _on_off, "serve the reference page /docs; for development")
    webhook_key: str | None = _setting(
        None,
        _key,
        "what the secrets of the webhooks are derived from; keep it, and keep it secret",
        secret=True,
    )
    webhook_allow: tuple = _setting(
        "", _allowed, "hosts and networks that webhooks may reach although they are not public"
    )
    webhook_timeout: float = _setting(
        "2", _seconds, "seconds that a request may spend on posting webhooks"
    )
    webhook_schedule: tuple = _setting(
        "5,300,1800,7200,18000,36000,50400,72000",
        _schedule,
        "seconds until each repetition of a delivery that failed",
    )
    webhook_lease: float = _setting(
        "60", _seconds, "seconds after which an attempt that was never heard of again is repeated"
    )
    webhook_disable_after: int = _setting(
        "120", _whole(1, 8760), "hours of failures only that disable a webhook"
    )
    webhook_keep: int = _setting("168", _whole(1, 8760), "hours that finished deliveries are kept")

    def require_database(self):
        if not self.database_url:
            raise BadSetting(
                "DATABASE_URL is not set: it names the PostgreSQL database, like"
                " postgresql://user:password@host:5432/name (flask dev brings its own)"
            )
        return self.database_url

    @classmethod
    def read(cls, environment=os.environ):
        """Read all settings; raises BadSetting naming the first variable that cannot be used."""
        values = {}
        for item in fields(cls):
            variable = item.name.upper()
            text = environment.get(variable) or item.metadata["default"]
            try:
                values[item.name] = None if text is None else item.metadata["parse"](text)
            except ValueError as error:
                shown = variable if item.metadata["secret"] else f"{variable}={text!r}"
                raise BadSetting(f"{shown}: {error}") from None
        settings = cls(**values)
        if settings.webhook_lease <= settings.webhook_timeout:
            raise BadSetting("WEBHOOK_LEASE: must be longer than WEBHOOK_TIMEOUT")
        return settings
