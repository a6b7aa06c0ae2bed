from datetime import timedelta

import pytest
from todo import Tasks


@pytest.fixture
def tasks(service):
    return Tasks(service.base_url, service.token)


def test_a_task_is_added_once_even_if_the_response_is_lost(service, tasks):
    service.fault("drop-after-commit", method="POST")
    tasks.add("Write the report")
    assert [task["title"] for task in tasks.all()] == ["Write the report"]
    assert [event["type"] for event in service.webhooks.events] == ["task.created"]


def test_all_pages_are_read(service, tasks):
    service.load(*({"type": "task", "title": f"Task {number}"} for number in range(450)))
    assert len(list(tasks.all())) == 450


def test_it_waits_when_the_limit_is_reached(service, tasks, monkeypatch):
    def sleep(seconds):
        service.set_clock(service.now + timedelta(seconds=seconds))

    monkeypatch.setattr("time.sleep", sleep)
    service.plan(per_minute=1)
    assert list(tasks.all()) == list(tasks.all()) == []


def test_a_stranger_sees_nothing(service, tasks):
    tasks.add("Write the report")
    assert list(Tasks(service.base_url, service.stranger.token).all()) == []


def test_an_expired_token_is_named(service):
    expired = service.create_token(expires_in=7)
    service.set_clock(service.now + timedelta(days=7))
    with pytest.raises(RuntimeError, match="Unauthorized"):
        Tasks(service.base_url, expired).add("Write the report")
