"""Dashboard: every figure, whose it is, and what day it is."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from client import error_message, insert, insert_member, invalid_field

UNKNOWN = "01890000-0000-7000-8000-000000000000"
NOTHING = {
    "tasks": {
        "total": 0,
        "todo": 0,
        "inProgress": 0,
        "done": 0,
        "overdue": 0,
        "dueToday": 0,
        "byPriority": {"urgent": 0, "high": 0, "medium": 0, "low": 0},
    },
    "meetings": {"total": 0, "upcoming": 0, "completed": 0},
    "members": 0,
    "mail": {"unread": 0},
    "suggestions": {"pending": 0},
}


def stats(client, **query):
    answer = client.get("/dashboard/stats", query_string=query)
    assert answer.status_code == 200
    return answer.get_json()


def figures(client, **query):
    return {name: value for name, value in stats(client, **query).items() if name in NOTHING}


def moment(text):
    return datetime.fromisoformat(text)


def put_task(connection, workspace_id, creator, **values):
    return insert(
        connection, "tasks", workspace_id=workspace_id, title="x", created_by=creator, **values
    )


def put_meeting(connection, workspace_id, creator, start, **values):
    return insert(
        connection,
        "meetings",
        workspace_id=workspace_id,
        title="x",
        start_time=start,
        end_time=start + timedelta(hours=1),
        created_by=creator,
        **values,
    )


def put_mail(connection, workspace_id, user_id, **values):
    return insert(
        connection,
        "mail",
        workspace_id=workspace_id,
        user_id=user_id,
        sender="ada@example.com",
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        **values,
    )


@pytest.fixture
def busy(cast, connection):
    """Some of everything in Acme, each figure a different number."""
    acme, alice = cast["acme"], cast["alice"]
    now = datetime.now(UTC).replace(microsecond=0)
    for status, priority, days in (
        ("todo", "urgent", None),
        ("todo", "high", -40),
        ("todo", "high", 40),
        ("in_progress", "medium", -40),
        ("in_progress", "medium", None),
        ("done", "medium", -40),
        ("done", "medium", 40),
        ("done", "low", None),
        ("done", "low", None),
        ("done", "low", None),
    ):
        due = None if days is None else now + timedelta(days=days)
        completed = now if status == "done" else None
        values = {"status": status, "priority": priority, "due_date": due}
        put_task(connection, acme, alice, completed_at=completed, **values)
    for days, status in ((-2, "scheduled"), (-1, "completed"), (1, "scheduled"), (2, "scheduled")):
        put_meeting(connection, acme, alice, now + timedelta(days=days), status=status)
    for user, read in (("alice", False), ("alice", False), ("alice", True), ("bob", False)):
        put_mail(connection, acme, cast[user], read=read)
    for status in ("pending", "pending", "pending", "accepted", "dismissed"):
        insert(connection, "suggestions", workspace_id=acme, kind="task", title="x", status=status)
    return {
        "tasks": {
            "total": 10,
            "todo": 3,
            "inProgress": 2,
            "done": 5,
            "overdue": 2,
            "dueToday": 0,
            "byPriority": {"urgent": 1, "high": 2, "medium": 4, "low": 3},
        },
        "meetings": {"total": 4, "upcoming": 2, "completed": 1},
        "members": 2,
        "mail": {"unread": 2},
        "suggestions": {"pending": 3},
    }


def test_the_shape_of_the_figures(alice, cast):
    before = datetime.now(UTC) - timedelta(seconds=1)
    shown = stats(alice)
    assert list(shown) == ["workspaceId", "generatedAt", *NOTHING]
    for part in ("tasks", "meetings", "mail", "suggestions"):
        assert list(shown[part]) == list(NOTHING[part])
    assert list(shown["tasks"]["byPriority"]) == list(NOTHING["tasks"]["byPriority"])
    assert shown["workspaceId"] == cast["acme"]
    assert len(shown["generatedAt"]) == len("2026-11-20T11:02:43.743Z")
    assert before < moment(shown["generatedAt"]) < datetime.now(UTC) + timedelta(seconds=1)


def test_an_empty_workspace_has_figures_of_0_and_its_members(alice, charlie):
    assert figures(alice) == {**NOTHING, "members": 2}
    assert figures(charlie) == {**NOTHING, "members": 1}


def test_every_figure_counts_what_it_says(alice, busy):
    assert figures(alice) == busy


def test_bob_sees_the_same_figures_but_his_own_mail(bob, busy):
    assert figures(bob) == {**busy, "mail": {"unread": 1}}


def test_the_figures_of_acme_are_none_of_charlies(charlie, busy):
    assert figures(charlie) == {**NOTHING, "members": 1}


def test_what_the_service_is_told_changes_the_figures(alice):
    task = alice.post("/tasks", {"title": "x", "dueDate": "2001-01-01T00:00:00Z"}).get_json()
    path = f"/tasks/{task['id']}"
    for change, wanted in (
        ({}, ("todo", 1)),
        ({"status": "in_progress"}, ("inProgress", 1)),
        ({"status": "done"}, ("done", 0)),
    ):
        assert alice.patch(path, change).status_code == 200
        status, overdue = wanted
        counts = figures(alice)["tasks"]
        assert (counts["total"], counts[status], counts["overdue"]) == (1, 1, overdue)
        assert counts["todo"] + counts["inProgress"] + counts["done"] == 1
    assert alice.delete(path).status_code == 204
    assert figures(alice)["tasks"] == NOTHING["tasks"]


def test_each_of_her_workspaces_has_figures_of_its_own(alice, bob, cast, connection, busy):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"])
    put_task(connection, initech, cast["alice"], status="in_progress", priority="low")
    put_mail(connection, initech, cast["alice"])
    shown = stats(alice, workspaceId=initech)
    assert shown["workspaceId"] == initech
    assert (shown["tasks"]["total"], shown["tasks"]["inProgress"]) == (1, 1)
    assert (shown["members"], shown["mail"]["unread"]) == (1, 1)
    assert figures(alice) == figures(alice, workspaceId=cast["acme"]) == busy
    error_message(bob.get(f"/dashboard/stats?workspaceId={initech}"), 404)


@pytest.mark.parametrize(
    "zone",
    [
        "UTC",
        "Pacific/Kiritimati",
        "Etc/GMT+12",
        "America/New_York",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
    ],
)
def test_today_is_the_day_in_the_workspaces_timezone(alice, cast, connection, zone):
    connection.execute("UPDATE workspaces SET timezone = %s WHERE id = %s", (zone, cast["acme"]))
    here = ZoneInfo(zone)
    midnight = datetime.now(here).replace(hour=0, minute=0, second=0, microsecond=0)
    just = timedelta(milliseconds=1)
    due = []
    for day in range(-2, 4):
        # Arithmetic on local time, so that a day may have 23 or 25 hours.
        begin = (midnight + timedelta(days=day)).astimezone(UTC)
        # Every day has a number of tasks of its own.
        due += [begin - just, begin] + [begin + just] * (day + 3)
    for at in due:
        put_task(connection, cast["acme"], cast["alice"], due_date=at)
        put_task(connection, cast["acme"], cast["alice"], due_date=at, status="done")
        put_task(connection, cast["globex"], cast["charlie"], due_date=at)
    shown = stats(alice)
    now = moment(shown["generatedAt"])
    today = now.astimezone(here).date()
    assert shown["tasks"]["dueToday"] == sum(at.astimezone(here).date() == today for at in due)
    assert shown["tasks"]["dueToday"] >= 5
    assert shown["tasks"]["overdue"] == sum(at < now for at in due)


def test_a_workspace_that_is_not_hers_has_no_figures_for_her(alice, cast):
    messages = {
        error_message(alice.get("/dashboard/stats", query_string={"workspaceId": id}), 404)
        for id in (cast["globex"], cast["globex"].upper(), UNKNOWN, "nothing", cast["alice"])
    }
    assert len(messages) == 1


@pytest.mark.parametrize("value", ["", "x" * 129])
def test_a_workspace_id_that_can_be_none_is_refused(alice, value):
    answer = alice.get("/dashboard/stats", query_string={"workspaceId": value})
    assert invalid_field(answer, "workspaceId")


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_figures_can_only_be_read(alice, method):
    error_message(alice.send(method, "/dashboard/stats", json={}), 405)
