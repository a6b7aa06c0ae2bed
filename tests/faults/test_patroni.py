"""Three servers with Patroni and etcd, found by libpq, through HAProxy and through PgBouncer."""

import json
import os
import pwd
import re
import tempfile
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import psycopg
import pytest
from faults import network, patroni
from faults.cluster import insert_cast
from faults.documents import configuration
from faults.load import WEB, Load, compare_events, compare_tasks, wait_until_delivered
from psycopg.rows import dict_row
from support.front import pgbouncer, running
from support.processes import children, free_port, serving, wait_until, working
from support.project import read, replaced
from support.receivers import WEBHOOK_SETTINGS, Receiver

from service.commands.migrate import migrate
from service.settings import Settings

REASON = network.missing() or ("" if patroni.BINARIES.exists() else "PostgreSQL 15 is missing")
pytestmark = [
    pytest.mark.faults,
    pytest.mark.needs("patroni", "etcd", "haproxy", "pgbouncer"),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]

SETTINGS = {
    **WEBHOOK_SETTINGS,
    **WEB,
    "POOL_TIMEOUT": "5",
    "WEBHOOK_TIMEOUT": "1",
    "WEBHOOK_LEASE": "1.5",
    "WEBHOOK_SCHEDULE": ",".join(["0.5"] * 240),
}
CLIENTS = 4
# Seconds between two requests of a client: three PostgreSQL servers and the service share the cores
# of one machine.
PAUSE = 0.05
# The values of patroni.yml.
TTL, LOOP_WAIT = 20, 5


class Stage:
    """The cluster, and the web processes and the worker that run through all scenarios."""

    def __init__(self, stack, folder):
        self.cluster = patroni.Cluster(folder)
        stack.callback(self.cluster.close)
        self.url = self.cluster.url
        migrate(Settings.read({"DATABASE_URL": self.url}))
        self.receiver = stack.enter_context(closing(Receiver()))
        with self.connect() as connection:
            insert_cast(connection, self.receiver.url)
        port = free_port()
        stack.enter_context(self._haproxy(folder, port))
        through = patroni.database_url("haproxy.env").replace(":5432", f":{port}")
        bouncer = stack.enter_context(self._pgbouncer(folder, port))
        pooled = patroni.database_url("haproxy.env").replace(":5432", f":{bouncer}")
        off = {"DATABASE_PREPARE": "off"}
        self.servers = {
            way: stack.enter_context(serving(url, **SETTINGS, **more))
            for way, url, more in (
                ("by libpq", self.url, {}),
                ("through HAProxy", through, {}),
                ("through PgBouncer and HAProxy", pooled, off),
            )
        }
        self.worker = stack.enter_context(working(self.url, **SETTINGS))
        wait_until(lambda: all(len(children(one.pid)) == 2 for one in self.servers.values()))
        self.acknowledged, self.arrived = {}, set()

    def connect(self):
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row, connect_timeout=2)

    def _haproxy(self, folder, port):
        defaults, _, _ = configuration("haproxy.cfg").partition("frontend clients")
        database = configuration("database.haproxy.cfg")
        bind = "bind 127.0.0.1:5432"
        assert bind in database
        database = database.replace(bind, f"bind 127.0.0.1:{port}")
        path = folder / "haproxy.cfg"
        path.write_text(defaults + self.cluster.addressed(database))
        return running(["haproxy", "-db", "-f", path], port)

    def _pgbouncer(self, folder, haproxy):
        """Start PgBouncer in front of HAProxy; give the role the settings that PgBouncer needs."""
        with self.connect() as connection:
            page = read("docs/operations/scaling.md")
            for line in re.findall(r"(?m)^ +(ALTER ROLE service SET .*)$", page):
                connection.execute(line)
        (folder / "userlist.txt").write_text('"service" "PASSWORD"\n')
        text = replaced(
            configuration("pgbouncer.ini"),
            ("host=10.0.0.21 port=5432", f"host=127.0.0.1 port={haproxy}"),
            ("/etc/pgbouncer", str(folder)),
            ("pool_mode = transaction", "pool_mode = transaction\nunix_socket_dir ="),
        )
        return pgbouncer(folder, text, pwd.getpwnam("postgres"))

    def processes(self):
        masters = [server.pid for server in self.servers.values()]
        return {self.worker.pid, *masters, *(pid for one in masters for pid in children(one))}

    def wait_until_delivered(self):
        with self.connect() as connection:
            wait_until_delivered(connection)
        self.arrived |= {json.loads(one.body)["data"]["id"] for one in self.receiver.take_all()}


@pytest.fixture(scope="module")
def stage():
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="service-cluster-", ignore_cleanup_errors=True)
        )
        os.chmod(folder, 0o711)
        yield Stage(stack, Path(folder))


class Run:
    """One scenario: clients that write by all ways, and the comparison of what was stored."""

    def __init__(self, stage, measure):
        self.stage, self.measure = stage, measure

    def __enter__(self):
        self.stage.cluster.wait_until_whole()
        self.before = self.stage.processes()
        self._stack = ExitStack()
        self.loads = {
            way: self._stack.enter_context(Load(server.port, clients=CLIENTS, pause=PAUSE))
            for way, server in self.stage.servers.items()
        }
        self.wait_for_replies(20)
        self.struck = monotonic()
        return self

    def wait_for_replies(self, number):
        for load in self.loads.values():
            load.wait_for_replies(number)

    def wait_for_recovery(self):
        """Return once requests that began after this moment succeed by all ways."""
        now = monotonic()
        for load in self.loads.values():
            load.recovery(now)

    def without(self, way):
        """Return the longest time without a 201 since the fault, in seconds."""
        ends = sorted(
            reply.started + reply.seconds
            for reply in self.loads[way].good()
            if reply.started + reply.seconds > self.struck
        )
        return max(later - sooner for sooner, later in pairwise([self.struck, *ends]))

    def __exit__(self, kind, *_):
        if kind is None:
            self.stage.cluster.wait_until_whole()
            self.wait_for_replies(20)
        self._stack.close()
        if kind is None:
            self._compare()

    def _compare(self):
        stage, measure, loads = self.stage, self.measure, self.loads.values()
        others = sum(load.other_than(201, 503) for load in loads)
        measure("responses other than 201 and 503", others, exactly=0)
        for load in loads:
            stage.acknowledged.update(load.acknowledged)
        stage.wait_until_delivered()
        with stage.connect() as connection:
            compare_tasks(measure, connection, SimpleNamespace(acknowledged=stage.acknowledged))
            compare_events(measure, connection)
        missing = len(stage.acknowledged.keys() - stage.arrived)
        measure("acknowledged tasks whose event did not arrive", missing, exactly=0)
        restarts = len(self.before ^ stage.processes())
        measure("processes of the service that ended or began", restarts, exactly=0)

    def measure_gaps(self, at_most):
        for way in self.loads:
            text = f"longest time without a 201, {way}"
            self.measure(text, self.without(way), at_most=at_most, unit="s")


@pytest.fixture
def run(stage, measure):
    return Run(stage, measure)


def test_a_killed_postgresql_is_replaced_by_its_synchronous_standby(run, measure):
    with run:
        old = run.stage.cluster.primary
        old.kill_postgres()
        run.wait_for_recovery()
    run.measure_gaps(LOOP_WAIT + 5)


def test_a_primary_whose_machine_dies_is_replaced(run, measure):
    with run:
        old = run.stage.cluster.primary
        old.die()
        run.wait_for_recovery()
        old.start()
    run.measure_gaps(TTL + LOOP_WAIT + 5)


def test_a_primary_that_is_cut_off_demotes_itself_and_acknowledges_nothing(run, measure):
    cluster = run.stage.cluster
    with run, ExitStack() as stack:
        old = cluster.primary
        # This web process is cut off together with the primary.
        call = stack.enter_context(network.inside(old.machine))
        server = call(stack.enter_context, serving(run.stage.url, **SETTINGS))
        run.struck = monotonic()
        cluster.network.cut(old.last)
        with ExitStack() as loads:
            beside = Load(server.port, clients=CLIENTS, pause=PAUSE)
            call(loads.enter_context, beside)
            wait_until(lambda: old.psql("SELECT pg_is_in_recovery()") != "f")
            demoted = monotonic() - run.struck
            run.wait_for_recovery()
        # Mend the network at the worst moment, when the new primary has just begun.
        cluster.network.mend(old.last)
    measure("requests on the side of the old primary", len(beside.replies), at_least=1)
    measure("of them acknowledged", len(beside.good()), exactly=0)
    measure("the old primary has demoted itself after", demoted, at_most=TTL, unit="s")
    run.measure_gaps(TTL + LOOP_WAIT + 5)
