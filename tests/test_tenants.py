"""Tenants: Alice tries every path of the service with the ids of Charlie's workspace."""

import json
from datetime import UTC, datetime

import pytest
from client import TOKENS, Client, error_message, insert, insert_token, read_all

from service import create_app
from service.settings import Settings

UNKNOWN = "01890000-0000-7000-8000-000000000000"
SECRET = "Globex only"
ROUTES = sorted(
    (rule.rule, method)
    for rule in create_app(Settings.read({})).url_map.iter_rules()
    if rule.rule.startswith("/api/") and rule.arguments
    for method in rule.methods
)
LISTS = ["/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"]
# What a caller may send who wants to change something; {} for what is not named here.
BODIES = {
    "tasks": {"title": "Stolen"},
    "meetings": {"title": "Stolen"},
    "workspaces": {"name": "Stolen"},
}


def put_one_of_everything(charlie, cast, connection):
    """One more of everything into Charlie's workspace: kinds to ids."""
    workspace_id = cast["globex"]
    own = {"workspace_id": workspace_id, "title": SECRET}
    start = datetime(2099, 1, 1, tzinfo=UTC)
    meeting = {
        "start_time": start,
        "end_time": start.replace(hour=1),
        "created_by": cast["charlie"],
    }
    task = charlie.post("/tasks", {"title": SECRET, "projectId": "apollo"}).get_json()
    return {
        "workspaces": workspace_id,
        "tasks": task["id"],
        "meetings": insert(connection, "meetings", **own, **meeting),
        "knowledge": insert(connection, "knowledge", **own, content=SECRET),
        "suggestions": insert(connection, "suggestions", **own, kind="x", task_id=task["id"]),
        "users": cast["charlie"],
        "mail": insert(
            connection,
            "mail",
            workspace_id=workspace_id,
            user_id=cast["charlie"],
            sender="ada@example.com",
            subject=SECRET,
            received_at=start,
        ),
    }


@pytest.fixture
def globex(charlie, cast, connection):
    """What is in Charlie's workspace: kinds to ids."""
    return put_one_of_everything(charlie, cast, connection)


@pytest.fixture(params=["token", "cookie"])
def alice(request, app, cast, connection):
    """Alice by either of her credentials; with both she declares JSON, as cookies must."""
    if request.param == "token":
        who = Client(app, TOKENS["alice"])
    else:
        insert_token(connection, cast["alice"], "tmw_session_alice", kind="session")
        who = Client(app, cookie="tmw_session_alice")
    who.headers["Content-Type"] = "application/json"
    return who


def everything(connection, workspace_id):
    """All rows of a workspace in all tables, but for the counters of its members' requests."""
    tables = connection.execute(
        "SELECT table_name AS name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_name = 'workspace_id' AND table_name <> 'usage'"
    ).fetchall()
    rows = [
        connection.execute("SELECT * FROM workspaces WHERE id = %s", (workspace_id,)).fetchall()
    ]
    for table in tables:
        sql = f"SELECT * FROM {table['name']} AS t WHERE workspace_id = %s ORDER BY t::text"
        rows.append(connection.execute(sql, (workspace_id,)).fetchall())
    return rows


def answer_of(client, method, rule, id, body):
    """Status and body of an answer, without what differs between any two requests."""
    path = rule.removeprefix("/api").replace("<id:id>", id)
    assert "<" not in path, "a path with a variable that this test does not know"
    response = client.send(method, path, data=None if body is None else json.dumps(body))
    content = response.get_json(silent=True) or {}
    content.pop("requestId", None)
    return response.status_code, content, response.headers["Content-Type"]


def test_the_routes_with_ids_are_found():
    assert ("/api/tasks/<id:id>", "DELETE") in ROUTES
    assert ("/api/meetings/<id:id>", "PATCH") in ROUTES
    assert ("/api/workspaces/<id:id>/members", "GET") in ROUTES


@pytest.mark.parametrize(("rule", "method"), ROUTES)
def test_a_foreign_id_is_answered_like_an_unknown_one(alice, globex, connection, rule, method):
    before = everything(connection, globex["workspaces"])
    resource = rule.split("/")[2]
    writes = method in ("POST", "PUT", "PATCH")
    for body in ({}, BODIES.get(resource, {})) if writes else (None,):
        unknown = answer_of(alice, method, rule, UNKNOWN, body)
        assert unknown[0] == 404
        for id in (*globex.values(), globex[resource].upper()):
            assert answer_of(alice, method, rule, id, body) == unknown
    assert everything(connection, globex["workspaces"]) == before


@pytest.mark.parametrize("rule", sorted({rule for rule, _ in ROUTES}))
def test_a_method_that_is_not_there_tells_nothing_either(alice, globex, connection, rule):
    before = everything(connection, globex["workspaces"])
    known = {method for other, method in ROUTES if other == rule}
    for method in {"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - known:
        unknown = answer_of(alice, method, rule, UNKNOWN, {})
        assert unknown[0] == 405
        assert answer_of(alice, method, rule, globex[rule.split("/")[2]], {}) == unknown
    assert everything(connection, globex["workspaces"]) == before


@pytest.mark.parametrize("path", LISTS)
def test_lists_hold_nothing_foreign(alice, charlie, globex, path):
    assert alice.get(path).get_json() == {"data": [], "nextCursor": None}
    (item,) = read_all(charlie, path)
    assert item["id"] in globex.values()


@pytest.mark.parametrize(
    "query",
    [
        "/tasks?assignee={users}",
        "/tasks?parentId={tasks}",
        "/tasks?projectId=apollo",
        "/tasks?status=todo",
        "/tasks?priority=medium",
        "/meetings?workspaceId={workspaces}",
        "/meetings?upcoming=true",
        "/meetings?upcoming=true&workspaceId={workspaces}",
        "/knowledge?q=globex",
        "/knowledge?q=-absent",
    ],
)
def test_filters_find_nothing_foreign(alice, charlie, globex, query):
    charlie.post(
        "/tasks",
        {"title": SECRET, "parentId": globex["tasks"], "assigneeId": globex["users"]},
    )
    path = query.format(**globex)
    assert alice.get(path).get_json() == {"data": [], "nextCursor": None}
    assert charlie.get(path).get_json()["data"]


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_grants_nothing(alice, charlie, cast, connection, path):
    """Charlie's own cursor in Alice's hands shows her nothing of his."""
    for _ in range(3):
        put_one_of_everything(charlie, cast, connection)
    cursor = charlie.get(path, query_string={"limit": 1}).get_json()["nextCursor"]
    assert len(read_all(charlie, path, cursor=cursor)) == 2
    answer = alice.get(path, query_string={"cursor": cursor})
    assert answer.get_json() == {"data": [], "nextCursor": None}


def test_the_figures_count_nothing_foreign(alice, globex):
    shown = alice.get("/dashboard/stats").get_json()
    assert (shown["tasks"]["total"], shown["meetings"]["total"], shown["members"]) == (0, 0, 2)
    assert (shown["mail"]["unread"], shown["suggestions"]["pending"]) == (0, 0)
    unknown = error_message(alice.get(f"/dashboard/stats?workspaceId={UNKNOWN}"), 404)
    foreign = alice.get(f"/dashboard/stats?workspaceId={globex['workspaces']}")
    assert error_message(foreign, 404) == unknown


@pytest.mark.parametrize(("field", "kind"), [("assigneeId", "users"), ("parentId", "tasks")])
def test_a_foreign_reference_is_refused_like_an_unknown_one(alice, globex, connection, field, kind):
    before = everything(connection, globex["workspaces"])
    mine = alice.post("/tasks", {"title": "Mine"}).get_json()
    for method, path, body in (
        ("POST", "/tasks", {"title": "New"}),
        ("PATCH", f"/tasks/{mine['id']}", {}),
    ):
        unknown, foreign = (
            error_message(alice.send(method, path, json={**body, field: id}), 400)
            for id in (UNKNOWN, globex[kind])
        )
        assert unknown == foreign
    assert read_all(alice, "/tasks") == [mine]
    assert everything(connection, globex["workspaces"]) == before


def test_what_is_created_lands_in_her_own_workspace(alice, cast, globex, connection):
    before = everything(connection, globex["workspaces"])
    times = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-01-01T01:00:00Z"}
    for path, body in (("/tasks", {"title": "x"}), ("/meetings", {"title": "x", **times})):
        created = alice.post(path, body).get_json()
        assert created["workspaceId"] == cast["acme"]
    assert everything(connection, globex["workspaces"]) == before


def test_who_has_left_a_workspace_sees_nothing_of_it_at_once(alice, bob, cast, connection):
    times = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-01-01T01:00:00Z"}
    task = bob.post("/tasks", {"title": SECRET}).get_json()
    meeting = bob.post("/meetings", {"title": SECRET, **times}).get_json()
    for table in ("knowledge", "suggestions"):
        kind = {"kind": "x"} if table == "suggestions" else {}
        insert(connection, table, workspace_id=cast["acme"], title=SECRET, **kind)
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    before = everything(connection, cast["acme"])
    for path in LISTS:
        assert alice.get(path).get_json() == {"data": [], "nextCursor": None}
    assert alice.get("/workspaces").get_json() == []
    for path, body in (
        (f"/tasks/{task['id']}", {"title": "Stolen"}),
        (f"/meetings/{meeting['id']}", {"title": "Stolen"}),
        (f"/workspaces/{cast['acme']}", {"name": "Stolen"}),
    ):
        error_message(alice.get(path), 404)
        error_message(alice.patch(path, body), 404)
    error_message(alice.delete(f"/tasks/{task['id']}"), 404)
    error_message(alice.get(f"/workspaces/{cast['acme']}/members"), 404)
    error_message(alice.get(f"/dashboard/stats?workspaceId={cast['acme']}"), 404)
    error_message(alice.get("/dashboard/stats"), 404)
    error_message(alice.post("/tasks", {"title": "New"}), 409)
    error_message(alice.post("/meetings", {"title": "New", **times}), 409)
    assert everything(connection, cast["acme"]) == before
