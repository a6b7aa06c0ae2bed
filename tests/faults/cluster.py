"""A primary and a synchronous standby: installed PostgreSQL if there is one, else the embedded."""

import os
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg.rows import dict_row
from support.commands import rows
from support.processes import free_port, is_running, wait_until
from support.receivers import subscribe
from support.rows import restore_cast

from service.commands.migrate import migrate
from service.devkit.postgres import Postgres
from service.settings import Settings


def installed_binaries():
    """Return the folder of programs of the newest PostgreSQL that Debian has installed, or None."""
    found = Path("/usr/lib/postgresql").glob("*/bin/pg_basebackup")
    return max((path.parent for path in found), key=lambda path: int(path.parts[-2]), default=None)


class Server(Postgres):
    def __init__(self, folder):
        super().__init__(folder, durable=False)
        self.port = free_port()

    @cached_property
    def binaries(self):
        return installed_binaries() or super().binaries

    @property
    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self):
        self._give_folder()
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "--no-sync")

    def copy(self, primary):
        self.erase()
        self._give_folder()
        name = f"{primary.url}?application_name=standby"
        self._run("pg_basebackup", "-R", "-c", "fast", "--no-sync", "-d", name)

    def _give_folder(self):
        self.data.mkdir(mode=0o700)
        if self.account:
            os.chown(self.data, self.account.pw_uid, self.account.pw_gid)

    def start(self):
        # By default, a standby tries to reach its primary only every 5 s.
        options = f"-h 127.0.0.1 -p {self.port} -k '' -F -c wal_retrieve_retry_interval=100ms"
        self.pg_ctl("start", "-l", str(self.log), "-o", options)

    def kill(self):
        """Kill the postmaster with SIGKILL; its backends end once they notice."""
        pid = self.get_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        # pg_ctl would take the zombie process for a running server.
        (self.data / "postmaster.pid").unlink()

    def connect(self):
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row)

    def wait_for(self, names):
        """Let each commit wait for these standbys; return once PostgreSQL applies the setting."""
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")
            states = "SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
            setting = (
                "SELECT FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = %s"
            )
            wait_until(lambda: rows(connection, states) and rows(connection, setting, names))


def follow(standby, primary):
    """Make the standby a copy of the primary; from then on, commits wait for the standby."""
    with primary.connect() as connection:
        # The standby copies this line of the configuration too.
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    standby.copy(primary)
    standby.start()
    primary.wait_for("standby")


@contextmanager
def pair_of_servers():
    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="service-pair-", ignore_cleanup_errors=True)
            )
            Path(folder).chmod(0o711)
            servers.append(Server(folder))
            stack.callback(servers[-1].close)
        primary, standby = servers
        primary.create()
        primary.start()
        migrate(Settings.read({"DATABASE_URL": primary.url}))
        follow(standby, primary)
        yield primary, standby


def insert_cast(connection, url):
    """Insert the cast, on a plan whose limits no scenario reaches, and a webhook of Acme."""
    acme = restore_cast(connection)["acme"]
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Faults', 10000000)")
    connection.execute("UPDATE workspaces SET plan = 'Faults'")
    subscribe(connection, acme, url, "task.created")
