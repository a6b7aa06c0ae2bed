"""Three machines with PostgreSQL, Patroni and etcd, set up as docs/operations/scaling.md says."""

import json
import os
import pwd
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

from faults.documents import configuration
from faults.network import Machine, Network, Unit
from support.processes import is_running, wait_until

BINARIES = Path("/usr/lib/postgresql/15/bin")
NAMES = "db1", "db2", "db3"
# Seconds that the cluster may take to become whole again, far more than it needs.
PATIENCE = 120


def database_url(name):
    (url,) = re.findall(r"(?m)^DATABASE_URL='(.*)'$", configuration(name))
    return url


class Node:
    """One of the machines; its files are below ``folder``."""

    def __init__(self, cluster, number, folder):
        self.cluster, self.name, self.number = cluster, NAMES[number - 1], number
        self.last = 20 + number
        self.address = f"{cluster.network.prefix}{self.last}"
        self.folder = folder
        folders = {}
        for place, user in (
            ("/var/lib/postgresql", "postgres"),
            ("/run/postgresql", "postgres"),
            ("/etc/patroni", "root"),
            ("/var/lib/etcd", "etcd"),
        ):
            part = folder / place.replace("/", "-")[1:]
            part.mkdir(parents=True)
            os.chown(part, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
            folders[place] = part
        (folders["/etc/patroni"] / "config.yml").write_text(self.file("patroni.yml"))
        self.machine = Machine(**folders)
        cluster.network.connect(self.machine, self.last)
        self.units = []

    def file(self, name):
        """Return a file of the page, which is for db1, as this machine needs it."""
        text = self.cluster.addressed(configuration(name))
        own = re.compile(r"^(?!ETCD_INITIAL_CLUSTER=|  hosts:).*$", re.MULTILINE)
        first = f"{self.cluster.network.prefix}21"
        return own.sub(
            lambda line: line[0].replace("db1", self.name).replace(first, self.address), text
        )

    def _start(self, name, *words, user, variables=()):
        log = self.folder / f"{name}.log"
        unit = Unit(self.machine, *words, user=user, log=log, variables=variables)
        self.units.append(unit)
        return unit

    def start_etcd(self, text=None):
        """Start etcd as Debian's unit does, with the configuration of the page or this text."""
        lines = (self.file("etcd") if text is None else text).splitlines()
        variables = [line for line in lines if line and not line.startswith("#")]
        variables.append("ETCD_DATA_DIR=/var/lib/etcd/default")
        self.etcd = self._start("etcd", "/usr/bin/etcd", user="etcd", variables=variables)

    def install_etcd(self):
        """Start etcd as a cluster of one, as the installation of Debian's package does."""
        self.start_etcd("")
        health = "bash", "-c", "etcdctl endpoint health 2>&1"
        wait_until(lambda: "is healthy" in self.machine.run(*health, check=False))

    def join_etcd(self):
        """Run the block of the page that makes this etcd a member of the cluster.

        These machines have no systemd, so calls of systemctl are replaced.
        """
        for line in configuration("etcd.sh").removeprefix("(set -e\n").splitlines():
            match line.removeprefix("systemctl ").rstrip(")").split():
                case "stop", "etcd":
                    self.etcd.kill()
                case "start", "etcd":
                    self.start_etcd()
                case "enable", "etcd":
                    pass
                case _:
                    self.machine.run("bash", "-euxc", line)

    def etcd_members(self):
        """Return the lines of the block that lists the members of etcd; none without a majority."""
        return self.machine.run("bash", "-c", self.file("members.sh"), check=False).splitlines()

    def start_patroni(self):
        command = "/usr/bin/patroni", "/etc/patroni/config.yml"
        self.patroni = self._start("patroni", *command, user="postgres")

    @property
    def postgres(self):
        """The id of the postmaster in the numbers of the host, or None if it does not run."""
        data = self.folder / "var-lib-postgresql/15/service"
        try:
            inside = (data / "postmaster.pid").read_text().split()[0]
        except (OSError, IndexError):
            return None
        return self.machine.outside(int(inside))

    def kill_postgres(self):
        pid = self.postgres
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))

    def die(self):
        """Kill all processes of the machine; none is restarted."""
        self.patroni.kill()
        self.etcd.kill()
        self.kill_postgres()

    def start(self):
        self.start_etcd()
        self.start_patroni()

    def psql(self, sql):
        """Run a statement on this machine; return its value, or an empty text after an error."""
        words = "psql", "-XAtq", "-d", "postgres", "-c", sql
        return self.machine.run(*words, user="postgres", check=False).strip()

    def close(self):
        self.machine.close()
        for unit in self.units:
            unit.close()


class Cluster:
    """The three nodes on their network, with the role and the database of the service."""

    def __init__(self, folder):
        self._stack = ExitStack()
        self.network = Network(os.getpid() % 250)
        self._stack.callback(self.network.close)
        try:
            self._start(folder)
        except BaseException:
            self._stack.close()
            raise

    def _start(self, folder):
        self.nodes = {}
        for number, name in enumerate(NAMES, 1):
            self.nodes[name] = Node(self, number, folder / name)
            self._stack.callback(self.nodes[name].close)
        for node in self.nodes.values():
            node.install_etcd()
        for node in self.nodes.values():
            node.join_etcd()
        for node in self.nodes.values():
            wait_until(lambda node=node: len(node.etcd_members()) == 3)
        for node in self.nodes.values():
            node.start_patroni()
        self.wait_until_whole()
        script = self.addressed(configuration("role.sh"))
        self.primary.machine.run("bash", "-euxc", script)

    def addressed(self, text):
        return re.sub(r"\b10\.0\.0\.(?=2[123]\b|0/24)", self.network.prefix, text)

    @property
    def url(self):
        return self.addressed(database_url("patroni.env"))

    def members(self):
        """Return the members by name, as Patroni reports them; empty if no node answers."""
        for node in self.nodes.values():
            try:
                with urlopen(f"http://{node.address}:8008/cluster", timeout=1) as response:
                    return {one["name"]: one for one in json.load(response)["members"]}
            except OSError:
                continue
        return {}

    @property
    def primary(self):
        (name,) = [name for name, one in self.members().items() if one["role"] == "leader"]
        return self.nodes[name]

    def is_whole(self):
        """Return whether a primary, a synchronous standby and a replica run without lag."""
        members = self.members().values()
        good = [
            one
            for one in members
            if one["state"] in ("running", "streaming") and not one.get("lag")
        ]
        roles = sorted(one["role"] for one in good)
        timelines = {one.get("timeline") for one in members}
        return roles == ["leader", "replica", "sync_standby"] and len(timelines) == 1

    def wait_until_whole(self):
        wait_until(self.is_whole, seconds=PATIENCE)

    def close(self):
        self._stack.close()
