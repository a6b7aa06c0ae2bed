"""Workers, in this process and as processes."""

from contextlib import ExitStack

import pytest
from support.processes import Running, working
from support.receivers import WEBHOOK_SETTINGS, announce, environment, subscribe

from service.settings import Settings
from service.webhooks.worker import Worker


@pytest.fixture
def webhook(connection, cast, receiver):
    return subscribe(connection, cast["acme"], receiver.url)


@pytest.fixture
def announced(connection, cast, webhook):
    announce(connection, cast["acme"])


@pytest.fixture
def worker(plain_url):
    return lambda **changes: Worker(Settings.read(environment(plain_url, **changes)))


@pytest.fixture
def process(plain_url):
    settings = {**WEBHOOK_SETTINGS, "WEB_THREADS": "2"}
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(working(plain_url, **settings | changes))


@pytest.fixture
def run(worker):
    """Yield a function that runs a worker in this process, which is faster than to start one."""
    started = []

    def run(**changes):
        started.append(Running(worker(WEB_THREADS="2", **changes)))
        return started[-1]

    yield run
    assert all(running.stop() for running in started)
