"""The threads of a worker: no error ends a thread, and a thread rests when nothing is due."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest
from support.processes import states
from support.receivers import announce, hang


class Rests(Event):
    """An event that records the timeouts of its waits, and does not wait."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return super().wait(0)


@pytest.mark.nodatabase
def test_a_thread_survives_every_error_and_rests_after_each_error_and_each_idle_call(
    worker, caplog
):
    running = worker()
    running.stopping = Rests()
    outcomes = [True, False, RuntimeError("unforeseen"), psycopg.OperationalError("lost"), True]

    def work():
        outcome = outcomes.pop(0)
        if not outcomes:
            running.stopping.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    running.repeat(work, 7)
    assert running.stopping.seconds == [7, 1, 1]
    # An error of the database is logged elsewhere.
    assert caplog.messages == ["unhandled: RuntimeError"]


def test_pruning_and_checking_the_keys_count_as_idle_calls(worker):
    running = worker()
    assert not any([running.prune(), running.check_keys()])


def test_when_one_thread_finds_nothing_due_the_other_threads_do_not_ask_the_database(
    worker, monkeypatch, cast, connection, webhook
):
    monkeypatch.setattr("service.webhooks.worker.POLL_INTERVAL", 60)
    running = worker()
    assert not running.deliver_next()
    announce(connection, cast["acme"])
    assert not running.deliver_next()
    assert states(connection) == [("waiting", 0)]


def test_when_an_attempt_ends_the_next_one_of_its_workspace_begins_immediately(
    worker, monkeypatch, cast, connection, receiver, webhook
):
    monkeypatch.setattr("service.webhooks.worker.POLL_INTERVAL", 60)
    receiver.behaves(hang)
    announce(connection, cast["acme"], 2)
    running = worker(WEB_THREADS="1")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.deliver_next)
        receiver.take()
        # A workspace has as many attempts in flight as WEB_THREADS.
        assert not running.deliver_next()
        receiver.released.set()
        assert first.result()
    # After a signal, no attempt begins.
    running.stopping.set()
    assert not running.deliver_next()
    running.stopping.clear()
    assert running.deliver_next()
    running.pool.close()


def test_after_an_error_in_one_thread_the_other_threads_do_not_ask_the_database(
    worker, monkeypatch, empty
):
    monkeypatch.setattr("service.webhooks.worker.ERROR_INTERVAL", 60)
    running = worker(DATABASE_URL=empty)
    with pytest.raises(psycopg.errors.UndefinedTable):
        running.deliver_next()
    assert not running.deliver_next()
    running.pool.close()
