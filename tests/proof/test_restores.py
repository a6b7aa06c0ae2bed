"""Each way to restore a backup: afterwards, every older cursor of the event feed is invalid."""

import os
import signal
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from faults.cluster import Server
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from support.commands import rows
from support.http import Client, error_message
from support.processes import is_running, wait_until
from support.rows import TOKENS, restore_cast

from service.__main__ import main
from service.app import create_app
from service.commands.migrate import migrate
from service.settings import Settings

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]


class Installation(Server):
    """A PostgreSQL with the database ``service``, which no process uses during a step."""

    def url_of(self, database):
        return make_conninfo(self.url, dbname=database)

    def connect(self, database="postgres"):
        return psycopg.connect(self.url_of(database), autocommit=True, row_factory=dict_row)

    def execute(self, *statements):
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def rename(self, database):
        """Give this database the name that the service uses."""
        self.execute(
            "ALTER DATABASE service RENAME TO broken",
            f"ALTER DATABASE {database} RENAME TO service",
        )

    def run(self, program, *arguments):
        subprocess.run([self.binaries / program, *arguments], check=True, cwd="/")

    def dump(self):
        self.run("pg_dump", "-Fc", "-f", self.folder / "dump", self.url_of("service"))

    def restore(self, database, *options):
        url = self.url_of(database)
        self.run("pg_restore", "--exit-on-error", *options, "-d", url, self.folder / "dump")

    def copy_files(self, mode):
        """Copy the files of the server, which is stopped meanwhile.

        The mode ``immediate`` leaves the files as after a crash.
        """
        self.pg_ctl("stop", "-m", mode)
        subprocess.run(["cp", "-a", self.data, self.folder / "copy"], check=True)
        self.start()

    def base_backup(self, *options):
        copy = self.folder / "copy"
        copy.mkdir(mode=0o700)
        self._own(copy)
        self._run("pg_basebackup", "-c", "fast", "--no-sync", "-d", self.url, *options, data=copy)

    def put_back(self, *lines):
        """Start the server with the files of the copy, and add these lines to its configuration."""
        self.pg_ctl("stop", "-m", "immediate")
        self.data.rename(self.folder / "lost")
        (self.folder / "copy").rename(self.data)
        with (self.data / "postgresql.auto.conf").open("a") as configuration:
            configuration.writelines(f"{line}\n" for line in lines)
        self.start()

    def recover_to_the_end_of_the_backup(self):
        (self.folder / "copy" / "recovery.signal").touch()
        self.put_back(
            f"restore_command = 'cp {self.folder}/lost/pg_wal/%f %p'",
            "recovery_target = 'immediate'",
            "recovery_target_action = 'promote'",
        )
        with self.connect() as connection:
            wait_until(lambda: not rows(connection, "SELECT WHERE pg_is_in_recovery()"))

    def commit_to_memory(self):
        """Freeze the process that writes asynchronous commits to the disk, so a crash loses them.

        The process would write them once a page of the WAL is full, or earlier.
        """
        self.execute("ALTER DATABASE service SET synchronous_commit = off")
        with self.connect() as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
            self.wal_writer = connection.execute(query).fetchone()["pid"]
        os.kill(self.wal_writer, signal.SIGSTOP)

    def crash(self):
        self.kill()
        os.kill(self.wal_writer, signal.SIGKILL)
        wait_until(lambda: not is_running(self.wal_writer))
        self.start()

    def empty_tables(self):
        with self.connect("service") as connection:
            tables = "SELECT string_agg(relname, ', ') AS all FROM pg_stat_user_tables"
            connection.execute(f"TRUNCATE {connection.execute(tables).fetchone()['all']}")

    def take(self, steps):
        for method, *arguments in steps:
            getattr(self, method)(*arguments)


STOPPED, SNAPSHOT = "files of a stopped server", "snapshot of the disk"
# For each way: the steps that make the backup, and the steps that restore it. A step is a method of
# the server with its arguments.
WAYS = {
    "dump into another database": (
        [("dump",)],
        [
            ("execute", "CREATE DATABASE restored TEMPLATE template0"),
            ("restore", "restored"),
            ("rename", "restored"),
        ],
    ),
    "dump into the same database": (
        [("dump",)],
        [("restore", "service", "--clean", "--if-exists")],
    ),
    "data of a dump": (
        [("dump",)],
        [("empty_tables",), ("restore", "service", "--data-only", "--disable-triggers")],
    ),
    "copy of the database": (
        [("execute", "CREATE DATABASE kept TEMPLATE service")],
        [("rename", "kept")],
    ),
    "files without recovery": ([("base_backup",)], [("put_back",)]),
    STOPPED: ([("copy_files", "fast")], [("put_back",)]),
    SNAPSHOT: ([("copy_files", "immediate")], [("put_back",)]),
    "point in time": ([("base_backup",)], [("recover_to_the_end_of_the_backup",)]),
    "standby that was behind": ([("base_backup", "-R")], [("put_back",), ("pg_ctl", "promote")]),
    "crash that loses commits": ([("commit_to_memory",)], [("crash",)]),
}


@pytest.fixture
def server():
    with tempfile.TemporaryDirectory(prefix="service-restores-") as folder:
        Path(folder).chmod(0o711)
        with closing(Installation(folder)) as server:
            server.create()
            server.start()
            server.execute("CREATE DATABASE service ENCODING 'UTF8' TEMPLATE template0")
            migrate(Settings.read({"DATABASE_URL": server.url_of("service")}))
            with server.connect("service") as connection:
                restore_cast(connection)
            yield server


@contextmanager
def clients(server):
    """Yield Alice and Charlie, clients of a service that is started for this step only."""
    app = create_app(Settings.read({"DATABASE_URL": server.url_of("service")}))
    yield Client(app, TOKENS["alice"]), Client(app, TOKENS["charlie"])
    app.extensions["pool"].close()


def poll(client, after=None):
    return client.get("/events", query_string={"after": after} if after else {}).get_json()


def titles(client):
    return [task["title"] for task in client.get("/tasks").get_json()["data"]]


@pytest.mark.parametrize("way", WAYS)
def test_after_a_restore_every_older_cursor_gets_410_immediately_and_after_new_changes(server, way):
    """The cursors are from before and after the backup; some have an event at their position."""
    cursors = []

    def read(client, after=None):
        cursors.append((client.headers, poll(client, after)["nextCursor"]))
        return cursors[-1][1]

    with clients(server) as (alice, charlie):
        # Charlie's workspace has no event. Alice could list what is created after the backup.
        first = read(alice)
        read(charlie)
        alice.post("/tasks", {"title": "Kept"})
        second = read(alice, first)
    # If the backup lost no transaction that the cursor covers, a reader who has listed nothing
    # since then may use the cursor.
    good = {second} if way == STOPPED else set()
    backup, restore = WAYS[way]
    server.take(backup)
    with clients(server) as (alice, charlie):
        for number in range(3):
            alice.post("/tasks", {"title": f"Lost {number}"})
        read(charlie)
        read(alice, read(alice))
        if way not in (STOPPED, SNAPSHOT):
            assert len(poll(alice, second)["data"]) == 3
            read(alice, second)
    server.take(restore)
    with clients(server) as (alice, charlie):
        assert "Lost 2" not in titles(alice)
        for number in range(2):
            for client in (alice, charlie):
                for headers, cursor in cursors:
                    if headers == client.headers and cursor not in good:
                        answer = client.get("/events", query_string={"after": cursor})
                        assert error_message(answer, 410)
                if number == 0:
                    start = poll(client)["nextCursor"]
                    for _ in range(9):
                        client.post("/tasks", {"title": "New"})
                    assert len(poll(client, start)["data"]) == 9
        for cursor in good:
            assert len(poll(alice, cursor)["data"]) == 9


def test_the_cursor_of_an_empty_poll_gets_410_after_a_restore_of_the_database_files(server):
    """The copy has a row for the position of the cursor, as another reader had polled before."""
    with clients(server) as (alice, _):
        other = poll(alice, poll(alice)["nextCursor"])["nextCursor"]
        alice.post("/tasks", {"title": "Kept"})
        other = poll(alice, other)["nextCursor"]
    server.copy_files("fast")
    with clients(server) as (alice, _), server.connect("service") as writer:
        workspace = "(SELECT id FROM workspaces WHERE slug = 'acme')"
        with writer.transaction(force_rollback=True):
            # A write in progress delays later events in the feed. The list of tasks shows the tasks
            # anyway.
            writer.execute(f"SELECT announce({workspace}, 'task.created', '{{}}')")
            first = poll(alice)["nextCursor"]
            alice.post("/tasks", {"title": "Lost"})
            assert titles(alice) == ["Lost", "Kept"]
            page = poll(alice, first)
            assert page["data"] == []
            assert page["nextCursor"].partition(".")[0] == other.partition(".")[0]
    server.put_back()
    with clients(server) as (alice, _):
        assert titles(alice) == ["Kept"]
        for cursor in (first, page["nextCursor"]):
            answer = alice.get("/events", query_string={"after": cursor})
            assert error_message(answer, 410)
        # The other reader has listed nothing since then, so its cursor is still valid.
        assert poll(alice, other)["data"] == []


def test_a_restore_that_ended_before_its_triggers_and_foreign_keys_does_not_go_into_service(server):
    """A full disk can end pg_restore, which creates indexes, triggers and foreign keys last."""
    server.dump()
    server.execute("CREATE DATABASE restored LOCALE 'C.UTF-8' TEMPLATE template0")
    settings = {"DATABASE_URL": server.url_of("restored")}
    app = create_app(Settings.read(settings))
    with closing(app.extensions["pool"]):
        for step in ("pre-data", "data"):
            server.restore("restored", f"--section={step}")
        for command in (["migrate"], ["check"], ["check", "--start"]):
            ran = CliRunner().invoke(main, command, env=settings)
            assert ran.exit_code == 1
            assert "constraint tokens.tokens_user_id_fkey, " in ran.output
            assert "trigger tasks.next_version" in ran.output
        client = app.test_client()
        assert error_message(client.get("/healthz"), 503).endswith("command status names it")
        server.restore("restored", "--section=post-data")
        assert client.get("/healthz").status_code == 200
        for command in (["migrate"], ["check"]):
            ran = CliRunner().invoke(main, command, env=settings)
            assert ran.exit_code == 0, ran.output
