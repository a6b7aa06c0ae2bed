"""The bug of yesterday evening: a task was shown as overdue on the day on which it was due."""

import json
from pathlib import Path

import pytest
from todo import Tasks

# Without the webhooks, so that no receiver of the real workspace gets an event from this test.
LEFT_OUT = "export", "webhook", "previous_secret", "end"


@pytest.fixture
def tasks(service):
    """Return a client for the workspace of Rosa, as it was when the bug occurred."""
    # The output of: task-service workspace export initech >yesterday.jsonl
    export = Path(__file__).with_name("yesterday.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in export.splitlines()]
    service.load(*(line for line in lines if line["type"] not in LEFT_OUT))
    service.set_clock("2026-11-25T22:30:00Z")
    return Tasks(service.base_url, service.create_token("rosa@example.com"))


def test_a_task_is_not_overdue_before_its_day_ends_in_the_timezone_of_the_workspace(tasks):
    assert [task["title"] for task in tasks.all()] == ["Pay the rent", "Send the invoice"]
    assert tasks.send("GET", "/dashboard/stats")["tasks"]["overdue"] == 1
