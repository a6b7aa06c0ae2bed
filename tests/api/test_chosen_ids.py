"""Ids that clients choose for new tasks and meetings."""

import pytest
from support.derived import by_name, views_of
from support.http import invalid_field
from support.rows import count

from service.values import fields

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
    if isinstance(view.arguments.fields.get("id"), fields.NewId)
]


def test_tasks_and_meetings_take_an_id():
    assert {view.resource for view in CREATING} == {*NEW}


@by_name(CREATING)
def test_a_new_object_has_the_id_that_the_client_chose_in_lower_case(alice, view):
    created = alice.post(view.path(), {**NEW[view.resource], "id": ID.upper()})
    assert (created.status_code, created.get_json()["id"]) == (201, ID)
    assert created.headers["Location"] == f"/api/{view.resource}/{ID}"
    assert alice.get(created.headers["Location"].removeprefix("/api")).get_json()["id"] == ID


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


def test_two_workspaces_can_have_a_task_with_the_same_id(alice, charlie):
    for client in alice, charlie:
        assert client.post("/tasks", {**NEW["tasks"], "id": ID}).status_code == 201
    assert charlie.patch(f"/tasks/{ID}", {"title": "Ours"}).status_code == 200
    assert alice.get(f"/tasks/{ID}").get_json()["title"] == "Write the report"


def test_the_id_of_a_meeting_is_taken_in_every_workspace_and_the_409_shows_nothing_else(
    alice, charlie
):
    alice.post("/meetings", {**NEW["meetings"], "id": ID})
    response = charlie.post("/meetings", {**NEW["meetings"], "id": ID})
    assert invalid_field(response, "id", status=409) == TAKEN
    assert {*response.get_json()} == {"message", "status", "errors", "requestId"}


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
