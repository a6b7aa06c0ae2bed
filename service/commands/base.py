"""The functions that all commands share.

A command prints plain values to stdout, and an error as one line to stderr.
"""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import click
import psycopg
from marshmallow import ValidationError, fields

from service.database import pool
from service.database.remedies import remedy
from service.database.statements import Connection, IdRow, Row
from service.settings import InvalidSetting, Settings
from service.values.schemas import flatten
from service.values.types import Timestamp, camel_case

email_argument = click.argument("email")
slug_argument = click.argument("slug")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON array of objects instead of lines."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask; required if standard input is not a terminal."
)


class FoundWorkspace(NamedTuple):
    slug: str
    id: str
    # Null in a workspace without an owner.
    owner_id: str | None


def in_one_line(error: Exception) -> str | None:
    """Explain the error of a command in one line; None for an error that is a defect."""
    match error:
        case InvalidSetting():
            return str(error)
        case ValidationError():
            return describe_invalid(error)
        case UnicodeEncodeError():
            return "an argument is not UTF-8"
        case psycopg.Error():
            return describe(error)
    return None


def describe(error: psycopg.Error) -> str:
    """Explain an error in one line.

    If a constraint was violated that has words, the line is these words. If not, it is PostgreSQL's
    message, followed by the remedy if one is known.
    """
    # Imported late, because its libraries would slow down each command.
    from service.web.errors import words_of

    if words := words_of(error.diag.constraint_name):
        return words
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # If DATABASE_URL names several servers, the last lines of psycopg's message list the error of
    # each server.
    each = [line.removeprefix("- ") for line in lines if line.startswith("- host: ")]
    text, known = "; ".join(each) or lines[0], remedy(error)
    return f"{text}: {known}" if known else text


def describe_invalid(invalid: ValidationError) -> str:
    return "; ".join(f"{error.field}: {error.message}" for error in flatten(invalid))


def current_settings() -> Settings:
    """Return the settings of this run; raises InvalidSetting.

    The first call reads them from the environment, unless the caller of ``main`` or the command
    itself has set other settings before.
    """
    root = click.get_current_context().find_root()
    if root.obj is None:
        root.obj = Settings.read()
    settings: Settings = root.obj
    return settings


def connect() -> Connection:
    """Connect to the database; pg_stat_activity shows the name of this command."""
    context = click.get_current_context()
    name = context.command_path.removeprefix(context.find_root().command_path)
    return pool.connect(current_settings(), name.strip())


def query(kind: type[Row], name: str, absent: str = "", /, **values: object) -> list[Row]:
    """Run ``sql/<name>.sql`` on a new connection, and return all rows.

    If there is none, raise ClickException with the message ``absent``, unless it is empty.
    """
    with connect() as connection:
        rows = connection.rows(kind, name, **values)
    if absent and not rows:
        raise click.ClickException(absent)
    return rows


def one_row(kind: type[Row], name: str, absent: str, /, **values: object) -> Row:
    """Like :func:`query`, for a statement that returns at most one row."""
    (row,) = query(kind, name, absent, **values)
    return row


def validate(field: fields.Field[Any], name: str, value: str) -> Any:
    """Load a value with a field; a ValidationError calls the value ``name``."""
    try:
        return field.deserialize(value)
    except ValidationError as error:
        raise ValidationError({name: error.messages}) from None


def timestamp(text: str) -> datetime:
    """Load the value of an option --since."""
    moment: datetime = validate(Timestamp(), "--since", text)
    return moment


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; raises ClickException unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.ClickException(f"{question} Without a terminal, confirm with --yes.")
    click.confirm(question, abort=True, err=True)


@contextmanager
def progress(label: str, length: int | None) -> Iterator[Callable[[int], None]]:
    """Show on stderr how many of the steps are done, if stderr is a terminal.

    The ``with`` statement yields a function; call it with the number of newly completed steps.
    Without a ``length``, nothing is shown.
    """
    # If the parent has closed stderr, sys.stderr is None.
    if not (length and sys.stderr and sys.stderr.isatty()):
        yield lambda _: None
        return
    # Redraw the line only after a hundredth of the steps, because drawing takes longer than most
    # steps.
    redraw = max(1, length // 100)
    with click.progressbar(
        length=length, label=label, file=sys.stderr, update_min_steps=redraw
    ) as bar:
        yield bar.update


def printable(text: str) -> str:
    """Escape unprintable characters, so that the terminal does not interpret them."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def cell(value: object) -> str:
    """Format a value for a line: ``-`` for null, commas between the items of a list."""
    if isinstance(value, list):
        value = ",".join(map(str, value)) or None
    return "-" if value is None else printable(str(value))


def echo_ids(name: str, absent: str = "", /, **values: object) -> None:
    """Like :func:`query`, but print the id of each row."""
    for row in query(IdRow, name, absent, **values):
        click.echo(row.id)


def echo_rows(rows: Iterable[NamedTuple], *, as_json: bool) -> None:
    """Print rows: as a JSON array of objects, or as lines.

    On a terminal the lines are aligned below a heading. Elsewhere tabs separate the values.
    """
    rows = list(rows)
    if as_json:
        click.echo(json.dumps(json_of(rows), indent=1))
    elif rows and sys.stdout.isatty():
        head = [column.replace("_", " ").upper() for column in rows[0]._fields]
        lines = [head, *([*map(cell, row)] for row in rows)]
        widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = [
                text + " " * (column - width(text))
                for text, column in zip(line, widths, strict=True)
            ]
            click.echo("  ".join(padded).rstrip())
    else:
        for row in rows:
            click.echo("\t".join(map(cell, row)))


def json_of(value: object) -> object:
    if isinstance(value, list):
        return [json_of(item) for item in value]
    if columns := getattr(value, "_asdict", None):
        return {camel_case(name): json_of(item) for name, item in columns().items()}
    return value


def width(text: str) -> int:
    """Count the columns that a text takes on a terminal: two for each wide character."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
