"""Two hosts behind nginx and HAProxy, and PgBouncer in front of PostgreSQL."""

from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest
from faults.documents import addressed, configuration, pooling
from faults.load import WEB, Load, compare_events, compare_tasks, kill, read
from support import front
from support.processes import call, free_port, serving, wait_until
from support.receivers import WEBHOOK_SETTINGS
from support.rows import TOKENS

pytestmark = pytest.mark.faults

SETTINGS = {
    **WEBHOOK_SETTINGS,
    "WEB_CONCURRENCY": "1",
    "WEB_THREADS": "4",
    "TRUSTED_PROXIES": "1",
    "WEBHOOK_LEASE": "600",
}
CLIENTS = 6


@contextmanager
def behind_nginx(folder, ports):
    port = free_port()
    hosts = addressed(configuration("hosts.conf"), ports)
    site = front.service_site(folder, hosts, f"listen 127.0.0.1:{port};")
    with front.nginx(folder, site, port):
        yield port


@contextmanager
def behind_haproxy(folder, ports):
    with front.haproxy(folder, addressed(configuration("haproxy.cfg"), ports)) as port:
        yield port


PROXIES = [
    pytest.param(behind_nginx, id="nginx", marks=pytest.mark.needs("nginx")),
    pytest.param(behind_haproxy, id="HAProxy", marks=pytest.mark.needs("haproxy")),
]


@pytest.mark.parametrize("proxy", PROXIES)
def test_two_hosts_behave_like_one_host_and_either_of_them_may_be_killed(
    connection, database_url, receiver, subscribed, tmp_path, measure, rounds, proxy
):
    tmp_path.chmod(0o755)
    with ExitStack() as stack:

        def start(port):
            return stack.enter_context(serving(database_url, port=port, **SETTINGS))

        ports = [free_port(), free_port()]
        hosts = [start(port) for port in ports]
        port = stack.enter_context(proxy(tmp_path, ports))

        with Load(port, clients=CLIENTS, limit=200) as calm:
            calm.wait_for(lambda load: len(load.replies) >= 200)
        received = Counter(one.headers["webhook-id"] for one in receiver.take_all())
        measure("requests without a fault other than 201", calm.other_than(201), exactly=0)
        measure(
            "events that arrived twice without a fault", received.total() - len(received), exactly=0
        )

        kills = rounds(1, 6)
        with Load(port, clients=CLIENTS) as load:
            for number in range(kills):
                load.wait_for_replies(50)
                kill(hosts[number % 2])
                load.wait_for_replies(50)
                hosts[number % 2] = start(ports[number % 2])
            load.wait_for_replies(50)
        measure(
            "errors, at most those in flight at a kill",
            load.other_than(201),
            at_most=CLIENTS * kills,
        )
        compare_tasks(measure, connection, load)
        compare_events(measure, connection)

        connection.execute("UPDATE workspaces SET plan = 'Starter'")
        connection.execute("DELETE FROM usage")
        with Load(port, clients=8, request=read, limit=320) as limited:
            limited.wait_for(lambda load: len(load.replies) >= 320)
    left = {reply.headers["x-ratelimit-remaining"] for reply in limited.good()}
    measure("requests admitted of 320, at a limit of 60", len(limited.good()), exactly=60)
    measure("different values of X-RateLimit-Remaining in them", len(left), exactly=60)


@pytest.mark.parametrize("proxy", PROXIES)
def test_without_any_host_the_proxy_itself_responds_with_json(tmp_path, measure, proxy):
    tmp_path.chmod(0o755)
    with proxy(tmp_path, [free_port(), free_port()]) as port:
        wait_until(lambda: call(port, "GET", "/api/tasks", "none")[0] in (502, 503))
        replies = [call(port, "GET", "/api/tasks", TOKENS["alice"]) for _ in range(20)]
    errors = [status for status, body in replies if status == body["status"]]
    others = len(replies) - errors.count(502) - errors.count(503)
    measure("responses that are not 502 or 503 as JSON", others, exactly=0)


@pytest.mark.needs("pgbouncer")
def test_all_requests_succeed_through_pgbouncer_in_transaction_mode(
    postgres, connection, database_url, readable, measure, rounds
):
    text = pooling(database_url, readable, 4)
    requests = rounds(480, 4000)
    with front.pgbouncer(readable, text, postgres.account) as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/service"
        with (
            serving(url, DATABASE_PREPARE="off", **WEB) as server,
            Load(server.port, clients=4, limit=requests // 2) as writers,
            Load(server.port, clients=4, request=read, limit=requests // 2) as readers,
        ):
            for load in (writers, readers):
                load.wait_for(lambda load: len(load.replies) >= requests // 2)
    errors = writers.other_than(201) + readers.other_than(200)
    measure("responses other than 200 and 201", errors, exactly=0)
    compare_tasks(measure, connection, writers)
