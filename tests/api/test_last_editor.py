"""updatedBy of tasks and meetings, and the old values in the events of their updates."""

import json

import pytest
from support.commands import CommandRunner
from support.http import error_message, read_all
from support.receivers import subscribe

TIMES = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
OBJECTS = {"tasks": {"title": "Old"}, "meetings": {"title": "Old", **TIMES}}

# The UPDATEs of release 1.0.0 and of an operator. Release 1.0.0 sets the version itself, and does
# not know the columns of updatedBy.
OLD_RELEASE = "UPDATE {} SET title = %s, updated_at = now_ms(), version = version + 1"
OPERATOR = "UPDATE {} SET title = %s"

each_kind = pytest.mark.parametrize("kind", OBJECTS)


@pytest.fixture
def cli(app):
    return lambda *words, **options: CommandRunner(app).invoke(words, **options)


def editor(client, path):
    return client.get(path).get_json()["updatedBy"]


@each_kind
def test_the_last_editor_is_the_author_and_then_each_member_who_changes_something(
    alice, bob, cast, kind
):
    made = alice.post(f"/{kind}", OBJECTS[kind]).get_json()
    path = f"/{kind}/{made['id']}"
    assert made["updatedBy"] == editor(bob, path) == cast["alice"]
    assert read_all(bob, f"/{kind}") == [made]
    # A request that changes nothing does not make Bob the last editor.
    assert bob.patch(path, {"title": "Old"}).get_json() == made
    changed = bob.patch(path, {"title": "New"}).get_json()
    assert (changed["updatedBy"], changed["createdBy"]) == (cast["bob"], cast["alice"])
    # A client that sends an object back cannot choose its last editor.
    alice.patch(path, {**changed, "title": "Newer", "updatedBy": cast["bob"]})
    assert editor(bob, path) == cast["alice"]
    refused = alice.post(f"/{kind}", {**OBJECTS[kind], "updatedBy": cast["bob"]})
    assert error_message(refused, 400) == "updatedBy: is read-only; the service sets it"


@each_kind
@pytest.mark.parametrize("update", [OLD_RELEASE, OPERATOR], ids=["1.0.0", "an operator"])
def test_nobody_is_named_after_a_change_whose_user_is_not_known(
    alice, bob, cast, connection, kind, update
):
    made = bob.post(f"/{kind}", OBJECTS[kind]).get_json()
    path = f"/{kind}/{made['id']}"
    for title in ("A", "B"):
        connection.execute(update.format(kind), (title,))
        shown = alice.get(path).get_json()
        assert (shown["title"], shown["updatedBy"]) == (title, None)
        assert shown["version"] > made["version"]
        made = alice.patch(path, {"title": "C"}).get_json()
        assert made["updatedBy"] == cast["alice"]
    events_before = connection.execute("SELECT count(*) FROM events").fetchone()
    connection.execute(f"UPDATE {kind} SET title = title")
    assert alice.get(path).get_json() == made
    assert connection.execute("SELECT count(*) FROM events").fetchone() == events_before


def test_an_object_that_1_0_0_creates_shows_no_editor_until_somebody_changes_it(
    alice, insert_into, cast
):
    """Release 1.0.0 leaves the columns empty, as this row does."""
    path = f"/tasks/{insert_into('tasks')}"
    assert editor(alice, path) is None
    assert alice.patch(path, {"title": "New"}).get_json()["updatedBy"] == cast["alice"]


def test_the_last_editor_keeps_a_name_after_leaving_and_loses_it_with_the_account(
    alice, bob, cast, cli
):
    made = alice.post("/tasks", {"title": "Old"}).get_json()
    path, member = f"/tasks/{made['id']}", f"/workspaces/{cast['acme']}/members/{cast['bob']}"
    before = bob.patch(path, {"title": "New"}).get_json()
    assert cli("user", "deactivate", "bob@example.com").exit_code == 0
    assert alice.get(path).get_json() == before
    assert alice.delete(member).status_code == 204
    assert alice.get(path).get_json() == before
    assert alice.get(member).get_json()["name"] == "Bob"
    assert cli("user", "delete", "bob@example.com", "--yes").exit_code == 0
    assert alice.get(path).get_json() == before
    assert error_message(alice.get(member), 404)


@pytest.mark.parametrize("remover", ["alice", "bob"])
def test_removing_a_member_makes_the_remover_the_last_editor_of_the_members_tasks(
    alice, bob, cast, remover
):
    assigned = alice.post("/tasks", {"title": "Old", "assigneeId": cast["bob"]}).get_json()
    other = bob.post("/tasks", {"title": "Other"}).get_json()
    client = {"alice": alice, "bob": bob}[remover]
    assert client.delete(f"/workspaces/{cast['acme']}/members/{cast['bob']}").status_code == 204
    shown = alice.get(f"/tasks/{assigned['id']}").get_json()
    assert (shown["assigneeId"], shown["updatedBy"], shown["version"]) == (None, cast[remover], 2)
    assert alice.get(f"/tasks/{other['id']}").get_json() == other


@each_kind
def test_an_export_keeps_the_last_editor_even_one_who_left_or_was_deleted(
    alice, bob, join, cast, cli, connection, kind
):
    dora = join("dora", "member")
    dora.headers["Workspace-Id"] = cast["acme"]
    paths = []
    for client in (alice, bob, dora):
        made = alice.post(f"/{kind}", OBJECTS[kind]).get_json()
        paths.append(f"/{kind}/{made['id']}")
        client.patch(paths[-1], {"title": "New"})
    unknown = alice.post(f"/{kind}", {**OBJECTS[kind], "title": "Unknown"}).get_json()
    connection.execute(f"UPDATE {kind} SET title = 'Changed' WHERE title = 'Unknown'")
    paths.append(f"/{kind}/{unknown['id']}")
    # Erin's change is not the last one, so nothing names her.
    erin = join("erin", "member")
    erin.headers["Workspace-Id"] = cast["acme"]
    erin.patch(paths[0], {"title": "Erin"})
    connection.execute(OLD_RELEASE.format(kind) + " WHERE title = 'Erin'", ("1.0.0",))
    for email in ("bob@example.com", "erin@example.com"):
        assert cli("member", "remove", "acme", email, "--yes").exit_code == 0
    assert cli("user", "delete", "dora@example.com", "--yes").exit_code == 0
    before = [alice.get(path).get_json() for path in paths]
    expected = [None, cast["bob"], cast["dora"], None]
    assert [one["updatedBy"] for one in before] == expected
    exported = cli("workspace", "export", "acme").stdout
    assert "erin@example.com" not in exported
    assert cli("workspace", "delete", "acme", "--yes").exit_code == 0
    connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
    connection.execute("DELETE FROM deleted_users")
    outcome = cli("load", "-", input=exported)
    assert outcome.exit_code == 0, outcome.output
    assert cli("workspace", "export", "acme").stdout == exported


@each_kind
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ({}, "alice"),
        ({"version": 1}, "alice"),
        ({"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}, "alice"),
        ({"createdBy": "bob@example.com"}, "bob"),
        ({"updatedBy": "bob@example.com"}, "bob"),
        ({"updatedBy": "bob@example.com", "version": 7}, "bob"),
        ({"version": 2}, None),
        ({"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-02T00:00:00Z"}, None),
        ({"updatedAt": "2026-01-02T00:00:00Z"}, None),
    ],
)
def test_a_loaded_object_shows_its_author_as_last_editor_only_if_it_was_never_changed(
    alice, bob, cast, cli, kind, line, shown
):
    """An export of release 1.0.0 has versions and times, but no updatedBy."""
    whole = {"type": kind[:-1], "workspace": "acme", **OBJECTS[kind], **line}
    outcome = cli("load", "-", input=json.dumps(whole) + "\n")
    assert outcome.exit_code == 0, outcome.output
    (found,) = read_all(alice, f"/{kind}")
    assert found["updatedBy"] == (shown and cast[shown])
    assert (
        bob.patch(f"/{kind}/{found['id']}", {"title": "New"}).get_json()["updatedBy"]
        == (cast["bob"])
    )


def test_the_body_of_an_update_has_the_old_values_without_spaces(alice, cast, connection):
    """Numbers, quotes, line ends, characters outside of ASCII and long texts stay as they were."""
    subscribe(connection, cast["acme"], "https://example.com/hook")
    long = 'Größe "≤" \\ 1\n\t😀' * 4000
    made = alice.post("/tasks", {"title": "A", "description": long}).get_json()
    changes = {"title": "B", "description": None, "dueDate": "2027-01-01T00:00:00Z"}
    alice.patch(f"/tasks/{made['id']}", {**changes, "status": "done"})
    query = "SELECT body FROM events WHERE type = 'task.updated'"
    body = connection.execute(query).fetchone()["body"]
    old = json.dumps(long, ensure_ascii=False)
    expected = (
        f'"previous":{{"title":"A","description":{old},"status":"todo","dueDate":null'
        ',"completedAt":null,"completedBy":null}}'
    )
    assert body.endswith(expected)


@pytest.mark.parametrize("join", ["hashjoin", "mergejoin"])
def test_previous_has_the_order_of_changed_however_postgresql_joins_the_two(connection, join):
    with connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL enable_{join} = off")
        found = connection.execute(
            "SELECT members_of(%s::json, %s::json)::text AS members",
            ['{"b":1,"c":2,"d":3,"a":4}', '["d","a","b"]'],
        ).fetchone()
    assert found == {"members": '{"d":3,"a":4,"b":1}'}
