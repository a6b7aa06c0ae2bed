"""Names of people who have left, and the limit of a workspace's members."""

import json

import pytest
from support.commands import CommandRunner, assert_failed
from support.http import error_message
from support.rows import count, insert_member
from support.statements import configure, generic_plan

MAXIMUM = 10_000


@pytest.fixture
def path(cast):
    return f"/workspaces/{cast['acme']}/members"


@pytest.fixture
def cli(app):
    return lambda *words, **options: CommandRunner(app).invoke(words, **options)


def ids_in(event):
    data = event["data"]
    named = (data.get(name) for name in ("createdBy", "assigneeId", "updatedBy"))
    return {event["actorId"], *named} - {None}


def left(name, id):
    return {"userId": id, "name": name, "email": None, "role": None, "joinedAt": None}


@pytest.mark.parametrize("removal", ["the request", "the command", "SQL"])
def test_a_former_member_whom_an_event_or_an_object_names_still_has_a_name(
    alice, bob, join, cast, cli, connection, path, removal
):
    """Zoe only edits, Max is only assigned, Eve creates a task and a meeting."""
    zoe, eve = join("zoe", "member"), join("eve", "admin")
    join("max", "member")
    for client in (zoe, eve):
        client.headers["Workspace-Id"] = cast["acme"]
    cursor = alice.get("/events").get_json()["nextCursor"]
    task = eve.post("/tasks", {"title": "Paint"}).get_json()
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    eve.post("/meetings", {"title": "Weekly", **times})
    zoe.patch(f"/tasks/{task['id']}", {"status": "done"})
    alice.patch(f"/tasks/{task['id']}", {"assigneeId": cast["max"]})
    for name in ("zoe", "max", "eve"):
        match removal:
            case "the request":
                assert alice.delete(f"{path}/{cast[name]}").status_code == 204
            case "the command":
                words = "member", "remove", "acme", f"{name}@example.com", "--yes"
                assert cli(*words).exit_code == 0
            case "SQL":
                connection.execute("DELETE FROM members WHERE user_id = %s", (cast[name],))
    events = alice.get("/events", query_string={"after": cursor}).get_json()["data"]
    named = set().union(*map(ids_in, events))
    assert named == {cast[name] for name in ("alice", "zoe", "max", "eve")}
    for name in ("zoe", "max", "eve"):
        shown = bob.get(f"{path}/{cast[name]}").get_json()
        assert shown == left(name.capitalize(), cast[name])
    assert [one["name"] for one in bob.get(path).get_json()] == ["Alice", "Bob"]


def test_only_members_of_the_workspace_see_the_name_of_its_former_member(
    alice, bob, charlie, initech, cast, connection, path
):
    assert alice.delete(f"{path}/{cast['bob']}").status_code == 204
    assert alice.get(f"{path}/{cast['bob']}").get_json() == left("Bob", cast["bob"])
    for client, place in (
        (bob, f"{path}/{cast['bob']}"),
        (charlie, f"{path}/{cast['bob']}"),
        (charlie, f"/workspaces/{cast['globex']}/members/{cast['bob']}"),
        (alice, f"/workspaces/{initech}/members/{cast['bob']}"),
        (alice, f"{path}/{cast['charlie']}"),
    ):
        assert error_message(client.get(place), 404)
    # A former member who returns is a member again; a deleted user has no name.
    back = alice.post(path, {"email": "bob@example.com"}).get_json()
    assert alice.get(f"{path}/{cast['bob']}").get_json() == back
    assert alice.delete(f"{path}/{cast['bob']}").status_code == 204
    assert alice.get(f"{path}/{cast['bob']}").get_json() == left("Bob", cast["bob"])
    connection.execute("DELETE FROM users WHERE name = 'Bob'")
    assert error_message(alice.get(f"{path}/{cast['bob']}"), 404)


def test_a_former_member_cannot_be_changed_removed_or_assigned(alice, cast, path):
    bob = f"{path}/{cast['bob']}"
    assert alice.delete(bob).status_code == 204
    assert error_message(alice.patch(bob, {"role": "admin"}), 404) == "Member not found"
    assert error_message(alice.delete(bob), 404) == "Member not found"
    task = {"title": "Paint", "assigneeId": cast["bob"]}
    assert "must be the id of a member" in error_message(alice.post("/tasks", task), 400)


def test_deleting_a_user_or_a_workspace_also_deletes_the_rows_of_former_members(
    connection, cast, cli
):
    insert_member(connection, cast["globex"], cast["bob"])
    assert cli("user", "delete", "bob@example.com", "--yes").exit_code == 0
    assert count(connection, "former_members") == 0
    assert cli("workspace", "delete", "acme", "--yes").exit_code == 0
    assert count(connection, "former_members") == 0
    assert count(connection, "members") == 1


def test_an_author_or_last_editor_of_loaded_objects_has_a_name_even_without_a_membership(
    alice, cast, cli, connection, path
):
    """A member who left before an export also has a name where the export is loaded."""
    times = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
    author = {"workspace": "acme", "createdBy": "charlie@example.com"}
    lines = [
        {"type": "user", "email": "mia@example.com", "name": "Mia"},
        {"type": "task", "title": "Loaded", **author},
        {"type": "task", "title": "Loaded", **author, "createdBy": "mia@example.com"},
        {"type": "meeting", "title": "Loaded", **times, **author, "createdBy": "bob@example.com"},
        {"type": "user", "email": "eve@example.com", "name": "Eve"},
        {"type": "task", "title": "Loaded", **author, "updatedBy": "eve@example.com"},
        # A user whom a later line makes a member is not a former member.
        {"type": "member", "workspace": "acme", "user": "mia@example.com"},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    outcome = cli("load", "-", input=text)
    assert outcome.exit_code == 0, outcome.output
    assert alice.get(f"{path}/{cast['charlie']}").get_json() == left("Charlie", cast["charlie"])
    eve = alice.get("/tasks").get_json()["data"][0]["updatedBy"]
    assert alice.get(f"{path}/{eve}").get_json() == left("Eve", eve)
    former = connection.execute("SELECT user_id::text AS id FROM former_members").fetchall()
    assert {row["id"] for row in former} == {cast["charlie"], eve}


def test_reading_a_member_scans_no_table_of_tasks_or_meetings(connection):
    with connection.transaction():
        configure(connection)
        nodes = generic_plan(connection, "members/get")
    read = {node["Relation Name"] for node in nodes if "Relation Name" in node}
    assert read == {"members", "users", "former_members"}


@pytest.fixture
def almost_full(connection, cast):
    """Fill Acme until there is room for exactly one more member."""
    connection.execute(
        "WITH person AS ("
        "    INSERT INTO users (name, email)"
        "    SELECT 'Person', n || '@example.com' FROM generate_series(4, %s) AS n RETURNING id"
        ") INSERT INTO members (workspace_id, user_id) SELECT %s, id FROM person",
        (MAXIMUM, cast["acme"]),
    )
    assert count(connection, "members", f"workspace_id = '{cast['acme']}'") == MAXIMUM - 1


@pytest.mark.slow
@pytest.mark.usefixtures("almost_full")
def test_a_workspace_has_at_most_10000_members(
    alice, join, together, cast, cli, connection, path, initech
):
    join("dora", "owner")
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["dora"],))
    key = {"Idempotency-Key": "1"}
    # Of two requests that add the last possible member at the same time, one succeeds.
    responses = together(
        "workspaces",
        cast["acme"],
        lambda: alice.post(path, {"email": "mia@example.com"}, headers=key),
        lambda: alice.post(path, {"email": "charlie@example.com"}),
    )
    assert sorted(response.status_code for response in responses) == [201, 409]
    users = count(connection, "users")
    full = "The workspace has 10 000 members, the maximum; remove one of them first"
    for email in ("dora@example.com", "new@example.com"):
        assert error_message(alice.post(path, {"email": email}), 409) == full
    assert_failed(cli("member", "add", "acme", "dora@example.com"), "at most 10000")
    line = {"type": "member", "workspace": "acme", "user": "dora@example.com"}
    outcome = cli("load", "-", input=f"{json.dumps(line)}\n")
    assert_failed(outcome, "1: members: must be at most 10000 in a workspace")
    # No user was created, and adding an existing member still has its own message.
    assert count(connection, "users") == users
    assert len(alice.get(path).get_json()) == MAXIMUM
    assert alice.get(f"/workspaces/{cast['acme']}").get_json()["memberCount"] == MAXIMUM
    again = error_message(alice.post(path, {"email": "bob@example.com"}), 409)
    assert again.endswith("is already a member")
    changed = alice.patch(f"{path}/{cast['bob']}", {"role": "admin"})
    assert changed.status_code == 200
    # Another workspace has room, and so has this one after a removal.
    other = f"/workspaces/{initech}/members"
    assert alice.post(other, {"email": "dora@example.com"}).status_code == 201
    assert alice.delete(f"{path}/{cast['bob']}").status_code == 204
    assert alice.post(path, {"email": "dora@example.com"}).status_code == 201
