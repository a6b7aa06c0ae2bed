"""Undoing a change or a deletion with what its event tells, as docs/sync.md says under *Undo*."""

import pytest
from support.http import error_message, invalid_field

from service.api.meetings import Meeting
from service.api.tasks import Task

DATA = {"metadata": {"kept": "1", "changed": "2", "removed": "3"}}
OTHER_DATA = {"metadata": {"changed": "4", "removed": None, "added": "5"}}
TIMES = {"startTime": "2097-03-01T09:00:00Z", "endTime": "2097-03-01T10:00:00Z"}
NEW = {
    "/tasks": {"title": "Old", "dueDate": "2097-03-01", "status": "todo", **DATA},
    "/meetings": {"title": "Old", "agenda": "Talk", **TIMES, **DATA},
}
CHANGES = {
    "/tasks": {"title": "New", "dueDate": "2097-04-01T12:00:00Z", "status": "done", **OTHER_DATA},
    "/meetings": {"title": "New", "agenda": None, "endTime": "2097-03-01T11:00:00Z", **OTHER_DATA},
}
SCHEMAS = {"/tasks": Task(), "/meetings": Meeting()}
# They tell which change this is, not what the object says.
OF_THE_CHANGE = "version", "updatedAt", "updatedBy", "createdAt", "createdBy"


def said(document):
    return {name: value for name, value in document.items() if name not in OF_THE_CHANGE}


def with_day(document):
    return {**document, "dueDate": document["dueDay"]} if document.get("dueDay") else document


def settable(path, document):
    """Return the members that a client can set, with a day as the due date."""
    fields = SCHEMAS[path].fields.values()
    names = {field.data_key or field.name for field in fields if not field.dump_only}
    return {name: value for name, value in with_day(document).items() if name in names}


@pytest.fixture
def events(alice):
    """Return a function that returns the events since the test began."""
    cursor = alice.get("/events").get_json()["nextCursor"]
    return lambda: alice.get("/events", query_string={"after": cursor}).get_json()["data"]


def undo(client, path, event):
    body = with_day(event["previous"])
    added = dict.fromkeys(event["data"]["metadata"])
    body["metadata"] = {**added, **body["metadata"]}
    version = {"If-Match": f'"{event["data"]["version"]}"'}
    return client.patch(f"{path}/{event['data']['id']}", body, headers=version)


@pytest.mark.parametrize("path", NEW)
def test_a_change_is_undone_by_sending_previous_to_the_version_of_its_event(alice, events, path):
    before = alice.post(path, NEW[path]).get_json()
    changed = alice.patch(f"{path}/{before['id']}", CHANGES[path]).get_json()
    assert said(changed) != said(before)
    undone = undo(alice, path, events()[-1])
    assert undone.status_code == 200
    assert said(undone.get_json()) == said(before)


@pytest.mark.parametrize("path", NEW)
def test_a_change_is_not_undone_over_the_change_of_somebody_else(alice, bob, events, path):
    before = alice.post(path, NEW[path]).get_json()
    alice.patch(f"{path}/{before['id']}", CHANGES[path])
    event = events()[-1]
    theirs = bob.patch(f"{path}/{before['id']}", {"title": "Bob's"}).get_json()
    refused = undo(alice, path, event)
    error_message(refused, 412)
    assert refused.get_json()["current"] == theirs


@pytest.mark.parametrize("path", NEW)
def test_a_deletion_is_undone_by_creating_the_object_again_with_its_id(alice, events, path):
    before = alice.post(path, NEW[path]).get_json()
    object_path = f"{path}/{before['id']}"
    assert alice.delete(object_path).status_code == 204
    again = {**settable(path, events()[-1]["data"]), "id": before["id"]}
    created = alice.post(path, again).get_json()
    assert created["version"] > before["version"]
    assert said(created) == said(before)
    stale = alice.patch(object_path, {"title": "x"}, headers={"If-Match": '"1"'})
    error_message(stale, 412)
    assert invalid_field(alice.post(path, again), "id", 409).startswith("is taken")


def test_the_subtasks_of_a_deleted_task_are_created_again_after_it(alice, events):
    parent = alice.post("/tasks", {"title": "Parent"}).get_json()
    titles = {"First", "Second"}
    for title in titles:
        alice.post("/tasks", {"title": title, "parentId": parent["id"]})
    alice.delete(f"/tasks/{parent['id']}")
    deleted = [event["data"] for event in events() if event["type"] == "task.deleted"]
    assert len(deleted) == 3
    # A copy with foreign keys can follow the events: the subtasks are deleted before their parent.
    assert deleted[-1]["id"] == parent["id"]
    for task in sorted(deleted, key=lambda task: task["parentId"] is not None):
        again = {**settable("/tasks", task), "id": task["id"]}
        assert alice.post("/tasks", again).status_code == 201
    subtasks = alice.get(f"/tasks?parentId={parent['id']}").get_json()["data"]
    assert {task["title"] for task in subtasks} == titles
