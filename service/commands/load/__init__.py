"""``task-service load``: insert workspaces, users and their objects from files of JSON Lines.

Each line is a JSON object. It has a ``type``, the fields of the API, the slug of its workspace, and
the e-mail addresses or ids of its users. The API's schemas check the fields. Each file is one
transaction.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pwd import getpwuid
from typing import IO

import click
from marshmallow import ValidationError

from service.commands.base import current_settings, describe_invalid, progress
from service.commands.load.insert import InvalidLine, Row, store
from service.commands.load.lines import TYPES
from service.database.pool import connect
from service.settings import Settings
from service.values.strict_json import parse_object
from service.values.types import Day, camel_case
from service.version import numbers_of, version
from service.webhooks.secrets import fingerprints

# The maximum length of a line in bytes. The largest object, a completed meeting, has about a
# million characters of at most six bytes each.
MAX_LINE = 2**23
# The maximum number of rows in one statement. With so many rows, the round trip hardly matters.
MAX_ROWS = 5000
# A statement with so many bytes of lines gets no more lines. Its lines are twice in the memory of
# the process.
MAX_BYTES = 2**22

RELEASE = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){2}")

CUT_OFF = (
    "the export is cut off or changed: export it again, or remove its lines of type export and end"
    " to load the remaining lines as they are"
)


def print_fields(context: click.Context, _option: object, asked: bool) -> None:
    if not asked:
        return
    for kind, schema in TYPES.items():
        names = [f"{field.data_key}{'*' * field.required}" for field in schema.load_fields.values()]
        click.echo(f"{kind}: {', '.join(names)}")
    context.exit()


@click.command("load")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--match-users",
    type=click.Choice(["email"]),
    help="Map each user in the file to the existing user with the same e-mail address, even if the"
    " ids differ.",
)
@click.option(
    "--fields",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_fields,
    help="Show each type with its fields; * marks required ones.",
)
def load(files: tuple[str, ...], match_users: str | None) -> None:
    """Each line is a JSON object with its type and the fields of the API; the file - is standard
    input.

    Prints the name of each file and its number of objects, separated by a tab. Loads a file as a
    whole or not at all: stops at the first invalid line and prints its number.
    """
    for file in files:
        total = load_file(current_settings(), file, match_users=bool(match_users))
        if not total:
            raise click.ClickException(
                f"{click.format_filename(file)} has no object; did the command that wrote it fail?"
            )
        click.echo(f"{click.format_filename(file)}\t{total}")


def load_file(
    settings: Settings, path: str | os.PathLike[str], *, match_users: bool = False
) -> int:
    """Load all lines of a file in one transaction, and return the number of objects."""
    name = click.format_filename(path)
    try:
        with click.open_file(path, "rb") as file:
            return load_lines(settings, file, name, match_users=match_users)
    except PermissionError as error:
        # In a deployment, a wrapper runs this command as the user of the service, even if root
        # calls it.
        user: int | str = os.geteuid()
        with suppress(KeyError):
            user = getpwuid(os.geteuid()).pw_name
        raise click.ClickException(
            f"{name}: {error.strerror}: the user {user} must be able to read it; load - <FILE"
            " reads it with the rights of the shell"
        ) from None
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror or error}") from None


def load_lines(
    settings: Settings, lines: IO[bytes], name: str, *, match_users: bool = False
) -> int:
    """Load all lines in one transaction, and return the number of objects.

    If a line is invalid, raises ClickException with ``name`` and the number of the first invalid
    line.
    """
    size = None
    with suppress(OSError):
        # A pipe has the size 0; a file object without a descriptor has no size.
        size = os.fstat(lines.fileno()).st_size
    try:
        with (
            progress("load", size) as step,
            connect(settings, "load") as connection,
            connection.transaction(),
        ):
            connection.run("load/begin")
            return store(connection, batches(read(settings, lines, step)), match_users=match_users)
    except InvalidLine as error:
        raise click.ClickException(f"{name}:{error.line}: {error}") from None


def read(
    settings: Settings, file: IO[bytes], step: Callable[[int], None]
) -> Iterator[tuple[str, Row, int]]:
    """Yield the type, the checked content and the size of each object; raises InvalidLine.

    An export begins with a line of type export, and ends with a line of type end. The line of type
    end contains the number of lines between the two. Neither of them is an object.
    """
    # How many objects of the current export were read; None outside an export.
    exported: int | None = None
    # What to add to an error in an export that a newer release made.
    hint = ""
    for line in count(1):
        text = file.readline(MAX_LINE + 1)
        step(len(text))
        if not text:
            if exported is not None:
                raise InvalidLine(line, CUT_OFF)
            return
        if text.isspace():
            continue
        try:
            if len(text) > MAX_LINE:
                raise ValueError(f"must have at most {MAX_LINE} bytes")
            document = parse_object(text.rstrip())
            kind = document.pop("type", None)
            if kind in ("export", "end"):
                # Later releases may write other members into the two lines.
                begins = kind == "export"
                if begins != (exported is None) or document.get("lines") != exported:
                    raise ValueError(CUT_OFF)
                exported = 0 if begins else None
                hint = hint_of_newer(document.get("release")) if begins else ""
                continue
            if not isinstance(kind, str) or kind not in TYPES:
                raise ValueError(f"type: must be one of: {', '.join(TYPES)}")
            row = TYPES[kind].load(document)
            if Day.matches(day := row.get("due_date")):
                row["due_date"], row["due_day"] = None, day
            for name in "completed_at", "completed_by":
                if row.get(name) and row["status"] != "done":
                    raise ValueError(f"{camel_case(name)}: needs status done")
            if row.get("key_fingerprint", "") is None:
                if not settings.webhook_keys:
                    raise ValueError("keyFingerprint: is required without WEBHOOK_KEY")
                row["key_fingerprint"] = fingerprints(settings)[0]
        except ValidationError as error:
            raise InvalidLine(line, describe_invalid(error) + hint) from None
        except ValueError as error:
            # The decoder gets one line, so its messages always say line 1.
            message = re.sub(r"line 1 (column [0-9]+) \(char [0-9]+\)", r"\1", str(error))
            if message.startswith("must be a JSON object"):
                message += "; a file of JSON Lines has one object on each line"
            cut_off = exported is not None and not text.endswith(b"\n")
            raise InvalidLine(line, CUT_OFF if cut_off else message + hint) from None
        row["line"] = line
        if exported is not None:
            exported += 1
        yield kind, row, len(text)


def hint_of_newer(release: object) -> str:
    """Say which release can load an export, if the release that made it is newer than this one."""
    if not RELEASE.fullmatch(str(release)) or numbers_of(str(release)) <= numbers_of(version()):
        return ""
    return f"; release {release} made this export, and only {release} or later loads all of it"


def batches(lines: Iterable[tuple[str, Row, int]]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of consecutive lines of one type, for one statement, with their type."""
    batch, rows, total, parents = "", list[Row](), 0, set[str]()
    try:
        for kind, row, size in lines:
            if rows and (
                kind != batch
                or len(rows) == MAX_ROWS
                or total >= MAX_BYTES
                # A parent must precede its subtasks; a single statement would accept the wrong
                # order.
                or row.get("id") in parents
            ):
                yield batch, rows
                rows, total, parents = [], 0, set()
            batch = kind
            rows.append(row)
            total += size
            if parent := row.get("parent_id"):
                parents.add(parent.lower())
    except InvalidLine:
        # The database may reject an earlier line, which must then be reported.
        if rows:
            yield batch, rows
        raise
    if rows:
        yield batch, rows
