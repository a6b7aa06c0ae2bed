"""Virtual machines made of namespaces, with network cables that a test can pull."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from support.processes import children, is_running, wait_until

# The first process of a machine. When it ends, all processes of the machine end. It also reaps
# processes whose parents were killed.
INIT = "ip link set lo up; echo ready; read"

# CLONE_NEWNET; os.setns came with Python 3.12.
NEW_NETWORK = 0x40000000


def missing():
    """Return why no virtual machine can be made here, or None."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    for name in ("unshare", "nsenter", "ip", "setpriv"):
        if not shutil.which(name):
            return f"{name} is missing"
    made = subprocess.run(["unshare", "--net", "ip", "link", "add", "name", "one", "type", "veth",
                           "peer", "name", "two"], capture_output=True)  # fmt: skip
    return None if made.returncode == 0 else "the kernel has no virtual network"


class Machine:
    """A machine with its own processes, network and mounts.

    ``folders`` says which folders of this machine are mounted over which paths.
    """

    def __init__(self, **folders):
        binds = "".join(f"mount --bind {old} {new}\n" for new, old in folders.items())
        # If this test is killed, the pipe closes, so INIT ends.
        self._shell = subprocess.Popen(
            ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-ec",
             binds + INIT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._shell.stdout.readline() == b"ready\n"
        (self.pid,) = children(self._shell.pid)

    def command(self, *words, user=None):
        inside = ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount"]
        if user:
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*inside, *map(str, words)]

    def run(self, *words, user=None, check=True):
        ran = subprocess.run(
            self.command(*words, user=user), capture_output=True, text=True, timeout=120, cwd="/"
        )
        assert not check or ran.returncode == 0, f"{words}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def outside(self, number):
        """Return the id that a process of the machine has on this machine, or None if it ended."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                (numbers,) = re.findall(r"(?m)^NSpid:(.*)$", (folder / "status").read_text())
                same = os.readlink(folder / "ns/pid") == own
                if same and numbers.split()[-1] == str(number):
                    return int(folder.name)
        return None

    def close(self):
        self._shell.kill()
        self._shell.wait()
        self._shell.stdin.close()
        self._shell.stdout.close()
        wait_until(lambda: not is_running(self.pid))


class Network:
    """A switch to which machines, and this one, are connected."""

    def __init__(self, number):
        self.prefix = f"198.18.{number}."
        self.switch = Machine()
        self.switch.run("ip", "link", "add", "name", "switch", "type", "bridge")
        self.switch.run("ip", "link", "set", "switch", "up")
        here = f"faults{number}"
        self._plug("here", os.getpid(), here)
        subprocess.run(["ip", "address", "add", f"{self.prefix}1/24", "dev", here], check=True)
        subprocess.run(["ip", "link", "set", here, "up"], check=True)

    def _plug(self, port, pid, interface):
        # The process ids are those of this machine, so do not enter the process namespace.
        subprocess.run(
            ["nsenter", f"--target={self.switch.pid}", "--net", "ip", "link", "add", "name", port,
             "type", "veth", "peer", "name", interface, "netns", str(pid)],
            check=True,
        )  # fmt: skip
        self.switch.run("ip", "link", "set", port, "master", "switch", "up")

    def connect(self, machine, last):
        """Connect the machine to the switch with the address that ends in this number."""
        self._plug(f"port{last}", machine.pid, "eth0")
        machine.run("ip", "address", "add", f"{self.prefix}{last}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")

    def cut(self, last):
        """Pull the cable of a machine: its packets are lost, and nobody gets an error."""
        self.switch.run("ip", "link", "set", f"port{last}", "down")

    def mend(self, last):
        self.switch.run("ip", "link", "set", f"port{last}", "up")

    def close(self):
        self.switch.close()


@contextmanager
def inside(machine):
    """Yield a function that calls another function in the machine's network.

    Threads and processes that such a call starts are in that network too.
    """

    def enter():
        with open(f"/proc/{machine.pid}/ns/net") as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), NEW_NETWORK) == 0

    with ThreadPoolExecutor(1, initializer=enter) as thread:
        yield lambda function, *values: thread.submit(function, *values).result()


class Unit:
    """A service that is restarted after a failure, as systemd does it."""

    def __init__(self, machine, *words, user, log, variables=()):
        settings = ["env", *variables] if variables else []
        loop = 'until "$@"; do sleep 0.1; done'
        with log.open("ab") as output:
            self._shell = subprocess.Popen(
                machine.command("bash", "-c", loop, "bash", *settings, *words, user=user),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
            )  # fmt: skip

    def kill(self):
        """Kill the service with SIGKILL; it is not restarted."""
        (shell,) = children(self._shell.pid)
        services = children(shell)
        os.kill(shell, signal.SIGKILL)
        self._shell.wait()
        for pid in services:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, services)))

    def close(self):
        """Reap the process, which has ended with its machine."""
        self._shell.wait()
