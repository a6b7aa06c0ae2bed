"""This checkout keeps what each release froze; tests/releases has a folder for each of them."""

import json
import os
import re
import sys

import psycopg
import pytest
from support import policy
from support.project import PROJECT, copy_project, output, run
from support.releases import FOLDER, for_each_release, read_bytes, read_json

from service.commands.migrate import migrate
from service.settings import Settings

FILES = "migrations.json", "schema.sql", "openapi.json", "names.json", "export.jsonl"
COLUMNS = """
    SELECT table_name || '.' || column_name, coalesce(domain_name, udt_name)
      FROM information_schema.columns
     WHERE table_schema = 'public'
"""


def expect_none(faults):
    """Fail with all faults, one in each line."""
    found = "\n".join(faults)
    assert not found, found


@pytest.mark.slow
def test_two_records_of_one_checkout_are_the_same(record, pytestconfig):
    """With ``--record VERSION`` this test writes the record."""
    files = {}
    for name in FILES:
        files[name] = record(name)
        assert record(name, anew=True) == files[name]
    version = pytestconfig.option.record
    if version:
        files["commit"] = output("git", "rev-parse", "HEAD", cwd=PROJECT).encode()
        folder = FOLDER / version
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_bytes(text)


@for_each_release
def test_released_migrations_never_change(release, record):
    new = json.loads(record("migrations.json"))
    expect_none(policy.of_migrations(read_json(release, "migrations.json"), new))


@pytest.mark.slow
@for_each_release
def test_a_released_schema_becomes_the_schema_of_a_new_database(release, empty, database_url, dump):
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(read_bytes(release, "schema.sql"))
        old = dict(connection.execute(COLUMNS).fetchall())
        connection.cursor().executemany(
            "INSERT INTO schema_migrations (name, sha256, release) VALUES (%s, %s, %s)",
            [(*item, release.name) for item in read_json(release, "migrations.json").items()],
        )
        migrate(Settings.read({"DATABASE_URL": empty}))
        expect_none(policy.of_columns(old, dict(connection.execute(COLUMNS).fetchall())))
    # After a restore, PostgreSQL writes some expressions with other parentheses.
    upgraded, new = (re.sub("[()]", "", text) for text in (dump(empty), dump(database_url)))
    assert upgraded == new


@for_each_release
def test_the_openapi_document_follows_its_compatibility_policy(release, record):
    new = json.loads(record("openapi.json"))
    expect_none(policy.of_openapi(read_json(release, "openapi.json"), new))


@pytest.mark.slow
@for_each_release
def test_settings_metrics_log_lines_commands_and_their_json_keep_their_names(release, record):
    new = json.loads(record("names.json"))
    expect_none(policy.of_names(read_json(release, "names.json"), new))


@for_each_release
def test_load_reads_the_export_of_a_release(release, export):
    text = read_bytes(release, "export.jsonl")
    old, new = (list(map(json.loads, lines.splitlines())) for lines in (text, export(text)))
    expect_none(policy.of_lines(old, new))


@pytest.mark.slow
@pytest.mark.nodatabase
def test_a_clone_without_history_skips_these_tests_and_says_once_how_to_fetch_it(tmp_path):
    copy_project(tmp_path)
    run("git", "init", "--quiet", cwd=tmp_path)
    run("git", "add", "tests", cwd=tmp_path)
    who = "-c", "user.name=Rosa", "-c", "user.email=rosa@example.com"
    run("git", *who, "commit", "--quiet", "--message", "All", cwd=tmp_path)
    sources = [tmp_path, *tmp_path.glob("testkit/*/src")]
    printed = run(
        *(sys.executable, "-m", "pytest", "tests/releases", "-k", "policy or older_release"),
        cwd=tmp_path,
        PYTHONPATH=os.pathsep.join(map(str, sources)),
    )
    (line,) = re.findall(r"(?m)^SKIPPED .*", printed)
    reason = "this clone lacks the history of the releases: git fetch --unshallow --tags"
    assert re.fullmatch(rf"SKIPPED \[\d+\] \S+: {reason}", line)
