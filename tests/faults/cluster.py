"""A primary and a synchronous standby: PostgreSQL of the machine, or else the embedded one."""

import os
import re
import signal
import subprocess
from functools import cached_property
from pathlib import Path

import psycopg
from client import TOKENS, activate, insert, insert_member, insert_token
from psycopg.rows import dict_row
from receivers import subscribe
from server import free_port, is_running, wait_until

from service.devkit.postgres import Postgres


def installed_binaries():
    """The newest PostgreSQL that Debian has installed, or None."""
    found = Path("/usr/lib/postgresql").glob("*/bin/pg_basebackup")
    return max((path.parent for path in found), key=lambda path: int(path.parts[-2]), default=None)


def installed_version():
    binaries = installed_binaries()
    if binaries is None:
        return None
    told = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True)
    return re.search(r"[\d.]+", told.stdout)[0]


class Server(Postgres):
    """One PostgreSQL on a loopback port of its own."""

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
        """Initialise the data of a primary."""
        self._give_folder()
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "--no-sync")

    def copy(self, primary):
        """Copy the data of a primary, as a standby of it."""
        self.erase()
        self._give_folder()
        name = f"{primary.url}?application_name=standby"
        self._run("pg_basebackup", "-R", "-c", "fast", "--no-sync", "-d", name)

    def _give_folder(self):
        self.data.mkdir(mode=0o700)
        if self.account:
            os.chown(self.data, self.account.pw_uid, self.account.pw_gid)

    def start(self, **settings):
        options = f"-h 127.0.0.1 -p {self.port} -k '' -F"
        options += "".join(f" -c {name}={value}" for name, value in settings.items())
        self.pg_ctl("start", "-l", str(self.log), "-o", options)

    def kill(self):
        """End the postmaster by SIGKILL; its backends end when they notice."""
        pid = self.get_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        # pg_ctl takes a zombie process as running.
        (self.data / "postmaster.pid").unlink()

    def connect(self, **options):
        return psycopg.connect(self.url, autocommit=True, row_factory=dict_row, **options)


def insert_cast(connection, url):
    """Alice in Acme, on a plan that no scenario uses up, and a webhook of Acme to this URL."""
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Faults', 10000000)")
    acme = insert(connection, "workspaces", name="Acme", slug="acme", plan="Faults")
    alice = insert(connection, "users", email="alice@example.com", name="Alice")
    insert_member(connection, acme, alice, "owner")
    activate(connection, acme, alice)
    insert_token(connection, alice, TOKENS["alice"])
    subscribe(connection, acme, url, "task.created")
