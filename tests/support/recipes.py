"""The recipe of CONTRIBUTING for a field, followed in a copy of the project."""

import re

from support.project import PROJECT

# The number of the next migration.
NEXT = max(int(path.name[:4]) for path in PROJECT.glob("sql/schema/*.sql")) + 1
NEW = f"{NEXT:04}"


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has changed: the recipe does not fit"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def create(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")


def add_member(folder, resource, member, kind):
    """Add a member to the function that writes a resource; return the statement for its new type.

    The member is the last one. The type has the next number.
    """
    migrations = "".join(path.read_text("utf-8") for path in sorted(PROJECT.glob("sql/schema/*")))
    types = re.findall(
        rf"(?ms)^CREATE TYPE ({resource}_document(?:_[0-9]+)?) (AS \(.*?)\n\);\n", migrations
    )
    newest, attributes = types[-1]
    new = f"{resource}_document_{len(types) + 1}"
    change(
        folder / f"sql/functions/{resource}s.sql",
        f"\n               )::{newest}\n",
        f",\n                   {resource}.{member}\n               )::{new}\n",
    )
    return f'CREATE TYPE {new} {attributes},\n    "{member}" {kind}\n);\n'


LAST = "    metadata = METADATA\n"
LOCATION = '    location = Text(500, "Where it takes place", allow_none=True, load_default=None)\n'
OPTIONAL = 'optional: tuple[str, ...] = ("updated_by", "metadata"'


def add_a_field(folder):
    """Add the member ``location`` to meetings: migration, functions, statement and schema."""
    change(folder / "service/api/meetings.py", LAST, LAST + LOCATION)
    change(folder / "service/api/meetings.py", OPTIONAL, f'{OPTIONAL}, "location"')
    create(
        folder / f"sql/schema/{NEW}-locations.sql",
        "-- Meetings have a location.\n\n"
        "ALTER TABLE meetings ADD COLUMN location text;\n\n"
        "ALTER TABLE meetings\n"
        "    ADD CONSTRAINT meetings_location_check\n"
        "    CHECK (length(location) <= 500) NOT VALID;\n\n"
        + add_member(folder, "meeting", "location", "text"),
    )
    statement = folder / "sql/meetings/create.sql"
    change(statement, "agenda, notes, created_by", "agenda, notes, location, created_by")
    change(statement, "%(notes)s,", "%(notes)s,\n           %(location)s,")
    functions = folder / "sql/functions/meetings.sql"
    stored = "notes = after.notes,"
    change(functions, stored, f"{stored}\n           location = after.location,")
    change(functions, "agenda, notes,\n", "agenda, notes,\n               location,\n")
    change(
        functions,
        "agenda,\n           notes,\n",
        "agenda,\n           notes,\n           location,\n",
    )
