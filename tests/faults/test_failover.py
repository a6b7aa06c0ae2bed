"""A primary and its synchronous standby, both in DATABASE_URL."""

from threading import Event
from time import monotonic

import pytest
from faults.cluster import follow, insert_cast, pair_of_servers
from faults.load import WEB, Load, compare_events, compare_tasks, read
from support.processes import serving, wait_until
from support.receivers import WEBHOOK_SETTINGS

# Each pair of servers gets its own cast.
pytestmark = [pytest.mark.faults]

SETTINGS = {**WEBHOOK_SETTINGS, **WEB, "WEBHOOK_LEASE": "600"}


@pytest.fixture
def pair(receiver):
    with pair_of_servers() as servers:
        with servers[0].connect() as connection:
            insert_cast(connection, receiver.url)
        yield servers


def waiting_for_the_standby(connection):
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    return connection.execute(waiting).rowcount


def database_url(*servers):
    ports = ",".join(str(server.port) for server in servers)
    hosts = ",".join("127.0.0.1" for _ in servers)
    return (
        f"host={hosts} port={ports} user=postgres dbname=postgres target_session_attrs=read-write"
    )


def test_a_promoted_standby_has_every_acknowledged_write(pair, measure, rounds):
    primary, standby = pair
    failovers = rounds(2, 10)
    recoveries = []
    with serving(database_url(*pair), **SETTINGS) as server, Load(server.port) as load:
        for number in range(failovers):
            load.wait_for_replies(100)
            primary.kill()
            # The standby has copied the configuration of the primary, so it would wait for a
            # standby too. The statements below end that.
            standby.pg_ctl("promote")
            promoted = monotonic()
            with standby.connect() as connection:
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")
            recoveries.append(load.recovery(promoted))
            primary, standby = standby, primary
            if number < failovers - 1:
                follow(standby, primary)
        load.wait_for_replies(100)
    measure("responses other than 201 and 503", load.other_than(201, 503), exactly=0)
    with primary.connect() as connection:
        compare_tasks(measure, connection, load)
        compare_events(measure, connection)
    measure("first 201 after the promotion, longest", max(recoveries), at_most=1, unit="s")


def test_without_its_standby_the_primary_acknowledges_no_write_and_reads_succeed(
    pair, measure, rounds
):
    primary, standby = pair
    seconds = rounds(6, 45)
    with (
        serving(database_url(*pair), STATEMENT_TIMEOUT="2", **SETTINGS) as server,
        primary.connect() as connection,
    ):
        with Load(server.port) as load:
            load.wait_for_replies(50)
            standby.pg_ctl("stop", "-m", "immediate")
            away = monotonic()
            with Load(server.port, clients=1, request=read, pause=0.1) as readers:
                Event().wait(seconds)
            acknowledged = sum(
                reply.status == 201 for reply in load.replies if reply.started > away
            )
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            connection.execute("SELECT pg_reload_conf()")
            recovery = load.recovery(monotonic())
        wait_until(lambda: not waiting_for_the_standby(connection))
        compare_tasks(measure, connection, load)
    measure("writes acknowledged meanwhile", acknowledged, exactly=0)
    measure("writes other than 201 and 503", load.other_than(201, 503), exactly=0)
    measure("reads other than 200 and 503", readers.other_than(200, 503), exactly=0)
    measure("reads with status 200", len(readers.good()), at_least=1)
    measure("first 201 once it is not waited for", recovery, at_most=2, unit="s")
