"""Every SQL file begins with its purpose, fits the schema and is used; Python has no SQL."""

import ast
import importlib
import re
import typing
from fnmatch import fnmatch
from itertools import takewhile

import psycopg
import pytest
from support.project import PROJECT
from support.statements import (
    DEFINITIONS,
    NAME_IN_PYTHON,
    NAMES,
    configure,
    generic_plan,
    preparable,
)

from service.database.statements import SQL, STATEMENTS, Connection, Statement
from task_service_double import statements as double

# The service, and its test double.
FOLDERS = SQL, double.SQL
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.sql"))]
PACKAGES = PROJECT / "service", double.SQL.parent
MODULES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]


# By statement of the test double: the statements that create what it needs.
NEEDED = {
    "double/create_now": ["double/create_clock"],
    "double/set_clock": ["double/create_clock"],
    "double/save": ["double/create_snapshots"],
    "double/restore": ["double/create_snapshots"],
    "double/forget": ["double/create_snapshots"],
}


def create_needed(connection, name):
    for each in NEEDED.get(name, ()):
        connection.execute(STATEMENTS[each].source)


@pytest.mark.nodatabase
def test_only_the_schema_names_the_types_of_documents():
    """An old release that names one would fail on a later schema, whose type has more members."""
    named = [
        name
        for name, statement in STATEMENTS.items()
        if not name.startswith(("schema/", "functions/")) and b"_document" in statement.source
    ]
    assert named == []


@pytest.mark.nodatabase
def test_each_sql_file_begins_with_a_sentence_and_has_at_most_100_columns():
    wrong = set()
    for path in FILES:
        lines = path.read_text(encoding="utf-8").split("\n")
        # How a file runs stands in its first line, before its sentence.
        described = filter(lambda line: not re.match("-- (migrate|left|planned): ", line), lines)
        comment = [line[2:].strip() for line in takewhile(lambda line: line[:2] == "--", described)]
        if not re.fullmatch(r'[A-Z"].*[.:]', " ".join(comment)) or max(map(len, lines)) > 100:
            wrong.add(f"{path.parent.name}/{path.name}")
    assert not wrong


@pytest.mark.nodatabase
def test_a_first_line_that_names_an_unknown_way_to_run_is_refused_and_named():
    planned = b"-- planned: for its values\r\n-- Return one.\nSELECT 1;"
    assert Statement(b"/* tasks/one */ " + planned).is_planned_for_values
    sentence = b"-- Return one, planned: for its values.\nSELECT 1;"
    assert not Statement(sentence).is_planned_for_values
    for line in (b"-- planned: once", b"-- plan: for its values", b"-- planned: for its values."):
        with pytest.raises(ValueError, match=re.escape(f"/* tasks/one */ {line.decode()}: a ")):
            Statement(b"/* tasks/one */ " + line + b"\nSELECT 1;")


@pytest.mark.nodatabase
def test_only_the_first_line_of_a_file_says_how_it_runs():
    late = [
        str(path)
        for path in FILES
        if re.search("\n *-- (migrate|planned):", path.read_text(encoding="utf-8"))
    ]
    assert not late


def test_each_sql_file_is_one_statement_that_postgresql_can_prepare_with_the_schema(connection):
    wrong = {}
    for name in NAMES:
        source = STATEMENTS[name].source.rstrip()
        code = re.sub(rb"(?s)\$\$.*?\$\$|--[^\n]*|'[^']*'", b"", source)
        if not source.endswith(b";") or code.count(b";") != 1:
            wrong[name] = "not one statement that ends with ;"
            continue
        text, nulls = preparable(name)
        try:
            with connection.transaction(force_rollback=True):
                create_needed(connection, name)
                if name in DEFINITIONS:
                    connection.execute(text)
                    continue
                connection.execute(f"PREPARE it AS {text}")
                assert connection.execute(f"EXPLAIN EXECUTE it{nulls}").fetchall()
        except psycopg.Error as error:
            wrong[name] = str(error)
        connection.execute("DEALLOCATE ALL")
    assert not wrong


@pytest.mark.parametrize("prepare_threshold", [None, 1])
def test_pg_stat_activity_shows_the_name_of_a_statement_first(
    database_url, connection, prepare_threshold
):
    with Connection.connect(database_url, prepare_threshold=prepare_threshold) as other:
        other.run("status/role")
        shown = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", (other.info.backend_pid,)
        ).fetchone()
        assert shown["query"].startswith("/* status/role */ -- Return whether this")


def typed_rows():
    """Yield (statement, row type) for each call that names both."""
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        calls = [
            (node.args[0].id, node.args[1].value)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call)
            and len(node.args) >= 2
            and isinstance(node.args[0], ast.Name)
            and isinstance(node.args[1], ast.Constant)
            and node.args[1].value in STATEMENTS
        ]
        if calls:
            (package,) = (package for package in PACKAGES if path.is_relative_to(package))
            parts = path.relative_to(package.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
            for kind, name in calls:
                yield name, getattr(module, kind)


# The types of PostgreSQL by OID (pg_type.dat), as a connection of the service loads them.
PYTHON_TYPES = {
    16: bool, 20: int, 23: int, 25: str, 114: bytes, 701: float,
    1007: list[int], 1009: list[str],
    2950: str, 2951: list[str],
}  # fmt: skip


def test_each_row_type_has_the_columns_of_its_statement(connection):
    """Names, order and types agree. A type allows None if the column may be null."""
    libpq = connection.pgconn
    for name, kind in sorted({*typed_rows()}, key=str):
        with connection.transaction(force_rollback=True):
            create_needed(connection, name)
            assert libpq.prepare(b"", STATEMENTS[name].text).error_message == b"", name
            described = libpq.describe_prepared(b"")
        columns = range(described.nfields)
        names = [described.fname(column).decode() for column in columns]
        assert list(kind._fields) == names, name
        hints = typing.get_type_hints(kind)
        for column in columns:
            hint, place = hints[names[column]], f"{name}: {names[column]}"
            is_list = typing.get_origin(hint) is list
            types = (hint,) if is_list else typing.get_args(hint) or (hint,)
            expected = PYTHON_TYPES[described.ftype(column)]
            assert [one for one in types if one is not type(None)] == [expected], place
            if described.ftable(column):
                attribute = connection.execute(
                    "SELECT attnotnull FROM pg_attribute WHERE attrelid = %s AND attnum = %s",
                    (described.ftable(column), described.ftablecol(column)),
                ).fetchone()
                assert attribute["attnotnull"] or type(None) in types, place


@pytest.mark.nodatabase
def test_every_statement_named_in_python_has_a_file_and_every_file_is_named():
    sources = [path.read_text(encoding="utf-8") for path in MODULES]
    named = {
        re.sub(r"\{\w+\}", "*", name)
        for source in sources
        for name in NAME_IN_PYTHON.findall(source)
    }
    # One of each kind: a constant, a choice, a command, a computed name.
    assert {"tasks/create", "knowledge/search", "members/add", "load/*"} <= named
    assert [name for name in named if not any(fnmatch(each, name) for each in STATEMENTS)] == []
    assert [each for each in NAMES if not any(fnmatch(each, name) for name in named)] == []


# The statements that requests and workers run on the pool, by their names in the code.
POOLED = {
    name
    for room in ("api", "web", "webhooks")
    for path in (PROJECT / "service" / room).rglob("*.py")
    for name in NAME_IN_PYTHON.findall(path.read_text(encoding="utf-8"))
    if name in STATEMENTS
}
# A process with WEBHOOK_KEY reads the webhooks of all workspaces once, when it starts. A health
# check compares the catalogue of PostgreSQL, which has as many rows for any number of tasks.
WHOLE = {"webhooks/missing_keys", "status/parts"}


def test_no_statement_of_requests_or_workers_reads_a_whole_table_even_a_small_one(connection, cast):
    with connection.transaction(force_rollback=True):
        # PostgreSQL assumes that a table without statistics is larger.
        connection.execute("ANALYZE")
        configure(connection)
        reading = {
            name
            for name in POOLED - WHOLE
            if "Seq Scan" in {node["Node Type"] for node in generic_plan(connection, name)}
        }
    assert not reading


SQL_TEXT = re.compile(
    r"\b(SELECT\b|INSERT INTO\b|UPDATE \w+ SET\b|DELETE FROM\b"
    r"|(CREATE|ALTER|DROP|TRUNCATE) (TABLE|INDEX|TEMP\w*|SCHEMA|FUNCTION|TYPE|VIEW)\b"
    # A message tells operators to run CREATE DATABASE name.
    r"|(CREATE|ALTER|DROP) DATABASE\b(?! name\b)"
    r"|WHERE \w+ ?=|FROM \w+ WHERE\b|SET LOCAL\b|BEGIN;|(?<!-)COMMIT\b|pg_\w+_lock\b)",
    re.IGNORECASE,
)


@pytest.mark.nodatabase
def test_no_python_module_contains_sql():
    found = []
    for path in MODULES:
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        # A string that is a whole statement is a docstring.
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        found += [
            f"{path}:{node.lineno}"
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in docstrings and SQL_TEXT.search(node.value)
        ]
    assert not found


@pytest.mark.nodatabase
def test_no_two_migrations_have_the_same_number():
    """Migrations run in the order of their numbers, which may have gaps."""
    files = [path.name for path in (SQL / "schema").iterdir()]
    numbers = {re.match("([0-9]{4})-", name)[1] for name in files}
    assert len(numbers) == len(files)


def test_postgresql_has_cut_off_no_name_of_a_constraint(connection):
    """PostgreSQL cuts longer identifiers off without an error, and these names are messages."""
    longest = "current_setting('max_identifier_length')::integer"
    cut = f"SELECT conname FROM pg_constraint WHERE octet_length(conname) >= {longest}"
    assert connection.execute(cut).fetchall() == []
