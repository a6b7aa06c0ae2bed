"""A Debian 12 of its own: systemd in namespaces, on a copy-on-write view of this machine.

Nothing that runs in it changes a file of this machine, listens on its ports or reaches the network.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from support.processes import children, wait_until

# Runs in the new namespaces. The folder $SHARE is /mnt in there.
BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=3g none "$ROOT"
mkdir "$ROOT"/changes "$ROOT"/work "$ROOT"/root
mount -t overlay -o "lowerdir=/,upperdir=$ROOT/changes,workdir=$ROOT/work" none "$ROOT/root"
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
# Only services that a test starts.
rm -rf /etc/systemd/system/*.wants
export container=other
exec /lib/systemd/systemd --unit=basic.target --log-target=console
"""


def missing():
    """Return why this machine cannot run one, or None."""
    release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if "VERSION_CODENAME=bookworm" not in release:
        return "this machine is no Debian 12"
    if os.geteuid() != 0:
        return "only root can make namespaces"
    systemd = "/lib/systemd/systemd"
    commands = systemd, "unshare", "nsenter", "ip", "pg_createcluster", "pgbackrest", "nginx"
    absent = [name for name in commands if not shutil.which(name)]
    if absent:
        return f"{absent[0]} is not installed"
    if cgroups() is None:
        return "there is no cgroup2 that can be written"
    return None


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
        """Run a script by bash, which ends at the first error; returns its output."""
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
def booted(folder, **variables):
    """Yield a booted machine; ``folder/share`` is its /mnt, its scripts have these variables."""
    root, share = folder / "root", folder / "share"
    root.mkdir()
    share.joinpath("console").touch()
    group = cgroups() / f"test-{os.getpid()}"
    group.mkdir()
    process = subprocess.Popen(
        ["bash", "-c",
         f'echo $$ >{group}/cgroup.procs && exec "$@"', "bash",
         "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--cgroup", "--uts",
         "--ipc", "bash", "-c", BOOT],
        env={"PATH": os.environ["PATH"], "ROOT": str(root), "SHARE": str(share)},
    )  # fmt: skip
    try:
        wait_until(lambda: children(process.pid), process)
        debian = Debian(children(process.pid)[0], share, variables)
        state = "systemctl is-active basic.target"
        wait_until(lambda: "active\n" in debian.run(state, check=False).splitlines(True), process)
        yield debian
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: remove(group))


def remove(group):
    """Remove a cgroup and its subgroups; return False while one has a process."""
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True
