"""The recipe of CONTRIBUTING for a field, followed in a copy of the project: two fields."""

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
OPTIONAL = 'optional: tuple[str, ...] = ("updated_by", "metadata"'
LOCATION = {
    "field": 'Text(500, "Where it takes place", allow_none=True, load_default=None)',
    "column": "text",
    "check": "length(location) <= 500",
    "loaded": "location",
}
CATEGORY = {
    "field": 'OneOf("internal", "external", schema_name="Category", load_default="internal",'
    ' allow_none=False, description="Who is invited")',
    "column": "text NOT NULL DEFAULT 'internal'",
    "check": "category IN ('internal', 'external')",
    "loaded": "coalesce(category, 'internal')",
}


def add_a_field(folder, name="location", recipe=LOCATION):
    """Add a member to meetings: migration, functions, statement and schema."""
    views = folder / "service/api/meetings.py"
    change(views, LAST, f"{LAST}    {name} = {recipe['field']}\n")
    change(views, OPTIONAL, f'{OPTIONAL}, "{name}"')
    create(
        folder / f"sql/schema/{NEW}-{name}.sql",
        f"-- Meetings have a {name}.\n\n"
        f"ALTER TABLE meetings ADD COLUMN {name} {recipe['column']};\n\n"
        "ALTER TABLE meetings\n"
        f"    ADD CONSTRAINT meetings_{name}_check\n"
        f"    CHECK ({recipe['check']}) NOT VALID;\n\n"
        + add_member(folder, "meeting", name, "text"),
    )
    statement = folder / "sql/meetings/create.sql"
    change(statement, "agenda, notes, created_by", f"agenda, notes, {name}, created_by")
    change(statement, "%(notes)s,", f"%(notes)s,\n           %({name})s,")
    functions = folder / "sql/functions/meetings.sql"
    stored = "notes = after.notes,"
    change(functions, stored, f"{stored}\n           {name} = after.{name},")
    change(functions, "agenda, notes,\n", f"agenda, notes,\n               {name},\n")
    change(
        functions,
        "agenda,\n           notes,\n",
        f"agenda,\n           notes,\n           {recipe['loaded']},\n",
    )
