"""Tasks compared with a model of tasks: after any calls in any order, both show the same."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from support.http import Client, error_message
from support.rows import TOKENS, insert_member

from service.api.tasks import PRIORITIES, STATUSES

pytestmark = pytest.mark.proof

MANY = settings(
    max_examples=200, stateful_step_count=25, deadline=None, database=None, print_blob=True
)


def iso(timestamp):
    return timestamp.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


@st.composite
def timestamps(draw):
    """Draw a timestamp: as a client may write it, and as the service returns it."""
    near = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1))
    far = st.datetimes(datetime(1900, 1, 1), datetime(9998, 12, 31, 23, 59, 59))
    timestamp = draw(near | far).replace(tzinfo=UTC)
    zone = timedelta(minutes=draw(st.integers(-14 * 60, 14 * 60)))
    text = (timestamp + zone).replace(tzinfo=None).isoformat()
    sign, minutes = ("-", -zone) if zone < timedelta(0) else ("+", zone)
    hours, minutes = divmod(minutes // timedelta(minutes=1), 60)
    return f"{text}{sign}{hours:02}:{minutes:02}", iso(timestamp)


def same(strategy):
    """Return a strategy of pairs for values that the service returns as they were sent."""
    return strategy.map(lambda value: (value, value))


characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = same(st.none() | st.text(characters, max_size=40))
titles = st.text(characters, max_size=20).map(lambda text: (text + " x ", (text + " x").strip()))
users = st.sampled_from(["alice", "bob", "charlie"])
limits = st.sampled_from([1, 2, 3, 50])

# The values of each field are pairs: what the client sends, and what the service returns.
TASK = {
    "description": texts,
    "status": same(st.sampled_from(STATUSES)),
    "priority": same(st.sampled_from(PRIORITIES)),
    "dueDate": same(st.none()) | timestamps(),
    "projectId": same(st.sampled_from([None, "p", "Q", " ", "é"])),
}
NEW_TASK = {
    "status": "todo",
    "priority": "medium",
    **dict.fromkeys(["description", "dueDate", "dueDay", "assigneeId", "projectId", "parentId"]),
}
FILTERS = {name: name for name in ("status", "priority", "projectId", "parentId")}
FILTERS["assignee"] = "assigneeId"


def split(pairs):
    return [{name: pair[side] for name, pair in pairs.items()} for side in (0, 1)]


class Model(RuleBasedStateMachine):
    """The model. Alice and Bob are in Acme, Alice and Charlie in Globex; Alice works in Acme."""

    task_ids = Bundle("task_ids")

    def __init__(self, app, connection, cast):
        super().__init__()
        connection.execute("DELETE FROM tasks")
        self.cast = cast
        self.clients = {name: Client(app, token) for name, token in TOKENS.items()}
        self.active = {"alice": cast["acme"], "bob": cast["acme"], "charlie": cast["globex"]}
        self.members = {cast["acme"]: ["alice", "bob"], cast["globex"]: ["alice", "charlie"]}
        self.tasks = {}

    def tasks_of(self, who):
        return {
            id: task for id, task in self.tasks.items() if task["workspaceId"] == self.active[who]
        }

    def subtasks_of(self, id):
        return [task["id"] for task in self.tasks.values() if task["parentId"] == id]

    def may_have_parent(self, who, parent_id, id=None):
        parent = self.tasks_of(who).get(parent_id)
        free = parent and parent["parentId"] is None and parent_id != id
        return free and not (id and self.subtasks_of(id))

    @rule(
        target=task_ids, who=users, fields=st.fixed_dictionaries({"title": titles}, optional=TASK)
    )
    def create_task(self, who, fields):
        sent, stored = split(fields)
        return self.store_task(who, sent, stored)

    @rule(target=task_ids, who=users, title=titles, parent_id=task_ids)
    def create_subtask(self, who, title, parent_id):
        sent, stored = split({"title": title, "parentId": (parent_id, parent_id)})
        if self.may_have_parent(who, parent_id):
            return self.store_task(who, sent, stored)
        error_message(self.clients[who].post("/tasks", sent), 400)
        return multiple()

    def store_task(self, who, sent, stored):
        """Create a task, compare it with the model and return its id.

        Only the service knows the id and the times, so these must only be consistent.
        """
        response = self.clients[who].post("/tasks", sent)
        task = response.get_json()
        assert response.status_code == 201, task
        assert task["createdAt"] == task["updatedAt"]
        assert task == {
            **{name: task[name] for name in ("id", "createdAt", "updatedAt")},
            "workspaceId": self.active[who],
            "createdBy": self.cast[who],
            "updatedBy": self.cast[who],
            "version": 1,
            **NEW_TASK,
            **stored,
            "completedAt": task["createdAt"] if stored.get("status") == "done" else None,
            "completedBy": self.cast[who] if stored.get("status") == "done" else None,
            "metadata": {},
        }
        self.tasks[task["id"]] = task
        return task["id"]

    @rule(
        who=users, id=task_ids, fields=st.fixed_dictionaries({}, optional={"title": titles, **TASK})
    )
    def change_task(self, who, id, fields):
        self.patch_task(who, id, *split(fields))

    @rule(who=users, id=task_ids, assignee=st.none() | users)
    def assign_task(self, who, id, assignee):
        change = {"assigneeId": assignee and self.cast[assignee]}
        member = assignee is None or assignee in self.members[self.active[who]]
        self.patch_task(who, id, change, change, allowed=member)

    @rule(who=users, id=task_ids, parent_id=st.none() | task_ids)
    def move_task(self, who, id, parent_id):
        change = {"parentId": parent_id}
        task = self.tasks.get(id)
        stays = parent_id is None or (task and task["parentId"] == parent_id)
        allowed = stays or self.may_have_parent(who, parent_id, id)
        self.patch_task(who, id, change, change, allowed=allowed)

    def patch_task(self, who, id, sent, stored, *, allowed=True):
        response = self.clients[who].patch(f"/tasks/{id}", sent)
        old = self.tasks_of(who).get(id)
        if old is None:
            error_message(response, 404)
        elif not allowed:
            error_message(response, 400)
        else:
            row, expected = response.get_json(), old | stored
            assert response.status_code == 200, row
            # Only a real change makes a new version.
            if expected != old:
                assert row["updatedAt"] >= old["updatedAt"]
                expected |= {
                    "version": old["version"] + 1,
                    "updatedAt": row["updatedAt"],
                    "updatedBy": self.cast[who],
                }
            if expected["status"] != "done":
                expected |= {"completedAt": None, "completedBy": None}
            elif old["status"] != "done":
                expected |= {"completedAt": expected["updatedAt"], "completedBy": self.cast[who]}
            assert row == expected
            self.tasks[id] = row

    @rule(who=users, id=task_ids)
    def delete_task(self, who, id):
        response = self.clients[who].delete(f"/tasks/{id}")
        if id not in self.tasks_of(who):
            error_message(response, 404)
            return
        assert (response.status_code, response.data) == (204, b"")
        for gone in (*self.subtasks_of(id), id):
            del self.tasks[gone]

    @rule(who=users, id=task_ids)
    def get_task(self, who, id):
        response = self.clients[who].get(f"/tasks/{id}")
        if id in self.tasks_of(who):
            assert response.get_json() == self.tasks[id]
        else:
            error_message(response, 404)

    @rule(
        who=users,
        limit=limits,
        like=task_ids,
        names=st.sets(st.sampled_from(list(FILTERS))),
        sort=st.sampled_from([None, "completedAt"]),
    )
    def list_tasks(self, who, limit, like, names, sort=None):
        """List the tasks that match an existing task in these fields, so that there is a match."""
        task = self.tasks.get(like, NEW_TASK)
        query = {name: task[FILTERS[name]] for name in names if task[FILTERS[name]]}
        rows = [
            task
            for task in reversed(self.tasks_of(who).values())
            if all(task[FILTERS[name]] == value for name, value in query.items())
        ]
        if sort:
            query["sort"] = sort
            rows.sort(key=lambda task: (task[sort] or "", task["id"]), reverse=True)
        query["limit"] = limit
        for start in range(0, max(len(rows), 1), limit):
            response = self.clients[who].get("/tasks", query_string=query)
            page = response.get_json()
            assert response.status_code == 200, page
            assert page["data"] == rows[start : start + limit]
            query["cursor"] = page["nextCursor"]
        assert page["nextCursor"] is None

    def teardown(self):
        for who in self.clients:
            self.list_tasks(who, 2, None, ())


def test_tasks_behave_like_their_model_after_any_calls_in_any_order(
    app, connection, cast, unlimited
):
    insert_member(connection, cast["globex"], cast["alice"])
    run_machine(partial(Model, app, connection, cast), settings=MANY)
