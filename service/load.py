"""``flask load``: workspaces, users and all that is theirs, from files of JSON Lines.

A line is an object with its ``type`` and the fields that the API gives it, checked as the API checks
them, plus what names its owner. A file is one transaction: loaded as a whole or not at all.
"""

import os
import re
import sys
from contextlib import contextmanager
from itertools import count

import click
from flask import current_app
from flask.cli import with_appcontext
from marshmallow import ValidationError

from service import db, errors
from service.commands import told
from service.inputs import parse_object
from service.load_lines import TYPES, BadLine
from service.load_store import ROWS, store

# The bytes that one statement takes: little enough to hold twice in memory.
BYTES = 2**22


@click.command("load")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@with_appcontext
@told
def load(files):
    """Load JSON Lines: an object a line, with its type and the API's fields; - is standard input.

    Prints each file and how many objects it had, tab-separated. Each is loaded as a whole or not
    at all; the first bad line is named and ends the command.
    """
    for file in files:
        total = load_file(current_app.config["SETTINGS"], file)
        click.echo(f"{click.format_filename(file)}\t{total}")


def load_file(settings, path):
    """Load all lines of a file in one transaction and return how many objects they held."""
    name = click.format_filename(path)
    try:
        with (
            click.open_file(path, "rb") as file,
            # Prepared statements would gain nothing on large batches and not pass an old PgBouncer.
            db.connect(settings, prepare_threshold=None) as connection,
            connection.transaction(),
            progress(path) as advance,
        ):
            connection.execute(db.statement("load/begin"))
            return store(connection, batches(read(file, settings.max_body)), advance)
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror or error}") from None
    except BadLine as error:
        raise click.ClickException(f"{name}:{error.line}: {error}") from None


def read(file, limit):
    """Yield the type, the checked content and the size of every line; raises BadLine."""
    for line in count(1):
        text = file.readline(limit + 1)
        if not text:
            return
        if text.isspace():
            continue
        try:
            if len(text) > limit:
                raise ValueError(f"must have at most {limit} bytes")
            document = parse_object(text.rstrip())
            kind = document.pop("type", None)
            if not isinstance(kind, str) or kind not in TYPES:
                raise ValueError(f"type: must be one of: {', '.join(TYPES)}")
            row = TYPES[kind].check(document)
            if row.get("completed_at") and row["status"] != "done":
                raise ValueError("completedAt: needs status done")
        except ValidationError as error:
            raise BadLine(line, errors.from_schema(error).description) from None
        except ValueError as error:
            # The decoder counts lines too: for it, this one is always the first.
            fault = re.sub(r"line 1 (column [0-9]+) \(char [0-9]+\)", r"\1", str(error))
            raise BadLine(line, fault) from None
        row["line"] = line
        yield kind, row, len(text)


class Batch:
    """Consecutive lines of one type, for one statement."""

    def __init__(self, kind):
        self.kind, self.rows, self.size, self.parents = kind, [], 0, set()

    def takes(self, kind, row):
        return (
            kind == self.kind
            and len(self.rows) < ROWS
            and self.size < BYTES
            # A parent goes first: within one statement the wrong order would pass, but only there.
            and row.get("id") not in self.parents
        )

    def add(self, row, size):
        self.rows.append(row)
        self.size += size
        if row.get("parent_id"):
            self.parents.add(row["parent_id"].lower())


def batches(lines):
    """Gather lines into batches."""
    batch = None
    try:
        for kind, row, size in lines:
            if batch and not batch.takes(kind, row):
                yield batch
                batch = None
            batch = batch or Batch(kind)
            batch.add(row, size)
    except BadLine:
        # A line before it may be bad too, and is then the one to name.
        if batch:
            yield batch
        raise
    if batch:
        yield batch


@contextmanager
def progress(path):
    """A function to tell how many bytes were read: it moves a bar if there is a terminal, and tqdm."""
    try:
        if not sys.stderr.isatty():
            raise ImportError
        from tqdm import tqdm
    except ImportError:
        yield lambda size: None
        return
    size = os.path.getsize(path) if os.path.isfile(path) else None
    with tqdm(desc=str(path), total=size, unit="B", unit_scale=True, leave=False) as bar:
        yield bar.update
