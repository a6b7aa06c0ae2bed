"""Separate Debians: systemd in namespaces, on a copy-on-write view of a root file system.

If this machine runs the Debian release that a test asks for, the test uses the root file system of
this machine. If not, debootstrap makes one, which stays in a folder for the next run. A separate
Debian changes no file of this machine, listens on none of its ports, and cannot reach the network:
``joined`` connects two of them with a cable of their own.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from support.processes import children, wait_until
from support.project import PROJECT, copy_project

# Runs in the new namespaces, where the folder $SHARE is mounted as /mnt.
BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=3g none "$ROOT"
mkdir "$ROOT"/changes "$ROOT"/work "$ROOT"/root
mount -t overlay -o "lowerdir=$LOWER,upperdir=$ROOT/changes,workdir=$ROOT/work" none "$ROOT/root"
cd "$ROOT/root"
mount -t proc none proc
mount -t sysfs none sys
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs -o mode=755 none run
mount --bind "$SHARE" mnt
mount -t tmpfs none tmp
mount -t tmpfs -o mode=755 none dev
mkdir dev/pts dev/shm
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
touch dev/console
mount --bind "$SHARE/console" dev/console
mount -t devpts -o newinstance,ptmxmode=0666 none dev/pts
mount -t tmpfs none dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
mkdir -p .outside
pivot_root . .outside
cd /
umount -l /.outside
# Let systemd start no service by itself; a test starts the services that it needs.
rm -rf /etc/systemd/system/*.wants
export container=other
exec /lib/systemd/systemd --unit=basic.target --log-target=console
"""


class Release(NamedTuple):
    number: int
    codename: str
    python: str
    postgres: int


RELEASES = [Release(12, "bookworm", "3.11", 15), Release(13, "trixie", "3.13", 17)]

# The packages that the pages expect or install.
PACKAGES = (
    "adduser ca-certificates cron curl dbus git iproute2 nginx openssl pgbackrest postgresql"
    " procps python3-venv systemd"
)
PROGRAMS = "/lib/systemd/systemd", "ip", "pg_createcluster", "pgbackrest", "nginx"

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "task-service-tests"

# policy-rc.d keeps packages from starting their services on this machine.
INSTALL = """
set -e
debootstrap --variant=minbase "$CODENAME" "$FOLDER"
printf '#!/bin/sh\nexit 101\n' >"$FOLDER/usr/sbin/policy-rc.d"
chmod 755 "$FOLDER/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
chroot "$FOLDER" apt-get install -qq -y --no-install-recommends $PACKAGES
chroot "$FOLDER" apt-get clean
rm "$FOLDER/usr/sbin/policy-rc.d"
"""

# Starts PostgreSQL and nginx as their packages do.
START = """
# Only root may enter the folder in which the blocks run.
chmod 700 .
pg_dropcluster $version main
pg_createcluster $version main
# Switch on TLS, as the package of Debian does if ssl-cert is installed.
cd /var/lib/postgresql/$version/main
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=db -keyout server.key -out server.crt
chown postgres: server.key server.crt
chmod 600 server.key
pg_conftool $version main set ssl on
systemctl start postgresql@$version-main
# Enable the site on port 80.
ln -sf /etc/nginx/sites-available/default /etc/nginx/sites-enabled/default
grep -q 'listen 80 default_server' /etc/nginx/sites-enabled/default
systemctl start nginx
"""


def missing():
    """Return why this machine cannot boot any release, or None."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    absent = [name for name in ("unshare", "nsenter") if not shutil.which(name)]
    if absent:
        return f"{absent[0]} is not installed"
    if cgroups() is None:
        return "there is no cgroup2 that can be written"
    return None


def root_of(release):
    """Return the folder of a root file system of the release; skip the test if there is none."""
    path = Path("/etc/os-release")
    if path.exists() and f"VERSION_CODENAME={release.codename}" in path.read_text():
        absent = [name for name in PROGRAMS if not shutil.which(name)]
        if not absent:
            return Path("/")
        here = f"this Debian {release.number} lacks {absent[0]}"
    else:
        here = f"this machine is no Debian {release.number}"
    folder = CACHE / f"debian-{release.number}"
    if not folder.exists():
        if not shutil.which("debootstrap"):
            pytest.skip(f"{here}, and debootstrap is not installed")
        new = folder.with_suffix(f".{os.getpid()}")
        new.mkdir(parents=True)
        variables = {"CODENAME": release.codename, "PACKAGES": PACKAGES}
        made = subprocess.run(
            ["sh", "-c", INSTALL],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "FOLDER": str(new), **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        if made.returncode != 0:
            shutil.rmtree(new)
            lines = f"{made.stdout}\n{made.stderr}".split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "")
            pytest.skip(f"{here}, and debootstrap fails: {last}")
        new.rename(folder)
    return folder


def supply(release, folder):
    """Put the source and the wheels that pip would fetch into ``folder/share``."""
    copy_project(folder / "share/source")
    locked = ("--require-hashes", "-r", PROJECT / "requirements.txt")
    for required in ("build", "setuptools>=77"), locked:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--python-version", release.python,
             "--only-binary=:all:", "-d", folder / "share/wheels", *required],
            check=True, capture_output=True,
        )  # fmt: skip


def cgroups():
    """Return the folder of the unified hierarchy of cgroups, or None."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            return Path(folder)
    return None


class Debian:
    """Runs scripts as root in the machine."""

    def __init__(self, init, share, variables):
        self.init, self.share, self.variables = init, share, variables

    def run(self, script, *, check=True):
        """Run a script with bash, which stops at the first error; return its output."""
        process = subprocess.run(
            ["nsenter", f"--target={self.init}", "--mount", "--pid", "--net", "--uts", "--ipc",
             "--root", "env", "-i", "--chdir=/mnt/source", "HOME=/root", "LC_ALL=C.UTF-8",
             "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
             *(f"{name}={value}" for name, value in self.variables.items()),
             "bash", "-euxc", script],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        if check:
            assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"[-6000:]
        return process.stdout


@contextmanager
def booted(release, folder, name="debian"):
    """Boot a machine of this release with Debian's PostgreSQL and nginx, and yield it.

    ``folder/share`` is mounted as /mnt; its scripts run in /mnt/source.
    """
    lower = root_of(release)
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/mnt/wheels"}
    root, share = folder / name, folder / "share"
    root.mkdir()
    share.joinpath("console").touch()
    group = cgroups() / f"test-{os.getpid()}-{name}"
    group.mkdir()
    process = subprocess.Popen(
        ["bash", "-c",
         f'echo $$ >{group}/cgroup.procs && exec "$@"', "bash",
         "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--cgroup", "--uts",
         "--ipc", "bash", "-c", BOOT],
        env={
            "PATH": os.environ["PATH"],
            "LOWER": str(lower), "ROOT": str(root), "SHARE": str(share),
        },
    )  # fmt: skip
    try:
        wait_until(lambda: children(process.pid), process)
        debian = Debian(children(process.pid)[0], share, variables)
        state = "systemctl is-active basic.target"
        wait_until(lambda: "active\n" in debian.run(state, check=False).splitlines(True), process)
        debian.release = release
        debian.run(f"echo {name} >/proc/sys/kernel/hostname; version={release.postgres}\n{START}")
        yield debian
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: remove(group))


def joined(first, second, *addresses):
    """Connect two machines with a cable, which ends with them, and give each its addresses.

    ``addresses`` has a list of addresses with their prefix for each of the two.
    """
    machines = list(zip((first, second), addresses, strict=True))
    device = f"to{second.init}", f"to{first.init}"
    subprocess.run(
        ["ip", "link", "add", device[0], "netns", str(first.init), "type", "veth",
         "peer", "name", device[1], "netns", str(second.init)],
        check=True, capture_output=True,
    )  # fmt: skip
    for name, (machine, own) in zip(device, machines, strict=True):
        added = "".join(f"ip address add {address} dev {name}\n" for address in own)
        machine.run(f"{added}ip link set {name} up")
    return device


def remove(group):
    """Remove a cgroup and its subgroups; return False if one of them still has a process."""
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True
