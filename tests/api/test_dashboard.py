"""Dashboard: the figures, the workspace that they count, and the timezone of "today"."""

from datetime import UTC, datetime, timedelta

import pytest
from support.http import error_message

NOTHING = {
    "tasks": {
        **dict.fromkeys(["total", "todo", "inProgress", "done", "overdue", "dueToday"], 0),
        "byPriority": {"urgent": 0, "high": 0, "medium": 0, "low": 0},
    },
    "meetings": {"total": 0, "upcoming": 0, "completed": 0},
    "members": 0,
    "mail": {"unread": 0},
    "suggestions": {"pending": 0},
}


def stats(client, **query):
    response = client.get("/dashboard/stats", query_string=query)
    assert response.status_code == 200
    return response.get_json()


def figures(client, **query):
    return {name: value for name, value in stats(client, **query).items() if name in NOTHING}


@pytest.fixture
def busy(insert_into):
    """Fill Acme with rows of every kind, so that each figure is a different number."""
    now = datetime.now(UTC).replace(microsecond=0)
    past, future = now - timedelta(days=40), now + timedelta(days=40)
    for status, priority, due in (
        ("todo", "urgent", None),
        ("todo", "high", past),
        ("todo", "high", future),
        ("in_progress", "medium", past),
        ("in_progress", "medium", None),
        ("done", "medium", past),
        ("done", "medium", future),
        *[("done", "low", None)] * 3,
    ):
        insert_into("tasks", status=status, priority=priority, due_date=due)
    for start, status in zip(
        (past, past, future, future),
        ("scheduled", "completed", "scheduled", "scheduled"),
        strict=True,
    ):
        insert_into("meetings", start_time=start, status=status)
    for user, read in (("alice", False), ("alice", False), ("alice", True), ("bob", False)):
        insert_into("mail", user=user, read=read)
    for status in ("pending", "pending", "pending", "accepted", "dismissed"):
        insert_into("suggestions", status=status)
    return {
        "tasks": {
            **{"total": 10, "todo": 3, "inProgress": 2, "done": 5, "overdue": 2, "dueToday": 0},
            "byPriority": {"urgent": 1, "high": 2, "medium": 4, "low": 3},
        },
        "meetings": {"total": 4, "upcoming": 2, "completed": 1},
        "members": 2,
        "mail": {"unread": 2},
        "suggestions": {"pending": 3},
    }


def test_the_figures_name_their_workspace_and_when_they_were_counted(alice, cast):
    second, before = timedelta(seconds=1), datetime.now(UTC)
    shown = stats(alice)
    assert shown["workspaceId"] == cast["acme"]
    moment = datetime.fromisoformat(shown["generatedAt"])
    assert before - second < moment < datetime.now(UTC) + second


def test_all_figures_of_an_empty_workspace_except_its_members_are_0(alice, charlie):
    assert figures(alice) == {**NOTHING, "members": 2}
    assert figures(charlie) == {**NOTHING, "members": 1}


def test_each_figure_counts_what_its_name_says_and_mail_counts_for_the_caller_only(
    alice, bob, busy
):
    assert figures(alice) == busy
    assert figures(bob) == {**busy, "mail": {"unread": 1}}


def test_the_figures_count_one_workspace_the_active_or_the_named_one(
    alice, bob, cast, busy, initech, insert_into
):
    insert_into("tasks", initech, status="in_progress", priority="low")
    insert_into("mail", initech)
    shown = stats(alice, workspaceId=initech)
    assert shown["workspaceId"] == initech
    assert (shown["tasks"]["total"], shown["tasks"]["inProgress"]) == (1, 1)
    assert (shown["members"], shown["mail"]["unread"]) == (1, 1)
    assert figures(alice) == figures(alice, workspaceId=cast["acme"]) == busy
    error_message(bob.get(f"/dashboard/stats?workspaceId={initech}"), 404)
