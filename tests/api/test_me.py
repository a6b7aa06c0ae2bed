"""/api/me shows the caller and the limits, and changes the active workspace."""

import re
from datetime import datetime
from math import ceil

import pytest
from support.http import Client, error_message
from support.rows import insert_token
from support.statements import trigger


def me(client):
    response = client.get("/me")
    assert response.status_code == 200
    return response.get_json()


def test_get_me_returns_user_credential_workspace_and_limits(alice, cast):
    shown = me(alice)
    minute = {"resetsAt": shown["limits"]["minute"]["resetsAt"]}
    assert shown == {
        "user": {"id": cast["alice"], "name": "Alice", "email": "alice@example.com"},
        "scope": "write",
        "credential": "api",
        "expiresAt": None,
        "workspace": {
            **{"id": cast["acme"], "name": "Acme", "slug": "acme"},
            **{"plan": "Team", "role": "owner"},
        },
        "limits": {"minute": {**minute, "limit": 1000, "remaining": 999}, "day": None},
    }


def test_the_windows_in_me_end_when_the_headers_say_to_the_second(alice, connection):
    alice.get("/me")
    connection.execute(
        "UPDATE usage SET minute_started_at = date_trunc('second', now()) + interval '400 us'"
    )
    response = alice.get("/me")
    ends = datetime.fromisoformat(response.get_json()["limits"]["minute"]["resetsAt"]).timestamp()
    assert ceil(ends) == int(response.headers["X-RateLimit-Reset"])


@pytest.mark.parametrize("plan", ["Starter", "Pro", "Team"])
def test_me_and_the_headers_show_the_same_limits_and_both_count_this_request(
    alice, connection, plan
):
    connection.execute("UPDATE workspaces SET plan = %s WHERE slug = 'acme'", (plan,))
    for number in range(1, 4):
        response = alice.get("/me")
        limits = response.get_json()["limits"]
        minute, day = limits["minute"], limits["day"]
        assert minute["remaining"] == minute["limit"] - number
        assert str(minute["limit"]) == response.headers["X-RateLimit-Limit"]
        assert str(minute["remaining"]) == response.headers["X-RateLimit-Remaining"]
        ends = datetime.fromisoformat(minute["resetsAt"]).timestamp()
        assert ceil(ends) == int(response.headers["X-RateLimit-Reset"])
        policy = re.findall(r'"(\w+)";q=(\d+)', response.headers["RateLimit-Policy"])
        left = re.findall(r'"(\w+)";r=(\d+)', response.headers["RateLimit"])
        windows = [(name, window) for name, window in limits.items() if window]
        assert policy == [(name, str(window["limit"])) for name, window in windows]
        assert left == [(name, str(window["remaining"])) for name, window in windows]
        assert (day is None) == (plan == "Team")
    assert alice.get("/tasks").headers["X-RateLimit-Remaining"] == str(minute["limit"] - 4)


@pytest.mark.parametrize("kind", ["api", "session"])
def test_get_me_returns_the_scope_and_the_expiry_of_the_sent_credential(
    app, cast, connection, kind
):
    expiry = "2099-01-01T09:00:00.743Z"
    insert_token(connection, cast["bob"], "of-bob", kind=kind, scope="read", expires=expiry)
    bob = Client(app, "of-bob") if kind == "api" else Client(app, cookie="of-bob")
    shown = me(bob)
    assert shown["user"]["id"] == cast["bob"]
    credential = {"scope": "read", "credential": kind, "expiresAt": expiry}
    assert shown.items() >= credential.items()
    assert shown["workspace"]["role"] == "member"


def test_without_an_active_workspace_get_me_returns_null_and_the_limits_of_the_plan_starter(
    alice, cast, connection
):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    shown = me(alice)
    assert shown["workspace"] is None
    assert shown["user"]["id"] == cast["alice"]
    assert [shown["limits"][name]["limit"] for name in ("minute", "day")] == [60, 10_000]


def active(connection, user_id):
    row = connection.execute("SELECT active_workspace_id FROM users WHERE id = %s", (user_id,))
    return str(row.fetchone()["active_workspace_id"])


def test_a_user_who_chooses_a_workspace_sees_its_tasks(
    alice, cast, connection, initech, insert_into
):
    connection.execute("UPDATE members SET role = 'admin' WHERE workspace_id = %s", (initech,))
    here, there = insert_into("tasks"), insert_into("tasks", initech)
    assert [task["id"] for task in alice.get("/tasks").get_json()["data"]] == [here]
    response = alice.patch("/me", {"workspaceId": initech.upper()})
    assert response.status_code == 200
    assert response.get_json()["workspace"]["id"] == initech
    workspace = me(alice)["workspace"]
    assert (workspace["slug"], workspace["role"]) == ("initech", "admin")
    assert active(connection, cast["alice"]) == initech
    assert [task["id"] for task in alice.get("/tasks").get_json()["data"]] == [there]


def test_a_request_that_changes_the_active_workspace_counts_in_the_old_one(
    alice, cast, connection, initech
):
    connection.execute("UPDATE workspaces SET plan = 'Starter' WHERE id = %s", (initech,))
    response = alice.patch("/me", {"workspaceId": initech})
    assert response.get_json()["limits"]["minute"]["limit"] == 1000
    assert response.headers["X-RateLimit-Limit"] == "1000"
    assert me(alice)["limits"]["minute"]["limit"] == 60


def test_a_user_without_an_active_workspace_can_choose_one(alice, cast, connection, initech):
    connection.execute("UPDATE users SET active_workspace_id = NULL")
    assert me(alice)["workspace"] is None
    assert alice.patch("/me", {"workspaceId": initech}).status_code == 200
    assert me(alice)["workspace"]["id"] == initech


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/me", None), ("PATCH", "/me", {}), ("POST", "/tokens", {"name": "x"}),
        ("DELETE", "/session", None),
    ],
)  # fmt: skip
def test_a_user_deleted_during_the_request_gets_401(app, cast, connection, method, path, body):
    """A trigger deletes the user between the two statements of the request."""
    insert_token(connection, cast["alice"], "tmw_session_alice", kind="session")
    alice = Client(app, cookie="tmw_session_alice")
    with trigger(connection, "AFTER INSERT ON usage", "DELETE FROM users; RETURN NULL;"):
        response = alice.send(method, path, json=body, content_type="application/json")
        assert "Unauthorized" in error_message(response, 401)
        assert response.headers["X-RateLimit-Limit"] == "1000"
    assert connection.execute("SELECT count(*) FROM tokens").fetchone()["count"] == 0
