"""Tenants: Alice and a stranger request every path with the ids of Charlie's workspace."""

import json
from datetime import UTC, datetime

import pytest
from client import TOKENS, UNKNOWN, Client, error_message, insert_token, read_all

from service.app import create_app
from service.settings import Settings

SECRET = "Globex only"
ALL_ROUTES = sorted(
    (rule.rule, method)
    for rule in create_app(Settings.read({})).url_map.iter_rules()
    if rule.rule.startswith("/api/")
    for method in rule.methods - {"HEAD", "OPTIONS"}
)
ROUTES = [(rule, method) for rule, method in ALL_ROUTES if "<" in rule]
LISTS = ["/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"]
TIMES = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-01-01T01:00:00Z"}
# The bodies of writes; other writes send {}.
BODIES = {
    "tasks": {"title": "Stolen"},
    "meetings": {"title": "Stolen", **TIMES},
    "workspaces": {"name": "Stolen"},
}
MALFORMED = [
    "nothing", "1", "%00", "%ff", "a%20b", "٣", "acme", "x" * 1000, UNKNOWN[:-1],
]  # fmt: skip


@pytest.fixture
def globex(charlie, cast, insert_into):
    """Insert one row of each kind into Charlie's workspace; return kinds to ids."""
    task = charlie.post("/tasks", {"title": SECRET, "projectId": "apollo"}).get_json()["id"]
    there = {"workspace": "globex", "user": "charlie"}
    start = datetime(2099, 1, 1, tzinfo=UTC)
    return {
        "workspaces": cast["globex"],
        "users": cast["charlie"],
        "tasks": task,
        "meetings": insert_into("meetings", **there, title=SECRET, start_time=start),
        "knowledge": insert_into("knowledge", **there, title=SECRET, content=SECRET),
        "suggestions": insert_into("suggestions", **there, title=SECRET, task_id=task),
        "mail": insert_into("mail", **there, subject=SECRET),
    }


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
    """Return all rows of a workspace in all tables except usage."""
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


def response_to(client, method, rule, id, body):
    """Return status, body and type of a response, without the id of the request."""
    path = rule.removeprefix("/api").replace("<id:id>", id)
    assert "<" not in path, "a path with a variable that this test does not know"
    response = client.send(method, path, data=None if body is None else json.dumps(body))
    content = response.get_json(silent=True) or {}
    content.pop("requestId", None)
    return response.status_code, content, response.headers["Content-Type"]


def test_the_routes_are_those_of_the_url_map():
    assert ("/api/tasks/<id:id>", "DELETE") in ROUTES
    assert ("/api/meetings/<id:id>", "PATCH") in ROUTES
    assert ("/api/workspaces/<id:id>/members", "GET") in ROUTES
    assert ("/api/dashboard/stats", "GET") in ALL_ROUTES


@pytest.mark.parametrize(("rule", "method"), ALL_ROUTES)
def test_a_stranger_gets_401_everywhere_and_changes_nothing(
    stranger, globex, connection, rule, method
):
    before = everything(connection, globex["workspaces"])
    resource = rule.split("/")[2]
    path = rule.removeprefix("/api").replace("<id:id>", globex.get(resource, ""))
    body = None if method in ("GET", "DELETE") else BODIES[resource]
    response = stranger.send(method, path, json=body)
    assert "nauthorized" in error_message(response, 401)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert everything(connection, globex["workspaces"]) == before


@pytest.mark.parametrize(("rule", "method"), ROUTES)
def test_an_unknown_a_malformed_and_a_foreign_id_are_the_same_404(
    alice, globex, connection, rule, method
):
    before = everything(connection, globex["workspaces"])
    resource = rule.split("/")[2]
    message = f"{resource.removesuffix('s').title()} not found"
    foreign = (*globex.values(), globex[resource].upper())
    for body in ({}, BODIES[resource]) if method == "PATCH" else (None,):
        for id in (UNKNOWN, *MALFORMED, *foreign):
            status, content, kind = response_to(alice, method, rule, id, body)
            assert (id, status, kind) == (id, 404, "application/json")
            assert content == {"message": message, "status": 404}
    assert everything(connection, globex["workspaces"]) == before


@pytest.mark.parametrize("rule", sorted({rule for rule, _ in ROUTES}))
def test_a_405_reveals_nothing_of_other_tenants(alice, globex, connection, rule):
    before = everything(connection, globex["workspaces"])
    allowed = {method for other, method in ROUTES if other == rule}
    for method in {"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - allowed:
        unknown = response_to(alice, method, rule, UNKNOWN, {})
        assert unknown[0] == 405
        assert response_to(alice, method, rule, globex[rule.split("/")[2]], {}) == unknown
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
def test_filters_match_nothing_foreign(alice, charlie, globex, query):
    charlie.post(
        "/tasks",
        {"title": SECRET, "parentId": globex["tasks"], "assigneeId": globex["users"]},
    )
    path = query.format(**globex)
    assert alice.get(path).get_json() == {"data": [], "nextCursor": None}
    assert charlie.get(path).get_json()["data"]


def test_the_figures_count_nothing_foreign(alice, globex):
    shown = alice.get("/dashboard/stats").get_json()
    assert (shown["tasks"]["total"], shown["meetings"]["total"], shown["members"]) == (0, 0, 2)
    assert (shown["mail"]["unread"], shown["suggestions"]["pending"]) == (0, 0)
    unknown = error_message(alice.get(f"/dashboard/stats?workspaceId={UNKNOWN}"), 404)
    foreign = alice.get(f"/dashboard/stats?workspaceId={globex['workspaces']}")
    assert error_message(foreign, 404) == unknown


@pytest.mark.parametrize(("field", "kind"), [("assigneeId", "users"), ("parentId", "tasks")])
def test_a_foreign_reference_is_400_like_an_unknown_one(alice, globex, connection, field, kind):
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


def test_a_new_object_belongs_to_the_workspace_of_its_creator(alice, cast, globex, connection):
    before = everything(connection, globex["workspaces"])
    for path, body in (("/tasks", {"title": "x"}), ("/meetings", BODIES["meetings"])):
        created = alice.post(path, body).get_json()
        assert created["workspaceId"] == cast["acme"]
    assert everything(connection, globex["workspaces"]) == before


def test_a_former_member_sees_nothing_of_the_workspace_at_once(
    alice, bob, cast, connection, insert_into
):
    task = bob.post("/tasks", {"title": SECRET}).get_json()
    meeting = bob.post("/meetings", {"title": SECRET, **TIMES}).get_json()
    for table in ("knowledge", "suggestions", "mail"):
        insert_into(table)
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
    error_message(alice.post("/meetings", {"title": "New", **TIMES}), 409)
    assert everything(connection, cast["acme"]) == before
