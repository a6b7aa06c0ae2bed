"""Commands behind PgBouncer: the timeouts that scaling.md sets for the role end none of them."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from faults.documents import pooled
from support.commands import CommandRunner, commands
from support.processes import wait_until
from support.project import PROJECT, environment, read, replaced
from support.receivers import environment as webhook_settings
from support.receivers import subscribe

from service.__main__ import main
from service.database.statements import catalogue
from service.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.needs("pgbouncer")]

# What the timeouts of the page are here, in milliseconds.
TIMEOUT = 400

# These commands read tables, or insert rows that refer to no other row.
READS = [
    "status", "check", "workspace list", "workspace export acme", "user create eve@example.com Eve",
    "user list", "user show bob@example.com", "member list acme", "token list bob@example.com",
    "session list", "plan list", "webhook list acme", "webhook deliveries {webhooks}",
]  # fmt: skip
# These commands write rows that exist, or insert rows that refer to existing ones.
WRITES = [
    "workspace create Initech", "workspace plan acme Pro", "workspace delete acme --yes",
    "workspace freeze acme", "workspace unfreeze acme",
    "user rename bob@example.com Robert", "user activate bob@example.com acme",
    "user deactivate bob@example.com", "user reactivate bob@example.com",
    "user delete bob@example.com --yes", "member add acme charlie@example.com",
    "member remove acme bob@example.com --yes", "token create bob@example.com",
    "token revoke {tokens}", "token revoke --all bob@example.com --yes",
    "session create bob@example.com", "session revoke --since 2020-01-01T00:00:00Z --yes",
    "plan set Pro --per-minute 500", "webhook rotate {webhooks}", "webhook disable {webhooks}",
    "webhook enable {webhooks}", "webhook redeliver {deliveries}",
    "webhook redeliver --failed {webhooks}", "load {file}",
]  # fmt: skip
# Programs rather than commands, or commands that need no database or must not use PgBouncer.
OTHERS = {"dev", "migrate", "openapi", "web", "worker"}

LINE = {"type": "task", "workspace": "acme", "title": "Slow"}


@pytest.fixture
def limited(database_url, granted, readable):
    """Yield a role with the settings of the page, and a URL with which it passes PgBouncer."""
    settings = re.findall("ALTER ROLE service (SET .*;)", read("docs/operations/scaling.md"))
    text = replaced(
        "\n".join(settings),
        ("SET statement_timeout = '4s'", f"SET statement_timeout = {TIMEOUT}"),
        ("SET lock_timeout = '1s'", "SET lock_timeout = '400ms'"),
        (
            "SET idle_in_transaction_session_timeout = '10s'",
            f"SET idle_in_transaction_session_timeout = {TIMEOUT}",
        ),
    )
    with granted(database_url) as (role, role_url):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(f"GRANT pg_read_all_stats TO {role}")
            for line in text.splitlines():
                connection.execute(f"ALTER ROLE {role} {line}")
        with pooled(database_url, readable, 1, role_url) as url:
            yield role, url


@pytest.fixture
def is_longer(connection, limited):
    """Return a function: does a session of the role meet a condition for longer than TIMEOUT?"""

    def is_longer(condition):
        query = (
            "SELECT FROM pg_stat_activity WHERE usename = %s"
            f" AND clock_timestamp() - state_change > {TIMEOUT * 1.5} * interval '1 ms'"
            f" AND {condition}"
        )
        return connection.execute(query, (limited[0],)).rowcount > 0

    return is_longer


def test_every_command_is_tried_with_the_timeouts_of_the_role():
    known = {name for name, _ in commands(main)} - OTHERS
    groups = {name.split()[0] for name in known if " " in name}
    tried = {re.match("[a-z]+( [a-z]+)?", words)[0] for words in READS + WRITES}
    assert known - groups == tried


@pytest.mark.parametrize(
    ("words", "lock"),
    [
        pytest.param(words, lock, id=words)
        for lock, group in (
            ("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", READS),
            ("SELECT FROM {} FOR UPDATE", WRITES),
        )
        for words in group
    ],
)
def test_a_command_goes_on_although_it_has_waited_longer_than_the_timeouts_of_the_role(
    acme, cast, connection, database_url, limited, is_longer, start, tmp_path, words, lock
):
    subscribe(connection, cast["acme"], "http://127.0.0.1:9/")
    found = {"file": tmp_path / "tasks.jsonl"}
    found["file"].write_text(json.dumps(LINE), encoding="utf-8")
    for table in ("webhooks", "deliveries", "tokens"):
        found[table] = connection.execute(f"SELECT id FROM {table} LIMIT 1").fetchone()["id"]
    runner = CommandRunner(start(Settings.read(webhook_settings(limited[1]))))
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor(1) as threads:
        for table in catalogue()["tables"]:
            holder.execute(lock.format(table))
        running = threads.submit(runner.invoke, words.format(**found).split())
        try:
            wait_until(lambda: is_longer("wait_event_type = 'Lock'"), running)
        finally:
            holder.rollback()
        outcome = running.result()
    if words in ("status", "check"):
        # They find that no worker runs, for example.
        assert "timeout" not in outcome.output
    else:
        assert (outcome.exit_code, outcome.stderr) == (0, "")
    # The next client of PgBouncer gets the same session.
    with psycopg.connect(limited[1], autocommit=True) as client:
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            assert client.execute(f"SHOW {name}").fetchone() == (f"{TIMEOUT}ms",)


def program(url, *words):
    """Start a command. Its pipes are not buffered: communicate() would skip what a buffer holds."""
    return subprocess.Popen(
        [sys.executable, "-m", "service", *words],
        cwd=PROJECT,
        env=environment(DATABASE_URL=url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def test_an_export_is_complete_although_its_reader_pauses(connection, cast, limited, is_longer):
    """More than all buffers between the two can hold is left to send while the reader pauses."""
    connection.execute(
        "INSERT INTO tasks (workspace_id, created_by, title, description)"
        " SELECT %s, %s, 'Long', repeat('x', 60000) FROM generate_series(1, 500)",
        (cast["acme"], cast["alice"]),
    )
    with program(limited[1], "workspace", "export", "acme") as export:
        beginning = export.stdout.read(1000)
        wait_until(lambda: is_longer("wait_event = 'ClientWrite'"), export)
        rest, errors = export.communicate()
    assert (export.returncode, errors) == (0, b"")
    lines = [json.loads(line) for line in (beginning + rest).splitlines()]
    assert lines[-1] == {"type": "end", "lines": len(lines) - 2}
    assert [len(line.get("description", "")) for line in lines].count(60000) == 500


def test_the_statement_of_a_command_that_was_killed_ends_although_its_timeout_is_disabled(
    connection, database_url, limited, is_longer
):
    waits = "wait_event_type = 'Lock'"
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE users")
        with program(limited[1], "user", "list") as command:
            wait_until(lambda: is_longer(waits), command)
            command.kill()
        wait_until(lambda: not is_longer(waits))


def test_a_load_is_complete_although_its_writer_pauses(connection, limited, is_longer):
    line = json.dumps(LINE).encode() + b"\n"
    other = {"type": "knowledge", "workspace": "acme", "title": "Slow", "content": "x"}
    with program(limited[1], "load", "-") as load:
        # The line of another type lets the command insert the lines before it.
        load.stdin.write(line + json.dumps(other).encode() + b"\n")
        wait_until(lambda: is_longer("state = 'idle in transaction'"), load)
        _, errors = load.communicate(line)
    assert (load.returncode, errors) == (0, b"")
    assert connection.execute("SELECT FROM tasks WHERE title = 'Slow'").rowcount == 2
