"""The database rejects what the schemas reject, whoever writes the row."""

import json
import re
from contextlib import suppress

import psycopg
import pytest
from support.derived import settable
from support.resources import HERE, RESOURCES, TABLE_OF

from service.commands.load.lines import TYPES, UserRef
from service.values import types
from service.web.errors import CONSTRAINTS, words_of


def edges(field):
    """Values that a field rejects, and values that it just accepts; its column must do the same."""
    match field:
        case types.OneOf():
            return ["other", ""], [*field.choices]
        case types.StringList():
            most, longest = field.max, field.inner.max
            wrong = [["a@example.com"] * (most + 1), ["x" * (longest + 1)]]
            return wrong, [["a@example.com"] * most, ["x" * longest]]
        case types.Metadata():
            many = {str(number): "x" for number in range(51)}
            wrong = [
                {"": "x"},
                {"a b": "x"},
                {"x" * 41: "x"},
                {"a": ""},
                {"a": "x" * 501},
                {"a": 1},
            ]
            wrong += [{"a": None}, [], many, {str(number): "\x01" * 55 for number in range(50)}]
            right = [{"a": "x" * 500, "-_.:" + "x" * 36: "x"}, {"a": "\x01" * 500}]
            right += [
                dict([*many.items()][:50]),
                {str(number): "\x01" * 53 for number in range(50)},
            ]
            return [*map(json.dumps, wrong)], [*map(json.dumps, right)]
        case types.Timezone():
            longest = max(types.timezones(), key=len)
            return ["Europe/Atlantis", "UTC-with-a-name" * 10], [longest]
        case types.String():
            wrong = ["x" * (field.max + 1), *(["x" * (field.min - 1)] if field.min else [])]
            if isinstance(field, types.PersonName):
                return [*wrong, "Fool \u202e", "Fo\x1bol"], ["x" * field.max, "x"]
            if isinstance(field, types.Email):
                return wrong, [f"{'x' * 64}@{'x' * 63}.{'x' * 63}.{'x' * 61}", "a@b.co"]
            return wrong, ["x" * field.max, "x" * (field.min or 0)]
        case types.Day():
            return ["1899-12-31", "9999-01-01"], ["1900-01-01", "9998-12-31"]
        case types.Timestamp():
            wrong = ["1899-12-31T23:59:59.999Z", "9999-01-01T00:00:00Z"]
            return wrong, ["1900-01-01T00:00:00Z", "9998-12-31T23:59:59.999Z"]
    return [], []


# Columns whose limits depend on other columns.
DEPENDENT = {("meetings", "status"), ("meetings", "start_time"), ("meetings", "end_time")}
# Columns whose limits come from a field. Ids and references to rows are left out, because types and
# foreign keys limit them. So are webhooks, whose limits are in their entries.
BOUNDED = [
    (TABLE_OF[kind], field)
    for kind, schema in TYPES.items()
    if kind not in ("webhook", "previous_secret", "deleted")
    for field in settable(schema)
    if not isinstance(field, UserRef) and field.name not in ("workspace_id", "id", "plan")
]


def of_entries(name):
    """List the columns and values that the entries have under a name; no field limits them."""
    return [
        (entry.table, column, value)
        for entry in RESOURCES
        for column, values in getattr(entry, name).items()
        for value in values
    ]


REJECTED = of_entries("rejected")


@pytest.fixture
def full(connection, acme):
    """One workspace with a row in every table."""
    # Only a completed meeting may have an outcome.
    connection.execute("UPDATE meetings SET status = 'completed'")


@pytest.mark.usefixtures("full")
def test_a_column_rejects_what_its_field_or_its_entry_says_it_must_reject(connection):
    limits = [(table, field.name, value) for table, field in BOUNDED for value in edges(field)[0]]
    taken = []
    for table, column, value in [*limits, *REJECTED]:
        with (
            suppress(psycopg.errors.CheckViolation, psycopg.errors.DataError),
            connection.transaction(force_rollback=True),
        ):
            connection.execute(f"UPDATE {table} SET {column} = %s", (value,))
            taken.append((table, column, value))
    assert not taken, (
        f"these columns take values that their fields, or rejected in {HERE}, exclude: {taken};"
        " add a CHECK in sql/schema"
    )


@pytest.mark.usefixtures("full")
def test_a_column_accepts_the_extreme_values_that_its_field_or_its_entry_allows(connection):
    allowed = [
        (table, field.name, value)
        for table, field in BOUNDED
        if (table, field.name) not in DEPENDENT
        for value in edges(field)[1]
    ]
    refused = []
    for table, column, value in (*allowed, *of_entries("accepted")):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(
                    f"UPDATE {table} SET {column} = %s"
                    f" WHERE ctid = (SELECT ctid FROM {table} ORDER BY ctid LIMIT 1)",
                    (value,),
                )
        except psycopg.Error as error:
            refused.append((table, column, value, error.diag.message_primary))
    assert not refused, (
        f"these columns refuse values that their fields, or accepted in {HERE}, allow: {refused};"
        " see the checks in sql/schema"
    )


@pytest.mark.usefixtures("full")
def test_every_check_in_the_schema_is_tried_with_a_row_that_it_must_reject(connection):
    """BOUNDED, REJECTED and ``elsewhere`` together name every column that has a check."""
    rows = connection.execute(
        "SELECT DISTINCT conrelid::regclass::text AS name, attname AS column"
        " FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)"
        " WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
    ).fetchall()
    tried = {(table, field.name) for table, field in BOUNDED}
    tried |= {(table, column) for table, column, _ in REJECTED}
    elsewhere = {("webhooks", "disabled_at")}
    missing = {(row["name"], row["column"]) for row in rows} - tried - elsewhere
    assert not missing, f"add to rejected in {HERE}: {sorted(missing)}"


def test_the_name_of_a_check_states_the_same_numbers_as_its_condition(connection):
    """The name of the check, or its words in messages.toml, is the message that a client gets."""
    rows = connection.execute(
        "SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint"
        " WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
    ).fetchall()
    checks = [(words_of(row["name"]), row["definition"]) for row in rows]
    checks = [row for row in checks if re.search(" [0-9]", row[0])]
    assert len(checks) > 20
    for row in checks:
        name, definition = row
        if " ~ " in definition:
            # A regular expression counts in other numbers. The fields try its limits, see above.
            continue
        if years := re.search("in the years ([0-9]+) to ([0-9]+)", name):
            bounds = [(">=", years[1]), ("<", str(int(years[2]) + 1))]
            assert re.findall("(>=|<) '([0-9]+)-01-01", definition) == bounds, row
            continue
        numbers = [{*re.findall(r"\b[0-9]+\b", text)} for text in (name, definition)]
        assert numbers[0] == numbers[1], f"the name states other numbers: {row}"


def test_each_short_name_of_a_constraint_has_words_and_no_other_name_has(connection):
    rows = connection.execute(
        "SELECT conname AS name FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
    ).fetchall()
    sources = connection.execute("SELECT prosrc FROM pg_proc").fetchall()
    raised = re.findall(r"CONSTRAINT = '(\w+)'", " ".join(row["prosrc"] or "" for row in sources))
    # PostgreSQL makes names that end like this. No client can violate their constraints.
    made = r".* .*|\w+_(check|fkey|key|pkey|not_null)"
    short = {row["name"] for row in rows if not re.fullmatch(made, row["name"])} | {*raised}
    assert short == {*CONSTRAINTS}, (
        "add the words to [constraints] in service/web/messages.toml; or, if a schema refuses these"
        " values first, name the check in sql/schema TABLE_COLUMN_check"
    )
    assert all(re.fullmatch(r"\w+ .+", words) for words in CONSTRAINTS.values())


def test_a_column_takes_null_only_if_its_field_does_or_its_entry_lists_it(connection):
    rows = connection.execute(
        "SELECT table_name AS name, column_name AS column"
        " FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND is_nullable = 'YES'"
    ).fetchall()
    expected = {
        (entry.table, column) for entry in RESOURCES for column in entry.nullable.split()
    } | {
        (entry.table, name)
        for entry in RESOURCES
        if entry.schema
        for name, field in entry.schema().fields.items()
        if field.allow_none
    }
    found = {(row["name"], row["column"]) for row in rows}
    assert found == expected, f"see nullable in {HERE}: {sorted(found ^ expected)}"
