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


def schema():
    """Return the text of all migrations, the oldest first."""
    return "".join(path.read_text("utf-8") for path in sorted(PROJECT.glob("sql/schema/*.sql")))


def function(name):
    """Return the newest definition of a function in sql/schema."""
    found = re.findall(rf"(?ms)^CREATE (?:OR REPLACE )?(FUNCTION {name}\(.*?^\$\$;\n)", schema())
    return f"CREATE OR REPLACE {found[-1]}"


def document_type(name):
    """Return the definition of the next version of a type of documents."""
    (found,) = re.findall(rf"(?ms)^CREATE TYPE {name} (AS \(.*?^\);\n)", schema())
    return f"CREATE TYPE {name}_2 {found}\n"


VERSION = "    version = fields.Integer(min=1, description=fields.VERSION)\n"
LOCATION = (
    "    location = fields.Text(\n"
    '        500, allow_none=True, load_default=None, description="Where it takes place"\n'
    "    )\n"
)
TOO_LONG = "location must have at most 500 characters"


def add_a_field(folder):
    """Add the member ``location`` to meetings: two migrations, the statements and the schema."""
    change(folder / "service/api/meetings.py", VERSION, VERSION + LOCATION)
    create(
        folder / f"sql/schema/{NEW}-locations.sql",
        "-- Meetings have a location.\n\n"
        "ALTER TABLE meetings ADD COLUMN location text;\n\n"
        "ALTER TABLE meetings\n"
        f'    ADD CONSTRAINT "{TOO_LONG}"\n'
        "    CHECK (length(location) <= 500) NOT VALID;\n\n"
        + document_type("meeting_document").replace("\n);", ',\n    "location" text\n);')
        + function("meeting_json")
        .replace("meeting.version\n", "meeting.version,\n                   meeting.location\n")
        .replace("::meeting_document", "::meeting_document_2"),
    )
    create(
        folder / f"sql/schema/{NEXT + 1:04}-checked-locations.sql",
        "-- migrate: without a transaction\n"
        "-- Check the locations of old meetings.\n"
        f'ALTER TABLE meetings VALIDATE CONSTRAINT "{TOO_LONG}";\n',
    )
    statement = folder / "sql/meetings/create.sql"
    change(statement, "agenda, notes, created_by", "agenda, notes, location, created_by")
    change(statement, "%(notes)s::text,", "%(notes)s::text,\n               %(location)s::text,")
    stored = "notes = (after).notes,"
    change(folder / "sql/meetings/update.sql", stored, f"{stored} location = (after).location,")
    statement = folder / "sql/load/meeting.sql"
    change(statement, "agenda, notes,\n", "agenda, notes,\n           location,\n")
    change(statement, "       item.notes,", "       item.notes,\n       item.location,")
