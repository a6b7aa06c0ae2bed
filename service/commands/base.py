"""What all ``flask`` commands share: plain values on stdout, errors in one line on stderr."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple

import click
import psycopg
from flask import current_app
from flask.cli import with_appcontext
from marshmallow import ValidationError, fields
from psycopg import errors

from service import db
from service.schemas import flatten
from service.settings import InvalidSetting
from service.statements import Row

# What a statement meets in a schema older than itself.
UNMIGRATED = errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction

Command = Callable[..., Any]


def report_errors(command: Command) -> Command:
    """Run a command for the application of the environment, and report its errors."""
    return with_appcontext(explain_errors(command))


def explain_errors(command: Command) -> Command:
    """Turn what can go wrong into one line on stderr and exit status 1."""

    @wraps(command)
    def wrapper(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except InvalidSetting as error:
            raise click.ClickException(str(error)) from None
        except ValidationError as error:
            raise click.ClickException(describe_invalid(error)) from None
        except UnicodeEncodeError:
            raise click.ClickException("an argument is not UTF-8") from None
        except psycopg.Error as error:
            raise click.ClickException(describe(error)) from None

    return wrapper


def describe(error: psycopg.Error) -> str:
    """A constraint's sentence where there is one, else the first line of what Postgres says."""
    constraint = error.diag.constraint_name or ""
    if " " in constraint:
        return constraint
    if isinstance(error, UNMIGRATED):
        return "the database lacks migrations: run the command migrate"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def describe_invalid(error: ValidationError) -> str:
    """What is wrong with which field, in one line."""
    return "; ".join(f"{field}: {message}" for field, message in flatten(error))


class Id(NamedTuple):
    """The row of a statement that returns the id of what it has created or changed."""

    id: str


def query(kind: type[Row], name: str, /, **values: object) -> list[Row]:
    """Run ``sql/<name>.sql`` on a connection of its own; returns its rows."""
    with db.connect(current_app.config["SETTINGS"]) as connection:
        return connection.rows(kind, name, values)


def one_row(kind: type[Row], name: str, absent: str, /, **values: object) -> Row:
    """Like :func:`query`, but the first row; raises ClickException with ``absent`` if none."""
    rows = query(kind, name, **values)
    if not rows:
        raise click.ClickException(absent)
    return rows[0]


def execute(name: str, /, **values: object) -> None:
    """Run ``sql/<name>.sql`` on a connection of its own, for its effect."""
    with db.connect(current_app.config["SETTINGS"]) as connection:
        connection.run(name, values)


def validate(field: fields.Field[Any], name: str, value: str) -> Any:
    """The value as the schema field loads it."""
    try:
        return field.deserialize(value)
    except ValidationError as error:
        raise ValidationError({name: error.messages}) from None


def printable(text: str) -> str:
    """The text with escapes in place of what a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def echo_row(row: Iterable[object]) -> None:
    """Print a row in one line: tabs between the values, ``-`` for null."""
    click.echo("\t".join("-" if value is None else printable(str(value)) for value in row))
