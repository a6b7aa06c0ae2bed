"""Workers, in this process and as processes."""

import os
import subprocess
import sys

import pytest
from receivers import PROJECT, announce, environment, subscribe
from workers import Running

from service.settings import Settings
from service.webhooks.worker import Worker


@pytest.fixture
def webhook(connection, cast, receiver):
    """Acme's webhook to the receiver; its id."""
    return subscribe(connection, cast["acme"], receiver.url)


@pytest.fixture
def announced(connection, cast, webhook):
    """One event, which waits for the webhook."""
    announce(connection, cast["acme"])


@pytest.fixture
def worker(database_url):

    def build(**changes):
        return Worker(Settings.read(environment(database_url, **changes)))

    return build


@pytest.fixture
def process(database_url):
    """Return a function that starts ``task-service worker`` under these settings."""
    started = []

    def start(**changes):
        command = [sys.executable, "-m", "service", "worker"]
        variables = {**os.environ, **environment(database_url, WEB_THREADS="2", **changes)}
        started.append(subprocess.Popen(command, cwd=PROJECT, env=variables))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def run(worker):
    """Return a function that runs a worker under these settings, which starts faster here."""
    started = []

    def run(**changes):
        started.append(Running(worker(WEB_THREADS="2", **changes)))
        return started[-1]

    yield run
    assert all(running.stop() for running in started)
