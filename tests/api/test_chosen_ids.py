"""Ids that clients choose for new tasks and meetings."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from support.derived import by_name, views_of
from support.http import Client, error_message, invalid_field, location
from support.rows import activate, count, insert_token
from support.statements import until_waiting

from service.values import types

NEW = {
    "tasks": {"title": "Write the report"},
    "meetings": {
        "title": "Weekly",
        "startTime": "2097-03-01T09:00:00Z",
        "endTime": "2097-03-01T10:00:00Z",
    },
}
ID = "01a21515-9cef-7b81-8bc8-d347d16c575d"
TAKEN = "is taken: another object has this id"

CREATING = [
    view
    for view in views_of("POST", body=True)
    if isinstance(view.arguments.fields.get("id"), types.NewId)
]


def test_tasks_and_meetings_take_an_id():
    assert {view.resource for view in CREATING} == {*NEW}


@by_name(CREATING)
def test_a_new_object_has_the_id_that_the_client_chose_in_lower_case(alice, view):
    created = alice.post(view.path(), {**NEW[view.resource], "id": ID.upper()})
    assert (created.status_code, created.get_json()["id"]) == (201, ID)
    assert location(created) == f"/{view.resource}/{ID}"
    assert alice.get(location(created)).get_json()["id"] == ID


@by_name(CREATING)
def test_the_same_id_a_second_time_gets_409_and_changes_nothing(alice, bob, connection, view):
    path, body = view.path(), {**NEW[view.resource], "id": ID}
    first = alice.post(path, body)
    for client, key in (alice, {}), (bob, {}), (alice, {"Idempotency-Key": "again"}):
        response = client.post(path, {**body, "title": "Another"}, headers=key)
        assert invalid_field(response, "id", status=409) == TAKEN
    assert count(connection, view.resource) == 1
    assert alice.get(f"{path}/{ID}").get_json() == first.get_json()


@by_name(CREATING)
def test_a_repeat_with_the_key_of_the_first_request_gets_the_stored_response(alice, view):
    body, key = {**NEW[view.resource], "id": ID}, {"Idempotency-Key": "create"}
    first, second = (alice.post(view.path(), body, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.get_json() == second.get_json()


@by_name(CREATING)
def test_an_id_is_free_again_after_its_object_is_deleted(alice, view):
    body = {**NEW[view.resource], "id": ID}
    assert alice.post(view.path(), body).status_code == 201
    assert alice.delete(f"{view.path()}/{ID}").status_code == 204
    assert alice.post(view.path(), body).status_code == 201


@by_name(CREATING)
@pytest.mark.parametrize(
    "id",
    [
        None, 7, "", "me", "none", ID[:-1], ID.replace("-", ""), f"{{{ID}}}", [ID],
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-FFFFFFFFFFFF",
    ],
)  # fmt: skip
def test_an_id_that_is_no_uuid_or_is_nil_or_max_gets_400(alice, connection, view, id):
    response = alice.post(view.path(), {**NEW[view.resource], "id": id})
    assert invalid_field(response, "id").startswith("must ")
    assert count(connection, view.resource) == 0


@by_name(CREATING)
def test_an_object_keeps_its_id_if_a_patch_sends_another_one(alice, view):
    created = alice.post(view.path(), {**NEW[view.resource], "id": ID}).get_json()
    changed = alice.patch(f"{view.path()}/{ID}", {"id": ID.replace("0", "1")})
    assert (changed.status_code, changed.get_json()) == (200, created)


@by_name(CREATING)
def test_two_workspaces_can_have_an_object_with_the_same_id(alice, charlie, view):
    path, body = view.path(), {**NEW[view.resource], "id": ID}
    for client in alice, charlie:
        assert client.post(path, body).status_code == 201
    assert charlie.patch(f"{path}/{ID}", {"title": "Ours"}).status_code == 200
    assert alice.get(f"{path}/{ID}").get_json()["title"] == body["title"]
    assert charlie.delete(f"{path}/{ID}").status_code == 204
    assert charlie.get(f"{path}/{ID}").status_code == 404
    assert alice.get(f"{path}/{ID}").get_json()["title"] == body["title"]


@pytest.fixture
def shared(alice, connection, cast, initech):
    """Return Alice's workspaces, oldest first; each has a meeting with the same id."""
    workspaces = sorted([cast["acme"], initech])
    for workspace in workspaces:
        created = alice.post(
            "/meetings",
            {**NEW["meetings"], "id": ID, "title": workspace},
            headers={"Workspace-Id": workspace},
        )
        assert created.status_code == 201
    return workspaces


def titles(connection):
    rows = connection.execute("SELECT workspace_id::text, title FROM meetings ORDER BY 1")
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("chosen", [0, 1])
def test_of_two_meetings_with_the_same_id_a_request_finds_that_of_the_active_workspace(
    alice, connection, cast, shared, chosen, is_named
):
    header, other = {"Workspace-Id": shared[chosen]}, shared[1 - chosen]
    if not is_named:
        header = {}
        activate(connection, shared[chosen], cast["alice"])
    assert alice.get(f"/meetings/{ID}", headers=header).get_json()["title"] == shared[chosen]
    changed = alice.patch(f"/meetings/{ID}", {"title": "Changed"}, headers=header)
    assert (changed.status_code, changed.get_json()["workspaceId"]) == (200, shared[chosen])
    assert sorted(titles(connection)) == sorted([(shared[chosen], "Changed"), (other, other)])
    # The second request repeats the first one.
    for status in (204, 404):
        assert alice.delete(f"/meetings/{ID}", headers=header).status_code == status
        assert titles(connection) == [(other, other)]


def test_of_two_meetings_outside_the_active_workspace_get_finds_the_older_and_writes_get_409(
    alice, connection, cast, shared
):
    connection.execute(
        "UPDATE users SET active_workspace_id = NULL WHERE id = %s", (cast["alice"],)
    )
    assert alice.get(f"/meetings/{ID}").get_json()["workspaceId"] == shared[0]
    for response in (
        alice.delete(f"/meetings/{ID}"),
        alice.patch(f"/meetings/{ID}", {"title": "x"}),
    ):
        assert "Workspace-Id" in error_message(response, 409)
    assert sorted(titles(connection)) == sorted((id, id) for id in shared)


@pytest.mark.parametrize("chosen", [0, 1])
def test_a_repeated_delete_in_a_named_workspace_takes_no_meeting_of_another_one(
    app, alice, connection, cast, shared, chosen
):
    header, other = {"Workspace-Id": shared[chosen]}, shared[1 - chosen]
    insert_token(connection, cast["alice"], "tmw_api_one", workspace_id=shared[chosen])
    assert alice.delete(f"/meetings/{ID}", headers=header).status_code == 204
    assert alice.delete(f"/meetings/{ID}", headers=header).status_code == 404
    assert alice.patch(f"/meetings/{ID}", {"title": "x"}, headers=header).status_code == 404
    assert Client(app, "tmw_api_one").delete(f"/meetings/{ID}").status_code == 404
    assert titles(connection) == [(other, other)]


def test_a_token_for_one_workspace_finds_only_the_meeting_of_that_workspace(
    app, alice, connection, cast, shared
):
    insert_token(connection, cast["alice"], "tmw_api_one", workspace_id=shared[1])
    client = Client(app, "tmw_api_one")
    assert client.get(f"/meetings/{ID}").get_json()["workspaceId"] == shared[1]
    assert client.delete(f"/meetings/{ID}").status_code == 204
    assert client.delete(f"/meetings/{ID}").status_code == 404
    assert titles(connection) == [(shared[0], shared[0])]


@pytest.mark.parametrize("name", ["update", "delete"])
def test_a_request_that_waits_for_the_deletion_of_its_meeting_gets_404_and_leaves_the_other_alone(
    alice, connection, database_url, shared, name
):
    header = {"Workspace-Id": shared[1]}
    requests = {
        "update": lambda: alice.patch(f"/meetings/{ID}", {"title": "x"}, headers=header),
        "delete": lambda: alice.delete(f"/meetings/{ID}", headers=header),
    }
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database_url) as other:
        other.execute("DELETE FROM meetings WHERE workspace_id = %s", (shared[1],))
        running = threads.submit(requests[name])
        until_waiting(connection, running)
        other.commit()
        assert running.result(20).status_code == 404
    assert titles(connection) == [(shared[0], shared[0])]


def test_a_subtask_can_name_the_chosen_id_of_its_parent(alice):
    alice.post("/tasks", {**NEW["tasks"], "id": ID})
    subtask = alice.post("/tasks", {"title": "First part", "parentId": ID})
    assert (subtask.status_code, subtask.get_json()["parentId"]) == (201, ID)
    assert invalid_field(
        alice.post("/tasks", {"title": "x", "id": ID[:-1] + "0", "parentId": ID[:-1] + "0"}),
        "parentId",
    ).startswith("must be")


def test_a_list_in_pages_has_every_task_whatever_kind_of_uuid_its_id_is(alice):
    chosen = {
        "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-fffffffffffe",
        "7d444840-9dc0-11d1-b245-5ffdce74fad2", "c232ab00-9414-4ab8-98f3-d6d4e5f6a7b8", ID,
    }  # fmt: skip
    for id in chosen:
        assert alice.post("/tasks", {"title": "x", "id": id}).status_code == 201
    for query in {}, {"status": "todo"}, {"sort": "dueDate"}, {"q": "x"}:
        found, cursor = [], None
        while cursor or not found:
            page = alice.get(
                "/tasks",
                query_string={**query, "limit": 1, **({"cursor": cursor} if cursor else {})},
            ).get_json()
            found += [task["id"] for task in page["data"]]
            cursor = page["nextCursor"]
        assert sorted(found) == sorted(chosen)
