"""Batches: many tasks created, changed and deleted in one request, all of them or none."""

import json
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from uuid import uuid4

import psycopg
import pytest
from support.derived import Values, references, settable
from support.http import Client, error_message, invalid_field
from support.receivers import subscribe
from support.rows import TOKENS, UNKNOWN, count

from service.api.tasks import Task
from service.web.errors import MAX_CURRENT

PARENT = "01a21515-9cef-7b81-8bc8-d347d16c575d"
PATH = "/tasks/batch"


@pytest.fixture
def three(alice):
    """Three tasks; the third is a subtask of the first."""
    tasks = [alice.post("/tasks", {"title": title}).get_json() for title in ("a", "b")]
    child = alice.post("/tasks", {"title": "c", "parentId": tasks[0]["id"]}).get_json()
    return [*tasks, child]


@pytest.fixture
def deadlocks(connection):
    """Return a function that counts the deadlocks in this database since the test began."""

    def count():
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        return row["deadlocks"]

    before = count()
    return lambda: count() - before


def everything(client):
    return client.get("/tasks").get_json()["data"]


def faults(response, status):
    """Return the fields and messages of an error response."""
    message = error_message(response, status)
    errors = response.get_json()["errors"]
    assert message == "; ".join(f"{error['field']}: {error['message']}" for error in errors)
    return {error["field"]: error["message"] for error in errors}


def test_a_batch_creates_changes_and_deletes_in_the_order_of_the_request(alice, three):
    a, b, _ = three
    response = alice.post(
        PATH,
        {
            "delete": [{"id": a["id"], "version": 1}],
            "update": [{"id": b["id"], "status": "done", "version": 1}],
            "create": [
                {"id": PARENT, "title": "Parent"},
                *({"title": f"Child {n}", "parentId": PARENT} for n in range(50)),
            ],
        },
    )
    done = response.get_json()
    assert response.status_code == 200
    assert [*done] == ["created", "updated", "deleted"]
    titles = ["Parent", *(f"Child {n}" for n in range(50))]
    assert [task["title"] for task in done["created"]] == titles
    assert {task["parentId"] for task in done["created"][1:]} == {PARENT}
    assert [(task["id"], task["version"]) for task in done["updated"]] == [(b["id"], 2)]
    assert done["deleted"] == [a["id"]]
    # The subtask of the deleted task is deleted too. A list has the newest first.
    listed = alice.get("/tasks", query_string={"limit": 200}).get_json()["data"]
    made = {task["id"]: task for task in [*done["created"], *done["updated"]]}
    assert {task["id"]: task for task in listed} == made
    children = [task["title"] for task in listed if task["parentId"]]
    assert children == titles[:0:-1]


def test_a_batch_stores_each_field_of_a_task_as_the_request_for_one_task_does(
    alice, cast, connection, insert_into
):
    """The fields come from the schema, so a new one is tested as soon as the schema has it."""
    values = Values(references(connection, cast, insert_into))
    schema = Task()
    fields = [field for field in settable(schema) if field.data_key not in ("id", "title")]
    assert len(fields) > 5
    volatile = {"id", "createdAt", "updatedAt", "completedAt"}

    def stable(task):
        kept = {name: value for name, value in task.items() if name not in volatile}
        assert alice.get(f"/tasks/{task['id']}").get_json() == task
        return {**kept, "completed": task["completedAt"] is not None}

    for field in fields:
        for value in [*values.of(field, schema), None]:
            body = {"title": "x", field.data_key: value}
            one = alice.post("/tasks", body)
            many = alice.post(PATH, {"create": [body]})
            if one.status_code == 201:
                assert stable(many.get_json()["created"][0]) == stable(one.get_json()), body
            else:
                prefixed = {
                    f"create[0].{error['field']}": error["message"]
                    for error in one.get_json()["errors"]
                }
                assert faults(many, one.status_code) == prefixed
                continue
            targets = [alice.post("/tasks", {"title": "y"}).get_json()["id"] for _ in range(2)]
            changes = {field.data_key: value}
            one = alice.patch(f"/tasks/{targets[0]}", changes)
            many = alice.post(PATH, {"update": [{"id": targets[1], **changes}]})
            assert stable(many.get_json()["updated"][0]) == stable(one.get_json()), changes


def test_a_day_as_due_date_ends_in_the_timezone_of_the_workspace(alice, cast, connection):
    connection.execute(
        "UPDATE workspaces SET timezone = 'Asia/Tokyo' WHERE id = %s", (cast["acme"],)
    )
    days = ["2027-03-01", "2027-03-02"]
    response = alice.post(PATH, {"create": [{"title": day, "dueDate": day} for day in days]})
    created = response.get_json()["created"]
    assert [task["dueDay"] for task in created] == days
    assert [task["dueDate"] for task in created] == [f"{day}T14:59:59.999Z" for day in days]
    response = alice.post(PATH, {"update": [{"id": created[0]["id"], "dueDate": "2027-03-08"}]})
    assert response.get_json()["updated"][0]["dueDay"] == "2027-03-08"


def test_one_refused_task_undoes_all_and_every_refused_task_is_named(alice, three, connection):
    a, b, c = three
    before = everything(alice)
    response = alice.post(
        PATH,
        {
            "create": [
                {"title": "fine"},
                {"title": "taken", "id": b["id"]},
                {"title": "grandchild", "parentId": c["id"]},
                {"title": "stranger", "assigneeId": UNKNOWN},
            ],
            "update": [
                {"id": PARENT.upper(), "title": "nobody"},
                {"id": a["id"], "version": 7, "title": "late"},
            ],
            "delete": [{"id": UNKNOWN}, {"id": c["id"], "version": 3}],
        },
    )
    assert faults(response, 409) == {
        "create[1].id": "is taken: another object has this id",
        "create[2].parentId": "must not be the id of a subtask",
        "create[3].assigneeId": "must be the id of a member of the workspace",
        "update[0].id": "Task not found",
        "update[1].version": "the task has changed; its current version is 1",
        "delete[0].id": "Task not found",
        "delete[1].version": "the task has changed; its current version is 1",
    }
    current = [error.get("current") for error in response.get_json()["errors"]]
    assert current == [None, None, None, None, a, None, c]
    assert everything(alice) == before


@pytest.mark.parametrize(
    ("batch", "status"),
    [
        ({"update": [{"id": UNKNOWN, "title": "x"}]}, 404),
        ({"delete": [{"id": UNKNOWN}]}, 404),
        ({"create": [{"title": "x", "parentId": UNKNOWN}], "delete": [{"id": UNKNOWN}]}, 400),
        ({"update": [{"id": "b", "version": 9}], "delete": [{"id": UNKNOWN}]}, 412),
    ],
)
def test_the_status_is_that_of_the_first_error(alice, three, batch, status):
    for item in batch.get("update", []):
        item["id"] = three[1]["id"] if item["id"] == "b" else item["id"]
    assert len(faults(alice.post(PATH, batch), status)) == sum(map(len, batch.values()))


def test_a_task_and_its_subtask_can_be_deleted_in_one_batch(alice, three):
    a, b, c = three
    ids = [a["id"], c["id"], b["id"]]
    response = alice.post(PATH, {"delete": [{"id": id} for id in ids]})
    assert (response.status_code, response.get_json()["deleted"]) == (200, ids)
    assert everything(alice) == []
    # If a batch is refused, only the tasks that are really missing are named.
    response = alice.post("/tasks", {"title": "parent"}).get_json()
    child = alice.post("/tasks", {"title": "child", "parentId": response["id"]}).get_json()
    batch = {"delete": [{"id": response["id"]}, {"id": child["id"]}, {"id": UNKNOWN}]}
    assert [*faults(alice.post(PATH, batch), 404)] == ["delete[2].id"]


@pytest.mark.parametrize(
    ("batch", "field", "message"),
    [
        ({}, "body", "must have 1 to 100 items in create, update and delete together, not 0"),
        ({"create": [], "update": []}, "body", "must have 1 to 100 items in"),
        ({"create": [{"title": "x"}] * 60, "delete": [{}] * 41}, "body", "not 101"),
        ({"create": None}, "create", "must not be null"),
        ({"create": {"title": "x"}}, "create", "must be a list"),
        ({"create": ["x"]}, "create", "must be an object"),
        ({"creates": []}, "creates", "unknown field; did you mean create?"),
        ({"update": [{"title": "x"}]}, "update", "is required"),
        ({"update": [{"id": PARENT, "version": 0}]}, "update", "must be an integer from 1"),
        ({"delete": [{"id": PARENT, "version": "1"}]}, "delete", "must be an integer from 1"),
        ({"delete": [PARENT]}, "delete", "must be an object"),
        ({"delete": [{"id": PARENT, "title": "x"}]}, "delete", "unknown field; allowed: id"),
        ({"create": [{"title": "x", "version": 1}]}, "create", "is read-only"),
        (
            {"update": [{"id": PARENT}], "delete": [{"id": PARENT.upper()}]},
            "delete", "must not be the id of update[0], because a batch has each task once",
        ),
        (
            {"create": [{"id": PARENT, "title": "x"}, {"id": PARENT, "title": "y"}]},
            "create", "must not be the id of create[0]",
        ),
    ],
)  # fmt: skip
def test_an_invalid_batch_gets_400_and_changes_nothing(alice, connection, batch, field, message):
    assert message in invalid_field(alice.post(PATH, batch), field)
    assert count(connection, "tasks") == 0


def test_all_invalid_fields_of_all_tasks_are_named_at_once(alice):
    batch = {"create": [{"title": ""}] * 60, "update": [{"status": "x", "version": 0}] * 13}
    errors = alice.post(PATH, batch).get_json()["errors"]
    assert len(errors) == 60 + 3 * 13
    assert errors[59]["field"] == "create[59].title"
    assert errors[-1]["field"].startswith("update[12].")


def test_a_wrong_batch_costs_little_because_only_its_first_hundred_errors_are_found(alice):
    unknown = {f"{'n' * 90}{number}": 1 for number in range(30)}
    errors = alice.post(PATH, {"create": [{"title": "x", **unknown}] * 100}).get_json()["errors"]
    assert len(errors) == 100


def test_read_only_members_are_ignored_in_a_change_so_that_a_client_can_send_its_copy(alice, three):
    a, *_ = three
    response = alice.post(PATH, {"update": [{**a, "title": "mine"}]})
    assert response.get_json()["updated"][0]["version"] == 2
    stale = alice.post(PATH, {"update": [{**a, "title": "mine too"}]})
    assert [*faults(stale, 412)] == ["update[0].version"]
    same = alice.post(PATH, {"update": [response.get_json()["updated"][0]]})
    assert same.get_json()["updated"] == response.get_json()["updated"]


def test_nobody_reaches_a_task_of_another_workspace_with_a_batch(alice, charlie, three):
    a, b, c = three
    before = everything(alice)
    for batch in (
        {"update": [{"id": a["id"], "title": "x"}]}, {"delete": [{"id": b["id"], "version": 9}]},
    ):  # fmt: skip
        ((field, message),) = faults(charlie.post(PATH, batch), 404).items()
        assert (field.endswith("].id"), message) == (True, "Task not found")
    for name in "parentId", "assigneeId":
        foreign = {"parentId": a["id"], "assigneeId": a["createdBy"]}[name]
        unknown, other = (
            charlie.post(PATH, {"create": [{"title": "x", name: id}]}) for id in (UNKNOWN, foreign)
        )
        assert faults(unknown, 400) == faults(other, 400)
    assert everything(alice) == before
    # The id of a task of another workspace is free.
    assert charlie.post(PATH, {"create": [{"title": "x", "id": c["id"]}]}).status_code == 200
    assert everything(alice) == before


def test_a_refused_batch_stores_no_key(alice, connection):
    key = {"Idempotency-Key": "import-2"}
    refused = {"create": [{"title": "x"}], "delete": [{"id": UNKNOWN}]}
    for _ in range(2):
        assert alice.post(PATH, refused, headers=key).status_code == 404
    assert alice.post(PATH, {"create": [{"title": "x"}]}, headers=key).status_code == 200
    assert count(connection, "tasks") == 1


def test_a_batch_counts_as_one_request(alice):
    before = int(alice.get("/tasks").headers["X-RateLimit-Remaining"])
    response = alice.post(PATH, {"create": [{"title": "x"}] * 100})
    assert int(response.headers["X-RateLimit-Remaining"]) == before - 1


def test_the_feed_has_an_event_for_each_task_that_changed_in_the_order_of_the_batch(alice, three):
    a, b, c = three
    feed = alice.get("/events").get_json()["nextCursor"]
    alice.post(
        PATH,
        {
            "create": [{"title": f"new {n}"} for n in range(3)],
            "update": [{"id": b["id"], "title": "b2"}, {"id": c["id"], "title": "c"}],
            "delete": [{"id": a["id"]}],
        },
    )
    events = alice.get("/events", query_string={"after": feed}).get_json()["data"]
    assert [(event["type"], event["data"]["title"]) for event in events] == [
        ("task.created", "new 0"), ("task.created", "new 1"), ("task.created", "new 2"),
        ("task.updated", "b2"), ("task.deleted", "c"), ("task.deleted", "a"),
    ]  # fmt: skip
    assert {event["actorId"] for event in events} == {a["createdBy"]}
    assert (events[3]["changed"], events[3]["previous"]) == (["title"], {"title": "b"})
    assert alice.post(PATH, {"delete": [{"id": UNKNOWN}, {"id": b["id"]}]}).status_code == 404
    after = alice.get("/events", query_string={"after": feed}).get_json()["data"]
    assert after == events


# A description of the maximum length, and how many bytes of JSON each of its characters takes.
LARGE = {
    "letters": ("x", 1),
    "Gothic letters": ("\U00010348", 4),
    "control characters": ("\x02", 6),
}
MAX_LENGTH = 65_536


@pytest.fixture
def insert_large(connection, cast):
    """Return a function that inserts tasks with a long description; it returns their ids."""

    def insert_large(number, character, parent=None):
        rows = connection.execute(
            "INSERT INTO tasks (workspace_id, title, description, parent_id, created_by)"
            " SELECT %s, 'x', %s, %s, %s FROM generate_series(1, %s) RETURNING id::text",
            (cast["acme"], character * MAX_LENGTH, parent, cast["alice"], number),
        )
        return [row["id"] for row in rows]

    return insert_large


@pytest.mark.slow
@pytest.mark.parametrize(("character", "size"), LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("name", ["update", "delete", "subtasks of delete"])
def test_a_batch_changes_and_deletes_at_most_4_mib_of_json(
    alice, connection, insert_large, name, character, size
):
    """Both the texts and the JSON that escapes them count."""
    number = 4 * 1024 * 1024 // (size * MAX_LENGTH)
    parent = alice.post("/tasks", {"title": "parent"}).get_json()["id"]
    below = parent if name == "subtasks of delete" else None
    ids = insert_large(number, character, below)
    items = [{"id": id, "title": "y"} if name == "update" else {"id": id} for id in ids]
    batch = {"delete": [{"id": parent}]} if below else {name: items}
    # The members around the text need some bytes too.
    last = size * number * MAX_LENGTH > 4 * 1024 * 1024 - number * 400
    assert last == (size != 6)
    if last:
        assert "4 MiB of JSON" in error_message(alice.post(PATH, batch), 409)
        assert count(connection, "tasks") == number + 1
        (id,) = ids[:1]
        assert alice.delete(f"/tasks/{id}").status_code == 204
        items.pop(0)
    assert alice.post(PATH, batch).status_code == 200
    assert count(connection, "tasks") == {"update": number, "delete": 1}.get(name, 0) + (
        not last and name == "update"
    )


@pytest.mark.slow
def test_a_batch_of_tasks_whose_texts_alone_have_over_4_mib_gets_409(alice, insert_large):
    """For such a batch, PostgreSQL does not write the JSON."""
    ids = insert_large(4 * 1024 * 1024 // MAX_LENGTH + 1, "x")
    response = alice.post(PATH, {"delete": [{"id": id} for id in ids]})
    assert "4 MiB of JSON" in error_message(response, 409)


def test_the_errors_of_a_batch_have_current_tasks_until_these_have_1_mib(alice, insert_large):
    ids = insert_large(10, "\x02")
    items = [{"id": id, "version": 9, "title": "y"} for id in ids]
    response = alice.post(PATH, {"update": items[:6], "delete": [{"id": ids[6], "version": 9}]})
    stale = "the task has changed; its current version is 1"
    assert {*faults(response, 412).values()} == {stale}
    errors = response.get_json()["errors"]
    # Each task has 6 * 64 KiB.
    assert ["current" in error for error in errors] == [True] * 2 + [False] * 5
    assert [error["current"] for error in errors[:2]] == [
        alice.get(f"/tasks/{id}").get_json() for id in ids[:2]
    ]
    assert len(response.data) < MAX_CURRENT + 2000


def test_a_repeat_gets_409_if_the_response_has_over_1_mib_more_than_the_request(
    alice, connection, insert_large
):
    ids = insert_large(17, "x")
    key = {"Idempotency-Key": "long"}
    batch = {"update": [{"id": id, "title": "y"} for id in ids]}
    assert len(alice.post(PATH, batch, headers=key).get_json()["updated"]) == 17
    message = error_message(alice.post(PATH, batch, headers=key), 409)
    assert "the first request with this key has succeeded" in message
    assert {task["version"] for task in everything(alice)} == {2}
    stored = connection.execute("SELECT body FROM idempotency_keys").fetchall()
    assert stored == [{"body": None}]


def test_a_repeat_of_a_batch_that_creates_long_tasks_gets_its_response(alice):
    """The request itself has the texts, so the key stores hardly more than the client sent."""
    long = [{"title": "x", "description": "x" * length} for length in [MAX_LENGTH] * 15 + [25_000]]
    key = {"Idempotency-Key": "long"}
    batch = {"create": [*long, *[{"title": "x"}] * 84]}
    first, second = (alice.post(PATH, batch, headers=key) for _ in range(2))
    assert (first.status_code, first.data) == (200, second.data)
    assert len(first.data) > 2**20


def test_the_request_posts_the_events_of_a_batch(
    webhooks_app, connection, cast, receiver, insert_into
):
    """Without a worker, nobody else would post them."""
    client = Client(webhooks_app, TOKENS["alice"])
    changed, deleted = insert_into("tasks"), insert_into("tasks")
    subscribe(connection, cast["acme"], receiver.url)
    batch = {
        "create": [{"title": "new"}],
        "update": [{"id": changed, "title": "changed"}],
        "delete": [{"id": deleted}],
    }
    assert client.post(PATH, batch).status_code == 200
    types = sorted(json.loads(received.body)["type"] for received in receiver.take_all())
    assert types == ["task.created", "task.deleted", "task.updated"]


@pytest.mark.slow
def test_two_batches_that_name_the_same_tasks_in_opposite_orders_both_succeed(
    alice, bob, unlimited
):
    ids = [alice.post("/tasks", {"title": "x"}).get_json()["id"] for _ in range(20)]
    with ThreadPoolExecutor(4) as threads:
        responses = [
            threads.submit(
                client.post,
                PATH,
                {
                    "update": [
                        {"id": id, "title": f"{client is bob} {n}"}
                        for id in ids[:: 1 if n % 2 else -1]
                    ]
                },
            )
            for n in range(20)
            for client in (alice, bob)
        ]
    assert {response.result().status_code for response in responses} == {200}
    assert {task["version"] for task in everything(alice)} == {41}


def test_changes_are_made_in_the_order_of_the_request(alice):
    """Subtasks leave their parent, and then become the parents of other tasks."""
    old, *tops = [alice.post("/tasks", {"title": "x"}).get_json()["id"] for _ in range(6)]
    subtasks = [
        alice.post("/tasks", {"title": "x", "parentId": old}).get_json()["id"] for _ in tops
    ]
    before = everything(alice)
    free = [{"id": id, "parentId": None} for id in subtasks]
    move = [{"id": top, "parentId": id} for top, id in zip(tops, subtasks, strict=True)]
    swap = {"id": old, "parentId": subtasks[0]}
    assert "update[0].parentId" in faults(alice.post(PATH, {"update": [swap, *free]}), 400)
    assert everything(alice) == before

    feed = alice.get("/events").get_json()["nextCursor"]
    batch = {"create": [{"title": "new"}], "update": [*free, *move, swap]}
    response = alice.post(PATH, batch)
    done = response.get_json()
    assert response.status_code == 200, done
    assert [(task["id"], task["parentId"]) for task in done["updated"]] == [
        *((id, None) for id in subtasks),
        *zip(tops, subtasks, strict=True),
        (old, subtasks[0]),
    ]
    events = alice.get("/events", query_string={"after": feed}).get_json()["data"]
    assert [event["data"] for event in events] == done["created"] + done["updated"]
    # Subtasks stay where they are if their former parent is deleted.
    alice.post(PATH, {"update": [{"id": tops[0], "parentId": None}]})
    batch = {
        "update": [{"id": tops[1], "parentId": tops[0]}],
        "delete": [{"id": subtasks[1], "version": 2}],
    }
    assert alice.post(PATH, batch).get_json()["deleted"] == [subtasks[1]]
    assert alice.get(f"/tasks/{tops[1]}").get_json()["parentId"] == tops[0]


def test_a_parent_must_come_before_its_subtasks_in_a_batch(alice, connection):
    batch = {"create": [{"title": "child", "parentId": PARENT}, {"id": PARENT, "title": "parent"}]}
    message = invalid_field(alice.post(PATH, batch), "create")
    assert message.startswith("must not be the id of create[1], because")
    assert count(connection, "tasks") == 0


@pytest.mark.slow
@pytest.mark.parametrize("refused", [False, True])
def test_two_batches_that_create_the_same_ids_in_opposite_orders_do_not_wait_for_each_other(
    build, unlimited, connection, deadlocks, refused
):
    # On a busy machine, one of the four may wait for the other three for more than a second.
    app = build(statement_timeout=60)
    for _ in range(5):
        ids = [str(uuid4()) for _ in range(20)]
        last = [{"title": "bad", "parentId": UNKNOWN}] if refused else []
        with ThreadPoolExecutor(4) as threads:
            responses = [
                threads.submit(
                    client.post,
                    PATH,
                    {"create": [*({"id": id, "title": "x"} for id in ids[::step]), *last]},
                )
                for step in (1, -1)
                for client in (Client(app, TOKENS["alice"]), Client(app, TOKENS["bob"]))
            ]
        statuses = sorted(response.result().status_code for response in responses)
        assert statuses == ([400] * 4 if refused else [200, 409, 409, 409])
        for response in responses:
            if response.result().status_code == 409:
                assert len(faults(response.result(), 409)) == 20
    assert deadlocks() == 0


@pytest.mark.slow
@pytest.mark.parametrize("refused", [False, True])
def test_a_batch_that_waits_too_long_gets_503_in_time_and_leaves_nothing(
    build, connection, database_url, three, alice, refused
):
    """The batch waits for another transaction, in its own statements or in those for one task."""
    before = everything(alice)
    client = Client(build(statement_timeout=0.5), TOKENS["alice"])
    batch = {
        "create": [{"title": "x"}, {"id": PARENT, "title": "taken", "parentId": None}],
        "update": [{"id": task["id"], "title": "changed"} for task in three],
        "delete": [{"id": UNKNOWN}] if refused else [],
    }
    key = {"Idempotency-Key": "late"}
    with psycopg.connect(database_url) as other:
        other.execute(
            "INSERT INTO tasks (workspace_id, id, title, created_by) VALUES (%s, %s, 'y', %s)",
            (three[0]["workspaceId"], PARENT, three[0]["createdBy"]),
        )
        began = monotonic()
        response = client.post(PATH, batch, headers=key)
        assert "took too long" in error_message(response, 503)
        assert monotonic() - began < 5
        other.rollback()
    assert everything(alice) == before
    assert client.post(PATH, batch, headers=key).status_code == (404 if refused else 200)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_the_path_of_batches_is_that_of_no_task(alice, method):
    body = {"title": "x"} if method == "PATCH" else None
    assert error_message(alice.send(method, PATH, json=body), 404) == "Task not found"
