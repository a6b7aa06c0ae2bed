"""The fixtures of the tests: the service on a real PostgreSQL, and the cast.

The cast are three users. Alice owns the workspace Acme, and Bob is a member of Acme. Charlie owns
the workspace Globex, and must see nothing of Acme. Every test starts with these users, who have one
token each, and without any other rows.
"""

import logging
import shutil
import socket
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from support.database import end_connections
from support.http import Client
from support.openapi_check import LOGIN_KEY
from support.project import PROJECT
from support.proxy import Proxy
from support.receivers import KEY, Receiver, environment
from support.resources import TABLES
from support.rows import SESSION, TOKENS, grants, insert, insert_member, insert_token, restore_cast
from support.statements import copied_database, new_database, until_waiting
from support.world import World
from werkzeug.routing import Rule

from service import logs
from service.app import create_app
from service.settings import Settings

COMPILED = {}


def compile_once(rule, append_unknown, compile=Rule._compile_builder):
    """Compile the function with which a route builds URLs, which is the same for all services.

    Without this, a service of a test spends nearly all the time of its creation on this function.
    """
    key = rule.rule, append_unknown
    if key not in COMPILED:
        COMPILED[key] = compile(rule, append_unknown)
    return COMPILED[key]


Rule._compile_builder = compile_once


@contextmanager
def granting(database_url):
    """Create a role that owns nothing and has the rights from docs/operations/running.md.

    Yields the name of the role, and the URL with which it connects.
    """
    role, name = f"plain_{uuid.uuid4().hex[:12]}", conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
        try:
            connection.execute(grants(name, role))
            yield role, make_conninfo(database_url, user=role, password=role)
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def granted():
    return granting


@pytest.fixture(scope="session")
def plain_url(database_url):
    """Yield the URL of a role that owns nothing, with the rights from running.md."""
    with granting(database_url) as (role, url), psycopg.connect(database_url) as connection:
        # The command status also needs this right, which another section of the page mentions.
        connection.execute(f"GRANT pg_read_all_stats TO {role}")
        connection.commit()
        yield url


@pytest.fixture
def own_url(database_url):
    """Yield the URL of a role that only this test uses, and whose connections it may end."""
    with granting(database_url) as (_, url):
        yield url


@pytest.fixture(scope="session")
def settings(plain_url):
    return Settings.read({"DATABASE_URL": plain_url, "LOGIN_KEY": LOGIN_KEY})


def starter():
    """Yield a function that creates a service; close all pools afterwards."""
    apps = []

    def start(settings):
        apps.append(create_app(settings))
        return apps[-1]

    yield start
    for app in apps:
        app.extensions["pool"].close()


start = pytest.fixture(starter, name="start")
# For services that tests share.
start_shared = pytest.fixture(starter, scope="session", name="start_shared")


@pytest.fixture(scope="session")
def app(settings, start_shared):
    return start_shared(settings)


@pytest.fixture
def empty(database_url):
    """Yield the URL of a new database without migrations."""
    with new_database(database_url) as url:
        yield url


@pytest.fixture
def other(template):
    """Yield the URL of a migrated database that a test may break."""
    with copied_database(template) as url:
        yield url


@pytest.fixture
def build(settings, start):
    """Return a function that creates a service with changed settings."""
    return lambda **changes: start(replace(settings, **changes))


@pytest.fixture(scope="session")
def webhooks_app(plain_url, start_shared):
    return start_shared(Settings.read(environment(plain_url)))


@pytest.fixture(scope="session")
def silent_app(settings, start_shared):
    """Return a service that can create webhooks and leaves all events to a worker."""
    app = start_shared(replace(settings, webhook_key=KEY))
    app.extensions["outbound_slots"].posts = False
    return app


@pytest.fixture(scope="session")
def connection(database_url):
    """Yield a connection with which tests read and write rows without the service."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def proxy(database_url):
    with closing(Proxy(database_url)) as proxy:
        yield proxy


@pytest.fixture(params=["refuses", "is silent"])
def away(request):
    """Yield the URL of a server that refuses connections, or that accepts and never answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            bound.listen()
        yield f"postgresql://127.0.0.1:{bound.getsockname()[1]}/nothing?sslmode=disable"


@pytest.fixture
def readable():
    """Yield a folder that other users can read, for programs that do not run as root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(autouse=True)
def cast(request):
    """Delete all rows and insert the cast; return the ids of users and workspaces by name."""
    if "nodatabase" in request.keywords:
        return None
    return restore_cast(request.getfixturevalue("connection"))


@pytest.fixture(autouse=True)
def cut_pools(request):
    """With --cut-pools, end all connections of the shared services before the test.

    A test that ends the connections of its own service must not make others fail, so a test that
    uses a shared service must bear this.
    """
    if request.config.option.cut_pools:
        plain_url = request.getfixturevalue("plain_url")
        end_connections(request.getfixturevalue("connection"), plain_url)


@pytest.fixture
def initech(connection, cast):
    """Return Alice's second workspace, which is not active."""
    id = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, id, cast["alice"], "owner")
    return id


@pytest.fixture
def insert_into(connection, cast):
    """Return a function that inserts a row without the service and returns the row's id.

    It fills in required columns.
    """

    def insert_into(table, workspace="acme", user="alice", **values):
        known = {"user": cast[user]}
        return TABLES[table].insert(connection, cast.get(workspace, workspace), known, **values)

    return insert_into


@pytest.fixture
def unlimited(connection, cast):
    """Put the workspaces of the cast on a plan that no test can use up."""
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Unlimited', 1000000)")
    connection.execute("UPDATE workspaces SET plan = 'Unlimited'")


@pytest.fixture
def alice(app):
    return Client(app, TOKENS["alice"])


@pytest.fixture
def bob(app):
    return Client(app, TOKENS["bob"])


@pytest.fixture
def charlie(app):
    return Client(app, TOKENS["charlie"])


@pytest.fixture
def browser(app, cast, connection):
    """Return Alice's browser: a client with a session cookie and no header."""
    insert_token(connection, cast["alice"], SESSION, kind="session")
    return Client(app, cookie=SESSION)


@pytest.fixture
def join(app, cast, connection):
    """Return a function that adds a member to Acme and returns the client of that member."""

    def join(name, role):
        id = insert(connection, "users", email=f"{name}@example.com", name=name.capitalize())
        insert_member(connection, cast["acme"], id, role)
        insert_token(connection, id, f"tmw_api_{name}")
        cast[name] = id
        return Client(app, f"tmw_api_{name}")

    return join


@pytest.fixture
def adam(join):
    return join("adam", "admin")


@pytest.fixture
def lines(app):
    """Yield a function that returns the lines which the service has logged during the test."""
    # Another test may have ended connections of the pool. The pool would log their loss now.
    app.extensions["pool"].drain()
    handler = logs.configure("json")
    stream = StringIO()
    previous = handler.setStream(stream)
    yield lambda: stream.getvalue().split("\n")[:-1]
    handler.setStream(previous)


@pytest.fixture
def stranger(app):
    return Client(app)


@pytest.fixture
def together(connection, database_url):
    """Return a function that runs several calls, which change the same row, at the same time.

    A lock of the row holds each call up. Once all calls wait for the lock, it is released.
    """

    def run(table, id, *calls, column="id"):
        with psycopg.connect(database_url) as holder, ThreadPoolExecutor(len(calls)) as threads:
            holder.execute(f"SELECT FROM {table} WHERE {column} = %s FOR UPDATE", (id,))
            started = []
            try:
                for call in calls:
                    started.append(threads.submit(call))
                    until_waiting(connection, started[-1], len(started))
            finally:
                holder.rollback()
            return [call.result() for call in started]

    return run


@pytest.fixture
def receiver():
    with closing(Receiver()) as receiver:
        yield receiver


other_receiver = receiver


@pytest.fixture
def with_webhooks(plain_url, start):
    """Return a function that creates a service which posts webhooks, with changed variables."""
    return lambda **changes: start(Settings.read(environment(plain_url, **changes)))


@pytest.fixture
def ada(webhooks_app):
    return Client(webhooks_app, TOKENS["alice"])


@pytest.fixture
def copied(tmp_path):
    """Return a folder with a copy of the service's code, which a test may change.

    The compiled modules are copied as well. Python compiles a module again if the test changes it.
    """
    for name in ("service", "sql"):
        # Another process may be writing a *.pyc.NUMBER, which it then renames.
        ignored = shutil.ignore_patterns("*.pyc.*")
        shutil.copytree(PROJECT / name, tmp_path / name, symlinks=True, ignore=ignored)
    for name in ("app.py", "gunicorn.conf.py", "task_service_command.py"):
        shutil.copy(PROJECT / name, tmp_path)
    return tmp_path


@pytest.fixture
def logged(caplog):
    """Yield a function that returns what the service has logged.

    It omits other loggers, because the pool logs connections that an earlier test has ended.
    """
    log = logging.getLogger("service.errors")
    log.addHandler(caplog.handler)
    caplog.clear()
    # The logger may have the handler twice, and then each record appears twice.
    yield lambda: [*dict.fromkeys(each for each in caplog.records if each.name == log.name)]
    log.removeHandler(caplog.handler)


@pytest.fixture(scope="session")
def without_triggers(database_url):
    """Yield a connection that changes and checks nothing of the rows which it inserts.

    It is a connection of its own, because one forgets its plans when this setting changes.
    """
    url = make_conninfo(database_url, options="-c session_replication_role=replica")
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def acme(connection, without_triggers, cast):
    """Alice's workspace, with a row in every table."""
    world = World(connection, cast["acme"], cast["alice"])
    world.fill_like_the_first("alice", without_triggers)
    return world


@pytest.fixture
def globex(connection, without_triggers, cast):
    """Charlie's workspace, with a row in every table."""
    world = World(connection, cast["globex"], cast["charlie"])
    world.fill_like_the_first("charlie", without_triggers)
    return world
