"""A database that fails: what a worker logs, and how it ends."""

import logging
import os
import re
import subprocess
import sys
from contextlib import suppress

import psycopg
import pytest
from support.processes import wait_until
from support.receivers import PROJECT, environment

from service import logs
from service.commands.migrate import migrate


@pytest.mark.slow
@pytest.mark.nodatabase
def test_sigterm_ends_a_worker_promptly_while_the_database_is_unreachable(away):
    """The worker has 128 threads, which must not wait for the database one after the other."""
    variables = {**os.environ, **environment(away, WEB_THREADS="32")}
    command = [sys.executable, "-m", "service", "worker"]
    with subprocess.Popen(
        command, cwd=PROJECT, env=variables, stderr=subprocess.PIPE, text=True
    ) as running:
        for line in running.stderr:
            if "the worker waits for the database: PoolTimeout: the command status" in line:
                break
        if sys.platform == "linux":
            # The worker has four threads for each of WEB_THREADS, and a few more.
            assert 128 < len(os.listdir(f"/proc/{running.pid}/task")) < 140
        running.terminate()
        running.communicate(timeout=60)
        assert running.returncode == 0


@pytest.fixture
def troubled(worker, monkeypatch):
    """Return a function that runs the steps of a worker three times, as its threads would.

    Errors of the database are suppressed.
    """
    monkeypatch.setattr("service.webhooks.worker.ERROR_INTERVAL", 0)

    def work(running, rounds=3):
        for _ in range(rounds):
            for step in (running.check_keys, running.deliver_next, running.prune):
                with suppress(psycopg.Error):
                    step()

    return work


def test_a_worker_logs_an_error_of_the_database_and_its_remedy_when_it_begins_changes_and_ends(
    worker, troubled, empty, caplog, monkeypatch
):
    """An error that lasts is logged again each minute."""
    caplog.set_level("INFO", "service.worker")
    running = worker(DATABASE_URL=empty)
    troubled(running)
    waits = r"the worker waits for the database: (\w+): run the command migrate; if .*"
    # Some statements lack a table first, others a function; each is logged once.
    lacking = sorted(re.fullmatch(waits, line)[1] for line in caplog.messages)
    assert lacking == ["UndefinedFunction", "UndefinedTable"]
    assert logs.RARE == 60
    with monkeypatch.context() as later:
        later.setattr("service.logs.RARE", 0)
        troubled(running, rounds=1)
    assert len(caplog.messages) > 1
    caplog.clear()
    migrate(running.settings)
    with psycopg.connect(empty, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    running.pool.drain()
    troubled(running)
    read_only = "the worker waits for the database: ReadOnlySqlTransaction: the server is a standby"
    assert caplog.messages[0].startswith(read_only)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    running.pool.drain()
    # A connection that the pool was just opening may be read-only still, so repeat
    # the steps, as a worker does.
    wait_until(lambda: troubled(running, rounds=1) or len(caplog.messages) > 1)
    assert caplog.messages[1:] == ["the worker continues: its statements succeed again"]
    running.pool.close()


@pytest.mark.nodatabase
def test_the_same_message_of_the_pool_is_logged_once_a_minute(worker, caplog, monkeypatch):
    worker()
    log = logging.getLogger("psycopg.pool")
    for message in ("the host is gone", "the host is gone", "the port is closed"):
        log.warning(message)
    assert caplog.messages == ["the host is gone", "the port is closed"]
    monkeypatch.setattr("service.logs.RARE", 0)
    log.warning("the host is gone")
    assert caplog.messages[2:] == ["the host is gone"]
