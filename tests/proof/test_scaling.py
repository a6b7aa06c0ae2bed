"""The blocks of scaling.md, run on machines that a cable connects."""

import json
import re

import pytest
from support.debian import RELEASES, booted, joined, missing, supply
from support.processes import wait_until
from support.project import PROJECT, blocks, file_block

pytestmark = [
    pytest.mark.proof,
    pytest.mark.nodatabase,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

# In the block that installs the program.
PROGRAM = "install -q --require-hashes --only-binary"
HEALTHY = '{"status":"ok"}'
ANSWERS = "curl -sS -m 5 http://10.0.0.12:8000/healthz 2>&1 || true"
INSTALL = "sh /opt/task-service/current/lib/python3.*/site-packages/service/deploy/install"
DOOR = "https://umbrella.example.com"
# Four clients create tasks and change them through nginx, until the file `enough` exists. A client
# repeats what was refused, and takes the new token once the other installation asks for one. The
# output has the title of each task after its last acknowledged change, and all responses.
CLIENTS = """
import collections, json, pathlib, ssl, threading, time, urllib.error, urllib.request
enough, new = pathlib.Path("/tmp/enough"), pathlib.Path("/mnt/new-token")
titles, unknown, responses = {}, [], collections.Counter()
tls = ssl.create_default_context(cafile="/etc/nginx/service.crt")
end = time.monotonic() + 300

def send(token, method, path, body=None):
    request = urllib.request.Request(
        "https://umbrella.example.com/api" + path, body and json.dumps(body).encode(),
        {"Authorization": "Bearer " + token[0], "Content-Type": "application/json"}, method=method)
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=30, context=tls) as response:
                responses[method, response.status, ""] += 1
                return json.load(response)
        except urllib.error.HTTPError as error:
            message = json.load(error)["message"]
            responses[method, error.code, message] += 1
            if error.code == 401:
                # Requests without a valid credential count per address, up to 60 in a minute.
                while not new.exists() and time.monotonic() < end:
                    time.sleep(0.05)
                request.add_header("Authorization", "Bearer " + new.read_text().strip())
                token[0] = new.read_text().strip()
            time.sleep(0.05)
    raise TimeoutError(path)

def work(number):
    token = [pathlib.Path("/mnt/token").read_text().strip()]
    count = 0
    while not enough.exists() and time.monotonic() < end:
        count += 1
        title = f"{number} {count}"
        try:
            task = send(token, "POST", "/tasks", {"title": title})
            titles[task["id"]] = title
            send(token, "GET", "/tasks/" + task["id"])
            send(token, "PATCH", "/tasks/" + task["id"], {"title": title + " changed"})
            titles[task["id"]] = title + " changed"
        except Exception as error:
            unknown.append(repr(error))

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([titles, unknown, [[*key, count] for key, count in responses.items()]]))
"""
METRICS = "cat /var/lib/prometheus/node-exporter/task-service.prom"


def block(page, text):
    """Return the only block of a page that contains this text."""
    (found,) = [block for block in blocks(f"docs/operations/{page}.md") if text in block]
    return found


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: f"debian_{release.number}")
def built(request, tmp_path_factory):
    """Return a release of Debian, and a folder in which the wheel is built."""
    folder = tmp_path_factory.mktemp("debian")
    supply(request.param, folder)
    return request.param, folder


@pytest.fixture(scope="module")
def first(built):
    """Deploy the service on one machine, with nginx and PostgreSQL."""
    release, folder = built
    with booted(release, folder, "first") as first:
        for text in ("-m build ", PROGRAM, "install --first", "--name laptop"):
            first.run(block("deployment", text))
        yield first


@pytest.fixture(scope="module")
def second(built, first):
    """Add a second web host, as the page says."""
    release, folder = built
    with booted(release, folder, "second") as second:
        second.cable, _ = joined(second, first, ["10.0.0.12/24"], ["10.0.0.11/24", "10.0.0.21/24"])
        second.run("systemctl disable --now nginx postgresql; mv /etc/nginx /etc/nginx.unused")
        first.run(block("scaling", "set listen_addresses"))
        second.run(block("deployment", PROGRAM))
        first.run("cp /etc/task-service/env /mnt/env")
        second.run("install -D -m 640 /mnt/env /etc/task-service/env")
        second.output = second.run(block("scaling", "ListenStream=10.0.0.12:8000"))
        hosts = file_block("docs/operations/scaling.md", "hosts.conf")
        first.share.joinpath("hosts.conf").write_text(hosts.replace("10.0.0.11", "127.0.0.1"))
        first.run("cp /mnt/hosts.conf /etc/nginx/task-service/hosts.conf")
        first.run(block("scaling", "nginx -t &&\nsystemctl reload"))
        yield second


def test_a_second_host_serves_beside_the_first(first, second):
    assert first.run(ANSWERS) == HEALTHY
    assert "PROBLEM" not in second.run("task-service status")
    token = first.run("task-service token create rosa@example.com").strip()
    asked = (
        "for number in $(seq 20); do curl -sS -o /dev/null -w '%{http_code}\\n'"
        f" -H 'Authorization: Bearer {token}' --cacert /etc/nginx/service.crt"
        " --resolve api.example.com:443:127.0.0.1 https://api.example.com/api/tasks; done"
    )
    assert first.run(asked) == "200\n" * 20
    for machine in first, second:
        assert "GET" in machine.run("journalctl --sync; journalctl -o cat -u task-service-web")


def test_the_metrics_of_a_second_host_ask_the_address_on_which_it_listens(second):
    second.run("task-service-metrics")
    assert "task_service_healthz_status 200" in second.run(METRICS).splitlines()


def test_an_upgrade_of_two_hosts_ends_with_the_new_release_on_both(first, second):
    """The second host runs the block without the lines that the page names."""
    page = (PROJECT / "docs/operations/running.md").read_text()
    (named,) = re.findall(r"run\nthe block there without (.*), with the host's address", page)
    upgrade = block("running", "before-$new.dump")
    (new,) = re.findall(r"^new=(\S+)$", upgrade, re.MULTILINE)
    first.run(
        f"sed -i 's/^version = .*/version = {new}/' setup.cfg\n"
        "build-venv/bin/python -m build --wheel --outdir dist"
    )
    first.run(upgrade)
    left_out = re.findall("`(.*?)`", named)
    lines = [line for line in upgrade.splitlines() if not any(word in line for word in left_out)]
    second.run("\n".join(lines).replace("127.0.0.1", "10.0.0.12"))
    for machine in first, second:
        for unit in "web", "worker":
            pid = f"$(systemctl show -P MainPID task-service-{unit})"
            assert f"/opt/task-service/{new}/" in machine.run(f"tr '\\0' ' ' </proc/{pid}/cmdline")


def test_hosts_whose_addresses_come_late_serve_once_the_addresses_are_there(first, second):
    """As after a boot: the units start while the network has no address yet."""
    version = first.release.postgres
    first_cable = first.run("ip -o -4 address show to 10.0.0.21 | awk '{print $2}'").strip()
    first.run(
        f"systemctl stop postgresql@{version}-main; ip address flush dev {first_cable}\n"
        "sysctl -q net.ipv4.ip_nonlocal_bind=0; systemctl restart systemd-sysctl\n"
        f"systemctl start postgresql@{version}-main"
    )
    second.run(
        "systemctl stop task-service-web.socket task-service-web\n"
        f"ip address flush dev {second.cable}\n"
        "systemctl start task-service-web.socket; systemctl start --no-block task-service-web"
    )
    assert second.run("ss -Hltn | awk '{print $4}'").split() == ["10.0.0.12:8000"]
    first.run(f"ip address add 10.0.0.11/24 dev {first_cable}")
    first.run(f"ip address add 10.0.0.21/24 dev {first_cable}")
    second.run(f"ip address add 10.0.0.12/24 dev {second.cable}")
    wait_until(lambda: first.run(ANSWERS) == HEALTHY)


def test_without_its_socket_the_service_listens_nowhere_and_starts_once_the_socket_can(second):
    """Another program has the port."""
    second.run(
        f"ip address replace 10.0.0.12/24 dev {second.cable}\n"
        "systemctl stop task-service-web.socket task-service-web\n"
        "systemd-run -q --unit taken python3 -c 'import signal, socket;"
        ' taken = socket.create_server(("10.0.0.12", 8000)); signal.pause()\'\n'
        "timeout 20 sh -c 'until ss -Hltn | grep -q 10.0.0.12:8000; do sleep 0.1; done'"
    )
    failed = second.run("systemctl start task-service-web 2>&1 || echo failed")
    assert failed.endswith("failed\n")
    assert second.run("ss -Hltn | awk '{print $4}'").split() == ["10.0.0.12:8000"]
    second.run("systemctl stop taken")
    wait_until(lambda: second.run(ANSWERS) == HEALTHY)


@pytest.fixture(scope="module")
def other(built, first):
    """Deploy a second installation, which nginx of the first can reach."""
    release, folder = built
    with booted(release, folder, "other") as other:
        joined(other, first, ["10.1.0.11/24"], ["10.1.0.1/24"])
        other.run(block("deployment", PROGRAM) + block("deployment", "install --first"))
        other.run("systemctl stop task-service-web.socket task-service-web task-service-worker")
        for text in "set listen_addresses", "ListenStream=10.0.0.12:8000":
            script = block("scaling", text).replace("10.0.0.0/24", "10.1.0.0/24")
            other.run(script.replace("10.0.0.21", "10.1.0.11").replace("10.0.0.12", "10.1.0.11"))
        first.run("grep WEBHOOK_KEY /etc/task-service/env >/mnt/key")
        other.run(
            "cp /etc/task-service/env /mnt/env\n"
            "grep -v WEBHOOK_KEY /mnt/env >/etc/task-service/env\n"
            "cat /mnt/key >>/etc/task-service/env; cp /etc/task-service/env /mnt/env\n"
            "systemctl restart task-service-web task-service-worker"
        )
        first.run(
            "install -m 640 -g task-service /mnt/env /etc/task-service/second\n"
            "echo '127.0.0.1 api.example.com umbrella.example.com' >>/etc/hosts\n"
            "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=api.example.com"
            " -addext subjectAltName=DNS:api.example.com,DNS:umbrella.example.com"
            " -keyout /etc/nginx/service.key -out /etc/nginx/service.crt"
        )
        first.run(block("scaling", "upstream second"))
        yield other


TITLES = (
    'runuser -u postgres -- psql -XAtqd service -c "SELECT json_object_agg(id, title) FROM tasks'
    " WHERE title NOT LIKE 'old %'\""
)


def test_a_workspace_moves_to_another_installation_under_load_and_nothing_is_lost(first, other):
    lines = [
        {"type": "task", "workspace": "umbrella", "title": f"old {number}"}
        for number in range(5_000)
    ]
    first.share.joinpath("old").write_text("\n".join(map(json.dumps, lines)))
    first.share.joinpath("clients.py").write_text(CLIENTS)
    for machine in first, other:
        machine.run("task-service plan set Pro --per-minute 1000000 --per-day 1000000")
    first.run(
        "task-service load - </mnt/old\n"
        "task-service token create rosa@example.com --workspace umbrella >/mnt/token\n"
        "rm -f /tmp/enough /mnt/new-token /tmp/seen\n"
        "systemd-run -q --unit clients -p StandardOutput=file:/tmp/seen python3 /mnt/clients.py"
    )
    count = "SELECT count(*) FROM tasks WHERE title LIKE '% changed'"
    changed = f'runuser -u postgres -- psql -XAtqd service -c "{count}"'
    wait_until(lambda: int(first.run(changed)) > 50)
    printed = first.run(block("scaling", "workspace freeze"))
    (token,) = [line for line in printed.splitlines() if line.startswith("tmw_api_")]
    first.share.joinpath("new-token").write_text(token)
    moved = int(first.run(changed))
    wait_until(lambda: int(other.run(changed)) > moved + 50)
    first.run("touch /tmp/enough")
    wait_until(lambda: first.run("cat /tmp/seen"))
    titles, unknown, responses = json.loads(first.run("cat /tmp/seen"))
    assert unknown == []
    assert json.loads(other.run(TITLES)) == titles
    expected = {
        200: "", 201: "", 503: f"is being moved to {DOOR},", 404: f"has moved to {DOOR};",
        401: "Unauthorized",
    }  # fmt: skip
    for method, status, message, _ in responses:
        assert expected[status] in message, (method, status, message)
    refused = {(method, status) for method, status, *_ in responses}
    assert refused >= {("POST", 503), ("PATCH", 503)}
    assert ("GET", 503) not in refused


def answer(first, name, token, *options):
    sent = " ".join(f"'{option}'" for option in options)
    return first.run(
        f"curl -sS -w '%{{http_code}}' --cacert /etc/nginx/service.crt {sent}"
        f" -H 'Authorization: Bearer {token}' https://{name}.example.com/api/tasks?limit=1"
    )


def test_after_the_move_and_an_upgrade_each_installation_says_what_is_true(first, other):
    """``install`` of the next release replaces the file of nginx."""
    old, new = (first.run(f"cat /mnt/{name}").strip() for name in ("token", "new-token"))
    first.run(f"echo '# older' >>/etc/nginx/conf.d/task-service.conf; {INSTALL}")
    wait_until(lambda: answer(first, "umbrella", new).endswith("200"))
    for options in [], ["-d", '{"title": "x"}', "-H", "Content-Type: application/json"]:
        refused = answer(first, "api", old, *options)
        assert f"The workspace has moved to {DOOR};" in refused
        assert refused.endswith("404")
    assert answer(first, "umbrella", new).endswith("200")
    first.run("task-service workspace delete --yes umbrella")
