"""worker: it delivers and prunes; without a key it only prunes."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from psycopg.conninfo import conninfo_to_dict
from support.processes import wait_until
from support.receivers import PROJECT, announce, deliveries, environment, subscribe

from service.version import build


@pytest.fixture
def old_delivery(cast, connection, receiver):
    """Insert a delivery that is old enough to be pruned, and one that is due."""
    subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"], 2)
    connection.execute("UPDATE events SET created_at = now() - interval '11 days'")
    connection.execute(
        "UPDATE deliveries SET state = 'failed', finished_at = now() - interval '10 days'"
        " WHERE id = (SELECT min(id::text)::uuid FROM deliveries)"
    )


@pytest.mark.parametrize(("key", "state"), [(True, "delivered"), (False, "waiting")])
@pytest.mark.usefixtures("old_delivery")
def test_a_worker_prunes_and_delivers_if_it_has_a_key(
    key, state, with_settings, connection, receiver, caplog
):
    ran = with_settings("worker", "--once", **({} if key else {"WEBHOOK_KEY": ""}))
    assert (ran.exit_code, ran.stdout) == (0, f"{int(key)}\n")
    assert [row["state"] for row in deliveries(connection)] == [state]
    assert receiver.connections == key
    messages = [record.message for record in caplog.records if record.name == "service.worker"]
    assert messages == [] if key else ["WEBHOOK_KEY is not set: deliveries wait"]


@pytest.mark.slow
@pytest.mark.usefixtures("old_delivery")
def test_a_worker_without_a_key_says_so_once_and_ends_on_sigterm(database_url, connection):
    command = [sys.executable, "-m", "service", "worker"]
    variables = {**os.environ, **environment(database_url, WEBHOOK_KEY="")}
    with subprocess.Popen(
        command, cwd=PROJECT, env=variables, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            line, started = (json.loads(process.stderr.readline()) for _ in range(2))
            wait_until(lambda: len(deliveries(connection)) == 1, process)
        finally:
            process.send_signal(signal.SIGTERM)
        assert line["message"] == "WEBHOOK_KEY is not set: deliveries wait"
        assert process.wait(60) == 0
        (stopped,) = map(json.loads, process.stderr.read().splitlines())
        for record, event in ((started, "starts"), (stopped, "stops")):
            assert record["level"] == "INFO"
            name = conninfo_to_dict(database_url)["dbname"]
            assert re.fullmatch(
                rf"worker {re.escape(build())} {event}: process {process.pid};"
                rf" database {name} on \S+; settings: DATABASE_URL=set"
                r" (SPEEDUPS=off )?LOGIN_KEY=set"
                r" WEBHOOK_ALLOW=127.0.0.1/32 WEBHOOK_SCHEDULE=0.1,60",
                record["message"],
            )
