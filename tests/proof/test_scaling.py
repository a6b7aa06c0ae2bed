"""The blocks of scaling.md, run on machines that a cable connects."""

import pytest
from support.debian import RELEASES, booted, joined, missing, supply
from support.processes import wait_until
from support.project import blocks, file_block

pytestmark = [
    pytest.mark.proof,
    pytest.mark.nodatabase,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

# In the block that installs the program.
PROGRAM = "install -q --require-hashes --only-binary"
HEALTHY = '{"status":"ok"}'
ANSWERS = "curl -sS -m 5 http://10.0.0.12:8000/healthz 2>&1 || true"
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
    second.run("systemctl stop task-service-web.socket task-service-web")
    second.run(
        "systemd-run -q --unit taken python3 -c 'import signal, socket;"
        ' taken = socket.create_server(("10.0.0.12", 8000)); signal.pause()\'\n'
        "until ss -Hltn | grep -q 10.0.0.12:8000; do sleep 0.1; done"
    )
    failed = second.run("systemctl start task-service-web 2>&1 || echo failed")
    assert failed.endswith("failed\n")
    assert second.run("ss -Hltn | awk '{print $4}'").split() == ["10.0.0.12:8000"]
    second.run("systemctl stop taken")
    wait_until(lambda: second.run(ANSWERS) == HEALTHY)
