"""The files of sql/functions: migrate applies a file whose text has changed, whole and once."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from click.testing import CliRunner

from service.__main__ import main
from service.commands.migrate import migrate
from service.database.statements import (
    STATEMENTS,
    Statement,
    checksum,
    function_files,
    texts_of_functions,
)
from service.settings import Settings
from service.version import version

MAIL, TASKS = "functions/mail", "functions/tasks"
DEFINED = """
    SELECT oid::regprocedure::text AS name, ctid::text AS written, pg_get_functiondef(oid) AS text
      FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""


def run(command, url):
    return CliRunner().invoke(main, command.split(), env={"DATABASE_URL": url})


def defined(connection):
    return {row["name"]: row for row in connection.execute(DEFINED).fetchall()}


def test_each_function_of_the_database_has_its_text_from_exactly_one_file(connection):
    """PostgreSQL writes the row of a function again when a file replaces it, even by its text."""
    before, files = defined(connection), {}
    for name in function_files():
        with connection.transaction(force_rollback=True):
            connection.execute(STATEMENTS[name].source)
            after = defined(connection)
        assert after.keys() == before.keys()
        for function, row in after.items():
            assert row["text"] == before[function]["text"], f"{name}: {function}"
            if row["written"] != before[function]["written"]:
                files.setdefault(function, []).append(name)
    assert {function for function, names in files.items() if len(names) == 1} == before.keys()
    sources = b"".join(STATEMENTS[name].source for name in function_files())
    assert sources.count(b"\nCREATE OR REPLACE FUNCTION") == len(before)


def test_the_body_of_each_function_fits_the_schema(connection):
    """migrate itself does not check it, so that functions may stand in any order."""
    checked = connection.execute("""
        SELECT CASE lanname
                   WHEN 'sql' THEN fmgr_sql_validator(function.oid)::text
                   ELSE plpgsql_validator(function.oid)::text
               END
          FROM pg_proc AS function JOIN pg_language AS language ON language.oid = prolang
         WHERE pronamespace = 'public'::regnamespace
    """).fetchall()
    assert len(checked) > 70


@pytest.fixture
def later(monkeypatch):
    """Let this code be that of a later build, in which two files have a function more each.

    The function of the first file calls the one of the second.
    """
    for name, function, body in ((MAIL, "one", "SELECT two()"), (TASKS, "two", "SELECT 2")):
        text = f"CREATE FUNCTION {function}() RETURNS integer LANGUAGE sql AS '{body}';"
        changed = Statement(STATEMENTS[name].source + text.encode())
        monkeypatch.setitem(STATEMENTS, name, changed)
    texts_of_functions.cache_clear()
    yield
    texts_of_functions.cache_clear()


@pytest.mark.usefixtures("later")
def test_one_of_two_runs_at_the_same_time_applies_the_changed_files_and_no_other_file(other):
    settings = Settings.read({"DATABASE_URL": other})
    with psycopg.connect(other) as connection:
        rows = "SELECT name, applied_at FROM schema_functions"
        before = dict(connection.execute(rows).fetchall())
        connection.rollback()
        with ThreadPoolExecutor(2) as threads:
            applied = list(threads.map(migrate, [settings, settings]))
        # A second run of these files would fail, because it would create the functions again.
        assert sorted(applied) == [[], [MAIL, TASKS]]
        assert connection.execute("SELECT one()").fetchone() == (2,)
        after = dict(connection.execute(rows).fetchall())
        assert {name for name, time in after.items() if time != before[name]} == {MAIL, TASKS}
    assert migrate(settings) == []


@pytest.mark.usefixtures("later")
def test_check_status_and_a_dry_run_name_the_changed_files_and_apply_none(other):
    pending = f"migrations are pending ({MAIL}, {TASKS}): run the command migrate"
    for command in ("check", "status"):
        outcome = run(command, other)
        assert (outcome.exit_code, pending in outcome.stdout) == (1, True), outcome.output
    assert run("migrate --dry-run", other).stdout.split() == [MAIL, TASKS]
    with psycopg.connect(other) as connection, pytest.raises(psycopg.errors.UndefinedFunction):
        connection.execute("SELECT two()")
    assert run("migrate", other).stderr == f"applying {MAIL}\napplying {TASKS}\n"
    outcome = run("check", other)
    assert "migrations" in outcome.stdout
    assert "pending" not in outcome.stdout


@pytest.mark.usefixtures("later")
def test_if_one_file_fails_no_file_is_applied(other):
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("CREATE FUNCTION two() RETURNS text LANGUAGE sql AS 'SELECT NULL'")
        outcome = run("migrate", other)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert 'Error: function "two" already exists' in outcome.stderr
        with pytest.raises(psycopg.errors.UndefinedFunction):
            connection.execute("SELECT one()")
        connection.execute("DROP FUNCTION two()")
    assert run("migrate", other).stdout.split() == [MAIL, TASKS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "applied"), [("9999.0.0", []), (version(), [TASKS]), ("0.9.12", [TASKS])]
)
def test_migrate_replaces_functions_of_older_releases_and_keeps_those_of_newer_releases(
    other, release, applied
):
    """After a rollback the old code runs with the newer functions."""
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(
            "UPDATE schema_functions SET sha256 = repeat('0', 64), release = %s WHERE name = %s",
            (release, TASKS),
        )
        assert ("pending" in run("check", other).stdout) == bool(applied)
        assert migrate(Settings.read({"DATABASE_URL": other})) == applied
        stored = connection.execute(
            "SELECT sha256, release FROM schema_functions WHERE name = %s", (TASKS,)
        ).fetchone()
    assert stored == ((checksum(TASKS), version()) if applied else ("0" * 64, release))


@pytest.mark.nodatabase
def test_the_checksum_ignores_line_ends_which_git_on_windows_may_have_changed(monkeypatch):
    before = checksum(TASKS)
    windows = STATEMENTS[TASKS].source.replace(b"\n", b"\r\n")
    monkeypatch.setitem(STATEMENTS, TASKS, Statement(windows))
    assert checksum(TASKS) == before
