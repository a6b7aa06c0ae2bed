"""Ids that are made again: an id and a version always name the same state of one object."""

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from support.commands import CommandRunner
from support.rows import count
from support.statements import until_waiting

from service.settings import Settings
from service.webhooks.worker import Worker

ID = "01a21515-9cef-7b81-8bc8-d347d16c575d"
PARENT = "01a21515-9cef-7b81-8bc8-d347d16c5750"
TIMES = {"startTime": "2097-03-01T09:00:00Z", "endTime": "2097-03-01T10:00:00Z"}
# By kind: the path of the list, and the members of a new object.
KINDS = {
    "task": ("/tasks", {}),
    "subtask": ("/tasks", {"parentId": PARENT}),
    "meeting": ("/meetings", TIMES),
}
LAST = 3


def post(client, path, body):
    assert client.post(path, body).status_code == 201


def batch(client, path, body):
    assert client.post("/tasks/batch", {"create": [body]}).status_code == 200


def load(client, path, body, **more):
    """Load the object as the version 1, or as the version in ``more``."""
    line = {"type": path[1:-1], "workspace": "acme", "createdBy": "alice@example.com"}
    file = client.folder / "in.jsonl"
    file.write_text(json.dumps({**line, **body, **more}))
    outcome = CommandRunner(client.app).invoke(args=["load", str(file)])
    assert outcome.exit_code == 0, outcome.output


def delete(client, path):
    assert client.delete(f"{path}/{ID}").status_code == 204


def delete_in_a_batch(client, path):
    assert client.post("/tasks/batch", {"delete": [{"id": ID}]}).status_code == 200


def delete_the_parent(client, path):
    assert client.delete(f"{path}/{PARENT}").status_code == 204
    post(client, path, {"id": PARENT, "title": "Parent"})


def delete_with_another_statement(client, path):
    """Delete it as an older release does, which knows nothing of versions of deleted objects."""
    client.connection.execute(f"DELETE FROM {path[1:]} WHERE id = %s", (ID,))


MADE = {kind: [post, load] if kind == "meeting" else [post, batch, load] for kind in KINDS}
DELETED = {
    "task": [delete, delete_in_a_batch, delete_with_another_statement],
    "subtask": [delete, delete_in_a_batch, delete_the_parent, delete_with_another_statement],
    "meeting": [delete, delete_with_another_statement],
}
# The suite tries each way to delete with one way to make, and the other way round. The slow tests
# try the other pairs.
WAYS = [
    pytest.param(
        kind,
        gone,
        made,
        id=f"{kind}-{gone.__name__}-{made.__name__}",
        marks=() if gone is delete or made is post else pytest.mark.slow,
    )
    for kind in KINDS
    for gone in DELETED[kind]
    for made in MADE[kind]
]


@pytest.fixture
def client(app, alice, connection, tmp_path):
    """Return Alice, with what the ways to make and to delete an object need."""
    alice.app, alice.connection, alice.folder = app, connection, tmp_path
    return alice


def made(client, kind):
    """Make an object of the kind, change it twice, and return its path and members."""
    path, more = KINDS[kind]
    body = {"id": ID, "title": "First", **more}
    if kind == "subtask":
        post(client, path, {"id": PARENT, "title": "Parent"})
    post(client, path, body)
    for version in range(2, LAST + 1):
        changed = client.patch(f"{path}/{ID}", {"title": f"First {version}"})
        assert changed.get_json()["version"] == version
    return path, {**body, "title": "Second"}


@pytest.mark.parametrize(("kind", "gone", "make"), WAYS)
def test_an_object_that_gets_the_id_of_a_deleted_one_begins_above_its_last_version(
    client, kind, gone, make
):
    path, body = made(client, kind)
    gone(client, path)
    make(client, path, body)
    second = client.get(f"{path}/{ID}").get_json()
    assert (second["title"], second["version"]) == ("Second", LAST + 1)
    assert second["updatedBy"] == second["createdBy"]
    for version in range(1, LAST + 1):
        old = f'"{version}"'
        read = client.get(f"{path}/{ID}", headers={"If-None-Match": old})
        assert (read.status_code, read.headers["ETag"]) == (200, f'"{LAST + 1}"')
        changed = client.patch(f"{path}/{ID}", {"title": "x"}, headers={"If-Match": old})
        assert changed.status_code == 412
        assert client.delete(f"{path}/{ID}", headers={"If-Match": old}).status_code == 412
        if path == "/tasks":
            item = {"id": ID, "version": version}
            assert client.post("/tasks/batch", {"delete": [item]}).status_code == 412
    assert client.get(f"{path}/{ID}").get_json() == second
    # The next deletion counts as the first one did.
    gone(client, path)
    make(client, path, body)
    assert client.get(f"{path}/{ID}").get_json()["version"] == LAST + 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_versions_of_an_id_only_grow_in_the_feed(client, kind):
    path, _ = KINDS[kind]
    cursor = client.get("/events").get_json()["nextCursor"]
    path, body = made(client, kind)
    delete(client, path)
    post(client, path, body)
    client.patch(f"{path}/{ID}", {"title": "Third"})
    events = client.get("/events", query_string={"after": cursor}).get_json()["data"]
    found = [
        (event["type"].partition(".")[2], event["data"]["version"])
        for event in events
        if event["data"]["id"] == ID
    ]
    assert found == [
        ("created", 1), ("updated", 2), ("updated", 3), ("deleted", 3), ("created", 4),
        ("updated", 5),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["task", "meeting"])
def test_a_loaded_version_counts_if_it_is_above_the_last_one_of_the_deleted_object(client, kind):
    path, body = made(client, kind)
    delete(client, path)
    load(client, path, body, version=LAST)
    assert client.get(f"{path}/{ID}").get_json()["version"] == LAST + 1
    delete(client, path)
    load(client, path, body, version=9)
    assert client.get(f"{path}/{ID}").get_json()["version"] == 9


@pytest.mark.parametrize("kind", ["task", "meeting"])
def test_an_id_that_was_never_deleted_begins_with_version_1(client, charlie, kind):
    path, body = made(client, kind)
    delete(client, path)
    # Versions of another workspace do not count, and neither do those of other ids.
    assert charlie.post(path, {**body, "id": ID}).get_json()["version"] == 1
    assert client.post(path, {**body, "id": PARENT}).get_json()["version"] == 1
    assert client.post(path, {**KINDS[kind][1], "title": "x"}).get_json()["version"] == 1


@pytest.mark.parametrize("make", [post, load])
@pytest.mark.parametrize("kind", ["task", "meeting"])
def test_an_object_that_is_made_while_the_old_one_is_being_deleted_begins_above_its_version(
    client, database_url, kind, make
):
    path, body = made(client, kind)
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database_url) as other:
        other.execute(f"DELETE FROM {path[1:]} WHERE id = %s", (ID,))
        running = threads.submit(make, client, path, body)
        until_waiting(client.connection, running)
        other.commit()
        running.result(20)
    assert client.get(f"{path}/{ID}").get_json()["version"] == LAST + 1


def test_an_undone_deletion_answers_a_repeat_with_its_key_as_the_first_time(client):
    path, body = made(client, "task")
    delete(client, path)
    first, second = (client.post(path, body, headers={"Idempotency-Key": "undo"}) for _ in "12")
    assert (first.get_json()["version"], second.get_json()) == (LAST + 1, first.get_json())


@pytest.mark.parametrize("kind", ["task", "meeting"])
def test_a_workspace_that_is_deleted_leaves_no_versions(client, cast, database_url, kind):
    path, body = made(client, kind)
    delete(client, path)
    post(client, path, body)
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database_url) as other:
        # The workspace is deleted while another transaction deletes an object of it.
        other.execute(f"DELETE FROM {path[1:]} WHERE id = %s", (ID,))
        delete_workspace = "DELETE FROM workspaces WHERE id = %s"
        running = threads.submit(
            lambda: psycopg.connect(database_url, autocommit=True).execute(
                delete_workspace, (cast["acme"],)
            )
        )
        until_waiting(client.connection, running)
        other.commit()
        running.result(20).connection.close()
    assert count(client.connection, "deleted_versions") == 0


def test_the_worker_prunes_the_version_of_a_deleted_object_after_400_days(
    client, connection, plain_url
):
    path, _ = made(client, "task")
    delete(client, path)
    age = "UPDATE deleted_versions SET deleted_at = now() - %s::interval"
    for days, left in ((399, 1), (401, 0)):
        connection.execute(age, (f"{days} days",))
        Worker(Settings.read({"DATABASE_URL": plain_url})).run_once(deliver=False)
        assert count(connection, "deleted_versions") == left


@pytest.mark.parametrize("kind", ["task", "meeting"])
def test_a_moved_workspace_remembers_the_versions_of_what_was_deleted(client, kind):
    path, body = made(client, kind)
    delete(client, path)
    runner = CommandRunner(client.app)
    exported = runner.invoke(args=["workspace", "export", "acme"]).stdout_bytes
    assert runner.invoke(args=["workspace", "delete", "acme", "--yes"]).exit_code == 0
    loaded = runner.invoke(args=["load", "--match-users", "email", "-"], input=exported)
    assert loaded.exit_code == 0, loaded.output
    assert client.post(path, {**body, "id": ID}).get_json()["version"] == LAST + 1
