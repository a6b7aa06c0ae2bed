"""status: which server is the primary, and which standbys a write waits for."""

import json
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import psycopg
import pytest
from faults.cluster import follow, pair_of_servers
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.commands import rows, sentences
from support.processes import get, serving, wait_until
from support.rows import grants

from service.commands.status.replication import each
from service.settings import Settings

# Two servers would add a tenth to the time of all other tests.
pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]


MISSING = (
    " is connected, so writes wait: if none connects within 30 s of a failover, start the standby"
    " or change the setting"
)


@pytest.fixture(scope="module")
def pair():
    with pair_of_servers() as servers:
        yield servers


@pytest.fixture
def status(pair, status_of):
    def status(*options, user="postgres", silent=()):
        ports = [str(server.port) for server in pair] + [*silent]
        hosts = ",".join(["127.0.0.1"] * len(ports))
        url = f"host={hosts} port={','.join(ports)} user={user} dbname=postgres"
        return status_of(f"{url} target_session_attrs=read-write", *options)

    return status


def problems(outcome):
    """Return the problems in the JSON, except that no web process and no worker live."""
    assert outcome.stderr == ""
    found = sentences(json.loads(outcome.stdout)["problems"])
    return [problem for problem in found if not problem.startswith("no w")]


def test_status_shows_the_primary_and_how_far_its_synchronous_standby_is_behind(pair, status):
    page = status().stdout
    primary, standby = (server.port for server in pair)
    for pattern in (
        rf"server        127\.0\.0\.1:{primary} primary",
        rf"server        127\.0\.0\.1:{standby} standby",
        r"standby       standby sync, \d+ bytes and \d+\.\d s behind",
        r"synchronous   standby: a write waits for 1",
    ):
        assert re.search(f"(?m)^{pattern}$", page), pattern
    assert problems(status("--json")) == []
    metrics = status("--metrics").stdout.splitlines()
    for line in ("servers_primary 1", "servers_standby 1", "servers_silent 0", "standbys 1",
                 "standbys_synchronous 1", "standbys_needed 1", "archive_fails 0"):  # fmt: skip
        assert f"task_service_{line}" in metrics


@pytest.mark.parametrize(
    ("names", "needed"),
    [("*", 1), ("FIRST 2 (standby, other)", 2), ("any 2 (standby, other)", 2), ("2 (*)", 2)],
)
def test_each_form_of_synchronous_standby_names_is_understood(pair, status, names, needed):
    pair[0].wait_for(names)
    try:
        outcome = status("--json")
        assert json.loads(outcome.stdout)["synchronous"]["needed"] == needed
        missing = f"synchronous_standby_names = '{names}' waits for 2 standby(s), and 1{MISSING}"
        assert problems(outcome) == ([missing] if needed == 2 else [])
    finally:
        pair[0].wait_for("standby")


def test_status_says_so_if_its_role_may_not_see_the_standbys(pair, status):
    with pair[0].connect() as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute(grants(connection.info.dbname, "plain"))
    outcome = status(user="plain")
    assert re.search(
        r"(?m)^standby       .*unknown; to see more, GRANT pg_read_all_stats TO the user",
        outcome.stdout,
    )
    assert problems(status("--json", user="plain")) == []
    metrics = status("--metrics", user="plain").stdout.splitlines()
    for line in ("standbys 1", "standby_behind_bytes 0", "standby_behind_seconds 0"):
        assert f"task_service_{line}" in metrics


def test_a_standby_whose_lag_postgresql_does_not_measure_is_shown(pair, status_of):
    """PostgreSQL forgets the lag of a standby after ten seconds without a write."""
    primary, _ = pair
    with primary.connect() as connection:
        connection.execute(
            "CREATE SCHEMA silent; CREATE VIEW silent.pg_stat_replication AS"
            " SELECT application_name, 'async' AS sync_state, 'streaming' AS state,"
            "        '0/1'::pg_lsn AS replay_lsn, NULL::interval AS replay_lag"
            "   FROM pg_catalog.pg_stat_replication"
        )
    url = make_conninfo(primary.url, options="-c search_path=silent,pg_catalog,public")
    page = status_of(url).stdout
    assert re.search(r"(?m)^standby       standby async, \d+ bytes and 0\.0 s behind$", page)
    metrics = status_of(url, "--metrics").stdout.splitlines()
    assert "task_service_standby_behind_seconds 0" in metrics


def test_a_stopped_standby_that_writes_wait_for_is_a_problem(pair, status):
    primary, standby = pair
    standby.pg_ctl("stop", "-m", "immediate")
    with primary.connect() as connection:
        wait_until(lambda: not rows(connection, "SELECT FROM pg_stat_replication"))
    try:
        silent, waits = problems(status("--json"))
    finally:
        standby.start()
        primary.wait_for("standby")
    assert silent.startswith(f"127.0.0.1:{standby.port} of DATABASE_URL does not answer: ")
    assert waits == f"synchronous_standby_names = 'standby' waits for 1 standby(s), and 0{MISSING}"


def test_status_shows_how_far_a_standby_that_does_not_replay_is_behind(pair, status, tmp_path):
    """pg_receivewal is connected too. It never replays, so its distance is unknown."""
    primary, standby = pair
    tmp_path.chmod(0o711)
    receive = [primary.binaries / "pg_receivewal", "--no-loop", "-D", tmp_path, "-d", primary.url]
    with (
        subprocess.Popen(receive, stderr=subprocess.DEVNULL) as receiver,
        standby.connect() as there,
        primary.connect() as connection,
    ):
        there.execute("SELECT pg_wal_replay_pause()")
        try:
            # The standby reports its position after each write.
            behind = """
                SELECT FROM pg_stat_replication HAVING count(*) = 2
                   AND max(replay_lag) > interval '60 ms'
            """
            write = "CREATE TABLE behind (); DROP TABLE behind"
            wait_until(lambda: connection.execute(write) and rows(connection, behind))
            page, metrics = status().stdout, status("--metrics").stdout
        finally:
            there.execute("SELECT pg_wal_replay_resume()")
            receiver.terminate()
    assert re.search(r"(?m)^standby       standby sync, [1-9]\d* bytes and (?!0\.0)\d+\.\d s", page)
    assert re.search(r"(?m)^task_service_standby_behind_bytes [1-9]\d*$", metrics)
    assert re.search(r"(?m)^task_service_standby_behind_seconds \d+\.\d+$", metrics)


def test_without_a_primary_status_shows_what_each_server_says_and_what_to_do(pair, status):
    """Once the primary is back, an idle web process is counted again without a request."""
    primary, standby = pair

    def is_counted():
        return "task_service_web_processes 1" in status("--metrics").stdout.splitlines()

    with serving(primary.url, WEB_CONCURRENCY="1"):
        wait_until(is_counted)
        primary.pg_ctl("stop", "-m", "immediate")
        try:
            page = status().stdout
            metrics = status("--metrics").stdout.splitlines()
        finally:
            primary.start()
        wait_until(is_counted)
    primary.wait_for("standby")
    *servers, problem = page.splitlines()
    assert servers == [
        f"server        127.0.0.1:{primary.port} silent",
        f"server        127.0.0.1:{standby.port} standby",
    ]
    for text in (
        f"port {primary.port} failed: Connection refused; ",
        f"port: '{standby.port}', ",
        "session is read-only: no server of DATABASE_URL takes writes, status shows each: Patroni"
        " promotes a standby within 25 s; after that, timeout 20 patronictl",
    ):
        assert text in problem, problem
    assert {"task_service_up 0", "task_service_servers_standby 1"} <= {*metrics}


def test_if_a_proxy_closes_each_connection_status_says_that_a_primary_may_be_missing(status_of):
    with socket.create_server(("127.0.0.1", 0)) as proxy, ThreadPoolExecutor(1) as threads:
        port = proxy.getsockname()[1]

        def end_all():
            with suppress(OSError):
                while True:
                    proxy.accept()[0].close()

        threads.submit(end_all)
        page = status_of(f"postgresql://127.0.0.1:{port}/service").stdout
        proxy.shutdown(socket.SHUT_RDWR)
    assert "through HAProxy no server is the primary: Patroni promotes a standby" in page


def test_if_all_connections_are_used_up_status_says_who_can_still_connect(pair, status_of):
    primary, _ = pair
    url = make_conninfo(primary.url, user="full")
    with primary.connect() as connection, ExitStack() as stack:
        connection.execute("CREATE ROLE full LOGIN; GRANT CONNECT ON DATABASE postgres TO full")
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(psycopg.connect(url))
        page = status_of(url).stdout
    assert "a superuser still gets in, and sees who holds" in page


@pytest.mark.parametrize(
    "named",
    [
        "SYSTEM",
        "DATABASE postgres",
        "ROLE ALL",
        "ROLE postgres",
        "ROLE postgres IN DATABASE postgres",
    ],
)
def test_the_remedy_of_status_makes_a_server_writable_whichever_way_made_it_read_only(
    pair, status, status_of, named
):
    """It also works for the open sessions of a service, and in psql, whose session is read-only."""
    primary, _ = pair
    with serving(primary.url, WEB_CONCURRENCY="1") as service, primary.connect() as connection:

        def health():
            return get(service.port, "/healthz").status

        wait_until(lambda: health() == 200)
        connection.execute(f"ALTER {named} SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND application_name LIKE 'task-service%'"
        )
        wait_until(lambda: health() == 503)
        server = next(line for line in status().stdout.splitlines() if " primary, " in line)
        problem = status_of(primary.url, "--json")
        remedy = server.partition("in psql: ")[2]
        assert any(text.endswith(remedy) for text in problems(problem))
        psql = [primary.binaries / "psql", "-v", "ON_ERROR_STOP=1", primary.url]
        subprocess.run(psql, input=remedy, text=True, check=True, capture_output=True)
        wait_until(lambda: health() == 200)
        assert "read-only" not in status().stdout


def test_status_of_a_standby_shows_that_it_waits_for_no_standby(pair, status_of):
    outcome = status_of(pair[1].url, "--json")
    document = json.loads(outcome.stdout)
    assert document["synchronous"] == {"names": "standby", "needed": 0}
    assert [server["role"] for server in document["servers"]] == ["standby"]
    assert problems(outcome) == [
        "every request is 503, as this is a standby: let DATABASE_URL name the primary, or all"
        " servers with target_session_attrs=read-write, and restart web and worker"
    ]


def test_two_servers_that_accept_writes_are_a_problem(pair, status):
    primary, standby = pair
    standby.pg_ctl("promote")
    try:
        found = problems(status("--json", silent=["1"]))
    finally:
        standby.pg_ctl("stop", "-m", "immediate")
        follow(standby, primary)
    assert found[0] == (
        f"127.0.0.1:{primary.port} and 127.0.0.1:{standby.port} both accept writes:"
        " immediately stop the server that should not be the primary"
    )
    assert found[1].startswith("127.0.0.1:1 of DATABASE_URL does not answer: ")


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("dbname=x", {"localhost:5432": (None, None)}),
        ("postgresql://a,b:5433/x", {"a:5432": ("a", None), "b:5433": ("b", "5433")}),
        ("host=a,b port=5433", {"a:5433": ("a", "5433"), "b:5433": ("b", "5433")}),
        ("host=a,b port=1,2", {"a:1": ("a", "1"), "b:2": ("b", "2")}),
        ("hostaddr=127.0.0.1 port=1,2", {"127.0.0.1:1": (None, "1"), "127.0.0.1:2": (None, "2")}),
    ],
)
def test_status_asks_each_server_of_the_url_separately(url, servers):
    found = []
    for name, settings in each(Settings.read({"DATABASE_URL": url})):
        parts = conninfo_to_dict(settings.database_url)
        assert parts["target_session_attrs"] == "any"
        found.append((name, (parts.get("host"), parts.get("port") or None)))
    assert found == [*servers.items()]
