"""Every SQL file: says what it does, fits the real schema, and is used; and there is no other SQL."""

import ast
import re
from fnmatch import fnmatch

import pytest
from client import preparable

from service import db

FOLDER = db.SQL.parent / "service"
NAMES = sorted(
    str(path.relative_to(db.SQL).with_suffix(""))
    for path in db.SQL.rglob("*.sql")
    if path.parent.name != "schema"
)
MODULES = sorted(FOLDER.glob("*.py"))
CALLS = {"row", "row_planned", "one", "first_row", "run", "statement"}


@pytest.mark.nodatabase
@pytest.mark.parametrize("path", sorted(db.SQL.rglob("*.sql")), ids=lambda path: path.stem)
def test_it_begins_with_a_sentence_and_keeps_to_110_columns(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    comment = []
    for line in lines:
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").strip())
    assert re.match(r"[A-Z\"]", comment[0])
    assert re.search(r"[.:]$", " ".join(comment))
    assert max(map(len, lines)) <= 110
    assert not any(line.endswith((" ", "\t", "\r")) for line in lines)
    assert lines[-1] == ""
    assert lines[-2] != ""


@pytest.mark.nodatabase
@pytest.mark.parametrize("name", NAMES)
def test_it_is_one_statement_that_psycopg_keeps_in_its_cache(name):
    text = db.statement(name)
    # psycopg parses longer ones anew each time.
    assert len(text.encode()) < 4096
    assert text.rstrip().endswith(";")
    assert re.sub(r"--.*|'[^']*'", "", text).count(";") == 1


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_the_schema(connection, name):
    text, nulls = preparable(name)
    with connection.transaction(force_rollback=True):
        connection.execute(f"PREPARE it AS {text}")
        assert connection.execute(f"EXPLAIN EXECUTE it{nulls}").fetchall()
        connection.execute("DEALLOCATE it")


def names_in(node, assigned):
    """The statement names that an argument can stand for; a computed part is an asterisk."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if isinstance(node, ast.IfExp):
        return names_in(node.body, assigned) | names_in(node.orelse, assigned)
    if isinstance(node, ast.JoinedStr):
        return {"".join(getattr(part, "value", "*") if isinstance(part, ast.Constant) else "*"
                        for part in node.values)}  # fmt: skip
    if isinstance(node, ast.Name):
        return set().union(*(names_in(value, {}) for value in assigned.get(node.id, ())))
    return set()


def used_names():
    used = set()
    for path in MODULES:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            assigned = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    assigned.setdefault(node.targets[0].id, []).append(node.value)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and node.args:
                    called = getattr(node.func, "attr", getattr(node.func, "id", None))
                    if called in CALLS:
                        used |= {
                            name for name in names_in(node.args[0], assigned) if "/" in str(name)
                        }
    return used


@pytest.mark.nodatabase
def test_every_name_in_use_is_a_file_and_every_file_is_in_use():
    used = used_names()
    assert {"tasks/list", "tasks/filter", "gate/enter", "knowledge/search"} <= used
    assert [name for name in used if not any(fnmatch(file, name) for file in NAMES)] == []
    assert [file for file in NAMES if not any(fnmatch(file, name) for name in used)] == []


SQL_TEXT = re.compile(
    r"\b(SELECT\b|INSERT INTO\b|UPDATE \w+ SET\b|DELETE FROM\b"
    r"|(CREATE|ALTER|DROP|TRUNCATE) (TABLE|INDEX|TEMP\w*)\b"
    r"|WHERE \w+ ?=|FROM \w+ WHERE\b|SET LOCAL\b|BEGIN;|COMMIT\b|pg_\w+_lock\b)",
    re.IGNORECASE,
)


@pytest.mark.nodatabase
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_there_is_no_sql_in_python(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            assert not (isinstance(node.value, str) and SQL_TEXT.search(node.value)), node.lineno


@pytest.mark.nodatabase
def test_the_schema_s_files_are_numbered_without_gaps():
    files = sorted(path.name for path in (db.SQL / "schema").iterdir())
    assert [name[:5] for name in files] == [f"{number:04}-" for number in range(1, len(files) + 1)]
