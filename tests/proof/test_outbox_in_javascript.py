"""The program docs/examples/outbox.mjs: every change happens once, and no other is lost."""

import json
import os
import random
import shutil
import subprocess
import threading
from collections import defaultdict
from contextlib import closing, contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from support.feeds import events, tasks
from support.openapi_check import document
from support.processes import call, wait_until
from support.project import PROJECT, run
from support.proxy import CuttingProxy

pytestmark = [pytest.mark.proof, pytest.mark.needs("node")]

# The program of an app: it puts each change that it reads, and sends what waits.
APP = """
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { Outbox, fileStorage } from "./outbox.mjs";

const { URL: url, TOKEN: token } = process.env;
const storage = fileStorage("outbox.jsonl");
const outbox = new Outbox(storage, { url, token: () => token, pause: 0.02 });
await outbox.load();
const versions = new Map();
const print = (line) => console.log(JSON.stringify(line));
const headers = { Authorization: `Bearer ${token}` };

function tell(kind, item, now, problem) {
  versions.set(item.id, now?.version);
  print({ told: kind, id: item.id, title: item.title, problem });
}

async function seen(id) {
  for (;;) {
    const answer = await fetch(`${url}/api/tasks/${id}`, { headers }).catch(() => null);
    const task = answer && (await answer.json().catch(() => null));
    if (task && answer.status < 500 && answer.status !== 429) return task.version;
  }
}

const waits = (id) => [...outbox.waiting.values()].some(([, item]) => item.id === id);
let ended = false;
let woken = () => {};

async function send() {
  while (!ended || outbox.waiting.size) {
    await outbox.send(tell, (kind, item) => item);
    // Several changes may wait when the app sends again.
    if (!ended) await setTimeout(100);
    if (!ended) await new Promise((resolve) => (woken = resolve));
  }
}

print({ stored: outbox.stored });
const sending = send();
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, item] = JSON.parse(line);
  if (kind !== "create" && !waits(item.id)) {
    if (!versions.get(item.id)) versions.set(item.id, await seen(item.id));
    if (!waits(item.id)) item.version = versions.get(item.id);
  }
  await outbox.put(kind, item);
  print({ stored: outbox.stored });
  woken();
}
ended = true;
woken();
await sending;
"""

# The faults of the double: some happen before the change, and some after it.
FAULTS = "500", "503", "429", "drop", "drop-after-commit", "truncated", "garbled"
BATCH = "/api/tasks/batch"


class App:
    """The app in JavaScript, which a test can kill and start again."""

    def __init__(self, folder, port, token):
        self.folder = folder
        self.variables = {**os.environ, "URL": f"http://127.0.0.1:{port}", "TOKEN": token}
        shutil.copy(PROJECT / "docs/examples/outbox.mjs", folder)
        (folder / "app.mjs").write_text(APP)
        self.told, self.lines = [], 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["node", "app.mjs"],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stored = json.loads(self.process.stdout.readline())["stored"]

    def read(self):
        """Read a line, and return it; None at the end."""
        line = self.process.stdout.readline()
        if not line:
            return None
        self.lines += 1
        line = json.loads(line)
        self.stored = line.get("stored", self.stored)
        if "told" in line:
            self.told.append(line)
        return line

    def put(self, change):
        """Store a change; return once the app says that it is stored."""
        before = self.stored
        self.process.stdin.write(json.dumps(change) + "\n")
        self.process.stdin.flush()
        while self.stored == before:
            assert self.read() is not None, "the app has ended"

    def finish(self):
        """Read until everything is sent."""
        self.process.stdin.close()
        while self.read() is not None:
            pass
        assert self.process.wait(60) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(60)
        # What the app has told before it was killed counts, and is told only once.
        while not self.process.stdout.closed and self.read() is not None:
            pass
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()


@contextmanager
def app(*arguments):
    started = App(*arguments)
    try:
        yield started
    finally:
        started.kill()


def new_id(number):
    return f"01a1f940-4ea4-7000-8000-{number:012x}"


def invent(chance, number):
    """Invent changes of a person; return them, and the titles that each task gets, in order.

    The title None stands for its deletion. The service refuses the creation of a task without a
    title; then nothing that the person does to this task happens.
    """
    changes, titles, alive, parents = [], {}, [], []
    while len(changes) < number:
        title, kind = f"t{len(changes)}", chance.random()
        if kind < 0.3 or not alive:
            id = new_id(len(changes))
            alive.append(id)
            refused = chance.random() < 0.1
            titles[id] = [] if refused else [title]
            task = {"id": id, "title": "" if refused else title}
            if len(parents) < 5:
                parents += [] if refused else [id]
            elif chance.random() < 0.1:
                task["parentId"] = chance.choice(parents)
            changes.append(("create", task))
            continue
        # Recent tasks have several changes that wait.
        id = chance.choice(alive[-20:])
        if kind < 0.9 or id in parents:
            changes.append(("update", {"id": id, "title": title}))
        else:
            changes.append(("delete", {"id": id}))
            alive.remove(id)
            title = None
        if titles[id]:
            titles[id].append(title)
    return changes, titles


class Colleague(threading.Thread):
    """A member who describes tasks that somebody else is changing, until ``enough`` is set."""

    def __init__(self, port, token, chance):
        super().__init__(daemon=True)
        self.port, self.token, self.random = port, token, chance
        # The tasks that somebody has put, and the last description of each.
        self.ids, self.described = [], {}
        self.enough = threading.Event()

    def run(self):
        number = 0
        while not self.enough.wait(0.05):
            number += 1
            id, description = self.random.choice(self.ids[-100:] or [new_id(0)]), f"d{number}"
            path, change = f"/api/tasks/{id}", {"description": description}
            status, _ = call(self.port, "PATCH", path, self.token, change)
            if status == 200:
                self.described[id] = description


def test_none_of_2000_changes_is_lost_or_doubled_if_connections_are_cut_and_the_app_is_killed(
    double, tmp_path
):
    number, seed = 2000, int(os.environ.get("OUTBOX_SEED") or random.randrange(10**6))
    print(f"OUTBOX_SEED={seed}")
    chance = random.Random(seed)
    changes, titles = invent(chance, number)
    kills = sorted(chance.sample(range(number // 10, number * 3 // 2), 6))
    port = urlsplit(double.base_url).port
    _, page = call(port, "GET", "/api/events", double.token)
    colleague = Colleague(port, double.member.token, random.Random(seed))
    colleague.start()
    with (
        closing(CuttingProxy(port, chance)) as proxy,
        app(tmp_path, proxy.port, double.token) as person,
    ):
        while person.stored < number:
            acknowledged = person.stored
            person.put(changes[acknowledged])
            colleague.ids.append(changes[acknowledged][1]["id"])
            if person.stored % 50 == 0:
                double.fault(chance.choice(FAULTS), seconds=0, path=BATCH)
            if kills and person.lines > kills[0]:
                kills.pop(0)
                person.kill()
                person.start()
                assert person.stored > acknowledged
        while kills:
            person.read()
            if person.lines > kills[0]:
                kills.pop(0)
                person.kill()
                person.start()
        person.finish()
        told = person.told
    colleague.enough.set()
    colleague.join()
    owner, history = call(port, "GET", "/api/me", double.token)[1]["user"]["id"], defaultdict(list)
    for event in events(port, double.token, page["nextCursor"]):
        history[event["data"]["id"]].append(event)
    done = {
        id: [
            None if event["type"] == "task.deleted" else event["data"]["title"]
            for event in happened
            if event["actorId"] == owner
        ]
        for id, happened in history.items()
    }
    assert done == {id: given for id, given in titles.items() if given}
    now = tasks(port, double.token)
    assert {id for id in history if id not in now} == {
        id for id, given in titles.items() if given and given[-1] is None
    }
    for id, happened in history.items():
        if id not in now:
            continue
        task = now[id]
        assert [event["data"]["version"] for event in happened] == [*range(1, len(happened) + 1)]
        assert (task["title"], task["version"]) == (titles[id][-1], len(happened))
        assert task["description"] == colleague.described.get(id)
    # The app is told of each change that is refused, and of no other problem.
    refused = {line["id"] for line in told if line["problem"]}
    assert refused == {id for id, given in titles.items() if not given}
    conflicts = sum(event["actorId"] != owner for each in history.values() for event in each)
    print(f"{proxy.cuts} connections cut, {conflicts} changes by the colleague")
    assert proxy.cuts > number // 100
    # The file does not keep what was sent.
    assert len((tmp_path / "outbox.jsonl").read_text().splitlines()) < 250


STORE = """
import { Outbox, fileStorage, newId } from "./outbox.mjs";
const { URL: url, TOKEN: token } = process.env;
const outbox = new Outbox(fileStorage("outbox.jsonl"), { url, token: () => token, pause: 3600 });
const print = (...line) => console.log(JSON.stringify(line));
"""
SEND = (
    "await outbox.send((kind, item, now, problem) => print(kind, now?.version ?? null, problem));"
)
# Appends what the person has appended to the description as it is now.
MERGE = """
const resolve = (kind, item, now, seen) => {
  print("asked", seen, now.description);
  const mine = item.description ?? seen.description;
  const added = mine.slice(seen.description.length);
  return { ...item, description: now.description + added };
};
await outbox.send((kind, item, now, problem) => print("told", problem), resolve);
"""


@pytest.fixture
def script(double, tmp_path):
    """Return a function that runs a script beside outbox.mjs, and returns the lines that it prints.

    With ``until``, the function kills the script once ``until()`` is true.
    """
    shutil.copy(PROJECT / "docs/examples/outbox.mjs", tmp_path)
    port = urlsplit(double.base_url).port
    variables = {**os.environ, "URL": f"http://127.0.0.1:{port}", "TOKEN": double.token}

    def script(code, until=None):
        (tmp_path / "script.mjs").write_text(STORE + code)
        command = ["node", "script.mjs"]
        if not until:
            printed = subprocess.run(
                command,
                cwd=tmp_path,
                env=variables,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                timeout=600,
            ).stdout
            return [json.loads(line) for line in printed.splitlines()]
        running = subprocess.Popen(command, cwd=tmp_path, env=variables)
        try:
            wait_until(until, running)
        finally:
            running.kill()
            running.wait(60)

    return script


@pytest.fixture
def late(double, script):
    """Return a function that loses the response to a batch, and sends what waits a day later."""

    def late(puts, meanwhile=lambda: None):
        double.fault("drop-after-commit", path=BATCH)
        script(puts + SEND, lambda: [sent for sent in double.requests if sent.path == BATCH])
        meanwhile()
        # The key of the batch is gone.
        double.set_clock(double.now + timedelta(hours=25))
        return script(SEND)

    return late


@pytest.fixture
def colleague(double):
    """Return a function that changes a task as another member."""
    port = urlsplit(double.base_url).port

    def colleague(id, **change):
        path = f"/api/tasks/{id}"
        status, _ = call(port, "PATCH", path, double.member.token, change)
        assert status == 200

    return colleague


@pytest.fixture
def now(double):
    """Return a function that returns a task as it is now."""
    port = urlsplit(double.base_url).port
    return lambda id: call(port, "GET", f"/api/tasks/{id}", double.token)[1]


def between(double, id, description):
    """Return code by which the member describes a task just before the second batch arrives."""
    return f"""
const request = fetch;
let batches = 0;
globalThis.fetch = async (path, options) => {{
  if (path.endsWith("/batch") && ++batches === 2) {{
    const headers = {{ ...options.headers, Authorization: "Bearer {double.member.token}" }};
    const body = JSON.stringify({{ description: {json.dumps(description)} }});
    await request(`${{url}}/api/tasks/{id}`, {{ method: "PATCH", headers, body }});
  }}
  return request(path, options);
}};
"""


def put(kind, id, seen=None, **item):
    change = f"{json.dumps(kind)}, {json.dumps({'id': id, **item})}, {json.dumps(seen)}"
    return f"await outbox.put({change});"


def test_a_batch_that_happened_a_day_ago_is_recognised_and_what_followed_happens_too(double, late):
    made, changed, gone = map(new_id, (1, 2, 3))
    for id in (changed, gone):
        double.load({"type": "task", "id": id, "title": "Old", "metadata": {"a": "1"}})
    port = urlsplit(double.base_url).port
    _, page = call(port, "GET", "/api/events", double.token)
    told = late(
        put("create", made, title="Made")
        + put("update", changed, version=1, title="Changed", metadata=None)
        + put("delete", gone, version=1)
        + put("update", made, title="Made and changed")
    )
    assert told == [
        ["create", 1, None],
        ["update", 2, None],
        ["delete", None, None],
        ["update", 2, None],
    ]
    happened = [
        (event["type"], event["data"]["title"], event["data"]["version"])
        for event in events(port, double.token, page["nextCursor"])
    ]
    assert happened == [
        ("task.created", "Made", 1),
        ("task.updated", "Changed", 2),
        ("task.deleted", "Old", 1),
        ("task.updated", "Made and changed", 2),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"title": " Plan the trip\n"},
        {"dueDate": "2036-12-01T10:00:00+02:00"},
        {"dueDate": "2036-12-01T08:00:00Z"},
        {"dueDate": "2036-12-01"},
        {"parentId": new_id(10).upper()},
        {"metadata": {"new": "3", "gone": None}},
    ],
)
def test_a_change_that_happened_a_day_ago_is_no_conflict_however_the_service_writes_its_value(
    double, late, now, change
):
    for id in (new_id(1), new_id(10)):
        double.load({"type": "task", "id": id, "title": "Old", "metadata": {"gone": "2"}})
    told = late(
        put("update", new_id(1), version=1, **change) + put("update", new_id(1), status="done")
    )
    assert told == [["update", 2, None], ["update", 3, None]]
    assert now(new_id(1))["status"] == "done"


@pytest.mark.parametrize("kind", ["create", "update"])
def test_what_followed_is_a_conflict_if_somebody_else_has_changed_the_task_since_then(
    double, late, colleague, now, kind
):
    version = {} if kind == "create" else {"version": 1}
    if version:
        double.load({"type": "task", "id": new_id(1), "title": "Old"})
    told = late(
        put(kind, new_id(1), title="Mine", **version)
        + put("update", new_id(1), description="Mine"),
        lambda: colleague(new_id(1), description="Theirs"),
    )
    assert [line[0] for line in told] == [kind, "update"]
    assert told[0][2] is None
    assert told[1][2].startswith("the task has changed")
    assert now(new_id(1))["description"] == "Theirs"


@pytest.mark.parametrize("added", [{"description": "Theirs"}, {"metadata": {"new": "theirs"}}])
@pytest.mark.parametrize("by", ["somebody else", "another device"])
def test_what_followed_is_a_conflict_if_the_same_change_was_made_elsewhere_with_another_one(
    double, script, now, by, added
):
    double.load({"type": "task", "id": new_id(1), "title": "Old", "metadata": {"old": "1"}})
    port, path = urlsplit(double.base_url).port, f"/api/tasks/{new_id(1)}"
    seen = now(new_id(1))
    token = double.member.token if by == "somebody else" else double.token
    call(port, "PATCH", path, token, {"status": "done", **added})
    first, second = script(
        put("update", new_id(1), seen, version=1, status="done")
        + put("update", new_id(1), description="Mine")
        + SEND
    )
    assert (first, second[:2]) == (["update", 2, None], ["update", 2])
    assert second[2].startswith("the task has changed")
    assert now(new_id(1))["version"] == 2


def test_what_followed_a_change_that_happened_a_day_ago_happens_too_if_the_person_saw_the_task(
    double, late, now
):
    id = new_id(1)
    old = {"type": "task", "id": id, "title": "Old", "dueDate": "2036-12-01"}
    double.load({**old, "metadata": {"kept": "1", "gone": "2"}})
    change = {"title": "New ", "metadata": {"new": "3", "gone": None}}
    told = late(put("update", id, now(id), version=1, **change) + put("update", id, status="done"))
    assert told == [["update", 2, None], ["update", 3, None]]
    assert (now(id)["status"], now(id)["dueDay"]) == ("done", "2036-12-01")


def test_a_task_that_somebody_else_has_made_again_is_told_with_what_followed(double, script, now):
    id, port = new_id(1), urlsplit(double.base_url).port
    double.load({"type": "task", "id": id, "title": "Old"})
    call(port, "DELETE", f"/api/tasks/{id}", double.token)
    call(port, "POST", "/api/tasks", double.member.token, {"id": id, "title": "Theirs"})
    told = script(put("create", id, title="Mine") + put("update", id, status="done") + SEND)
    problem = "is taken: another object has this id"
    assert told == [["create", 2, problem], ["update", 2, problem]]
    assert (now(id)["title"], now(id)["status"]) == ("Theirs", "todo")


def test_what_waits_behind_a_merge_is_a_conflict_too_and_resolve_gets_the_task_as_the_person_saw_it(
    double, script, colleague, now
):
    id = new_id(1)
    double.load({"type": "task", "id": id, "title": "Old", "description": "base"})
    colleague(id, description="base +theirs")
    seen = [{"description": text} for text in ("base", "base +1", "base +1 +2")]
    told = script(
        put("update", id, seen[0], version=1, description="base +1")
        + put("update", id, seen[1], description="base +1 +2")
        + put("update", id, seen[2], title="Mine")
        + MERGE
    )
    assert told == [
        ["asked", seen[0], "base +theirs"],
        ["told", None],
        ["asked", seen[1], "base +theirs +1"],
        ["told", None],
        ["asked", seen[2], "base +theirs +1 +2"],
        ["told", None],
    ]
    assert (now(id)["title"], now(id)["description"]) == ("Mine", "base +theirs +1 +2")


def test_what_was_put_after_a_merge_whose_response_was_lost_is_a_conflict_whatever_was_read_since(
    double, script, colleague, now
):
    id = new_id(1)
    double.load({"type": "task", "id": id, "title": "Old", "description": "base"})
    colleague(id, description="base +theirs")
    double.fault("drop-after-commit", path=BATCH, skip=1)
    seen = [{"description": text} for text in ("base", "base +mine")]
    first = put("update", id, seen[0], version=1, description="base +mine")
    script(first + MERGE, lambda: now(id)["version"] == 3)
    # The app has read the merged task, and shows the change that waits over it.
    second = put("update", id, seen[1], version=3, description="base +mine +more")
    told = script("await outbox.load();" + second + MERGE)
    assert told == [["told", None], ["asked", seen[1], "base +theirs +mine"], ["told", None]]
    assert now(id)["description"] == "base +theirs +mine +more"


def test_a_merge_that_meets_another_change_begins_again_with_what_the_person_did(
    double, script, colleague, now
):
    id = new_id(1)
    double.load({"type": "task", "id": id, "title": "Old", "description": "base"})
    colleague(id, description="base +theirs")
    meanwhile = between(double, id, "base +theirs +more")
    seen = {"description": "base"}
    told = script(put("update", id, seen, version=1, description="base +mine") + meanwhile + MERGE)
    assert told == [
        ["asked", seen, "base +theirs"],
        ["asked", seen, "base +theirs +more"],
        ["told", None],
    ]
    assert now(id)["description"] == "base +theirs +more +mine"


# So many that the file begins again with a summary while the last change waits.
MANY = """
for (let number = 0; number < 2200; number++) {
  await outbox.put("create", { id: newId(), title: `${number}` });
}
"""


def test_a_change_of_a_version_that_only_the_person_has_changed_since_then_is_no_conflict(
    double, script, colleague, now
):
    made, id = new_id(1), new_id(2)
    double.load({"type": "task", "id": id, "title": "Old"})
    told = script(
        put("create", made, title="Mine")
        + put("update", id, version=1, status="done")
        + MANY
        + put("update", id, version=1, priority="high")
        + SEND
    )
    creates = [["create", 1, None]] * 2200
    assert told == [["create", 1, None], ["update", 2, None], *creates, ["update", 3, None]]
    # Another tab has not seen what the first one has sent.
    stale = put("update", made, title="New") + put("update", id, version=1, title="New")
    assert script(stale + SEND) == [["update", 2, None], ["update", 4, None]]
    assert (now(id)["status"], now(id)["priority"], now(id)["title"]) == ("done", "high", "New")
    for each in (made, id):
        colleague(each, description="Theirs")
    stale = put("update", made, title="Newer") + put("update", id, version=1, title="Newer")
    told = script(stale + put("update", id, version=4, status="todo") + SEND)
    assert [line[:2] for line in told] == [["update", 3], ["update", 5], ["update", 5]]
    assert all(problem.startswith("the task has changed") for _, _, problem in told)


def test_a_task_that_the_person_makes_again_can_be_changed_before_it_is_sent(double, script, now):
    id = new_id(1)
    double.load({"type": "task", "id": id, "title": "Old"})
    told = script(
        put("delete", id, version=1)
        + put("create", id, title="Old")
        + put("update", id, status="done")
        + put("update", id, title="New")
        + SEND
    )
    assert told == [
        ["delete", None, None],
        ["create", 2, None],
        ["update", 3, None],
        ["update", 4, None],
    ]
    assert (now(id)["status"], now(id)["title"]) == ("done", "New")


@pytest.mark.parametrize("count", [2, 3], ids=["before the batch", "after it"])
def test_a_file_of_an_earlier_version_of_the_program_is_sent(
    double, script, colleague, now, tmp_path, count
):
    id = new_id(1)
    double.load({"type": "task", "id": id, "title": "Old"})
    first = {"id": id, "title": "New", "version": 1}
    # This version stored no version of a change if an earlier change of the task waited.
    second, third = {"id": id, "status": "done"}, {"id": id, "description": "Mine"}
    records = [
        {"stored": 5, "waiting": [[4, ["update", first, None]], [5, ["update", second]]]},
        {"put": ["update", third]},
        {"drop": [4], "set": [[5, {**second, "version": 2}]], "instead": [], "batch": None},
    ]
    records[0]["batch"] = {"key": "one", "count": 1}
    if count == 3:
        colleague(id, title="New")
    lines = [json.dumps(record) for record in records[:count]]
    (tmp_path / "outbox.jsonl").write_text("\n".join([*lines, '{"put": ["upd']))
    told = script(between(double, id, "Theirs") + SEND)
    problems = [(version, problem and problem[:20]) for _, version, problem in told]
    refused = "the task has changed"
    assert problems == (
        [(2, None), (3, refused), (3, refused)] if count == 2 else [(3, None), (4, refused)]
    )
    assert now(id)["description"] == "Theirs"
    assert now(id)["status"] == ("todo" if count == 2 else "done")


REPLACED = """
const storage = fileStorage("outbox.jsonl");
for (const record of [1, 2, 3]) storage.save(record);
storage.save("1 and 2", 2);
storage.save(4);
print(...storage.load());
"""


def test_a_record_that_is_put_in_place_of_others_stays_before_those_that_were_added_since(script):
    assert script(REPLACED) == [["1 and 2", 3, 4]]


STOPPED = """
import { createServer } from "node:http";
let reached;
const reaching = new Promise((done) => (reached = done));
// Never answers.
const silent = createServer(() => reached()).listen(0, "127.0.0.1").unref();
await new Promise((done) => silent.once("listening", done));
const silence = `http://127.0.0.1:${silent.address().port}`;
const request = fetch;
let open = 0;
globalThis.fetch = (path, options) => {
  open++;
  const answer = request(path, options).finally(() => open--);
  // The outbox waits an hour after this.
  answer.catch(() => setImmediate(reached));
  return answer;
};
const options = { url: URL, token: () => token, pause: 3600 };
const stopped = new Outbox(fileStorage("outbox.jsonl"), options);
const tell = (kind, item, now, problem) => print("told", problem);
const sending = [stopped.send(tell), stopped.send(tell)];
await reaching;
const began = performance.now();
await stopped.stop();
// It does not wait for the end of an attempt, which has a minute.
const seconds = (performance.now() - began) / 1000;
print("stopped", open, stopped.waiting.size, seconds < 50);
await Promise.all(sending);
print("ended");
"""


@pytest.mark.parametrize("service", ["silence", "url"])
def test_stop_returns_once_nothing_is_being_sent_and_what_waits_is_sent_later(
    double, script, now, service
):
    if service == "url":
        double.fault("drop-after-commit", path=BATCH)
    # The program ends, so it has neither a timer nor a connection.
    told = script(put("create", new_id(1), title="Mine") + STOPPED.replace("URL", service))
    assert told == [["stopped", 0, 1, True], ["ended"]]
    assert script(SEND) == [["create", 1, None]]
    assert now(new_id(1))["version"] == 1


ROTATING = """
const tokens = TOKENS;
const rotating = new Outbox(fileStorage("outbox.jsonl"), {
  url,
  token: async () => tokens.shift(),
  pause: 0.01,
});
const tell = (kind, item, now, problem) => print("told", problem);
await rotating.send(tell).catch((problem) => print(problem.message.split(":")[0]));
print("left", tokens.length);
"""


def test_each_attempt_asks_for_the_token_and_a_refused_token_ends_the_sending(double, script, now):
    def rotating(*tokens):
        return script(ROTATING.replace("TOKENS", json.dumps(tokens)))

    script(put("create", new_id(1), title="Mine"))
    assert rotating("tmw_api_old", double.token) == [["Unauthorized"], ["left", 1]]
    double.fault("drop", path=BATCH)
    assert rotating(double.token, double.member.token) == [["told", None], ["left", 0]]
    assert now(new_id(1))["createdBy"] == double.member.id


TYPED = """
import { Outbox, fileStorage, indexedDbStorage, newId } from "./outbox.mjs";
import type { AnyTask, Item, Kind, OutboxStorage } from "./outbox.mjs";
import type { components } from "./service.js";

type Task = components["schemas"]["Task"];

const records: unknown[] = [];
const memory: OutboxStorage = {
  load: () => records,
  save: (record, count = 0) => void records.splice(0, count, record),
};
const storages: OutboxStorage[] = [memory, fileStorage("outbox.jsonl"), indexedDbStorage("outbox")];
const options = { url: "http://127.0.0.1:8000", token: async () => "tmw_api_x", pause: 1 };
const outboxes = storages.map((storage) => new Outbox<Task>(storage, options));
const told: [Kind, Item, string | undefined, string | null][] = [];
export async function send(seen: Task): Promise<number> {
  const [outbox] = outboxes;
  if (!outbox) return 0;
  await outbox.load();
  const change: components["schemas"]["TaskChanges"] = { title: "New", metadata: { old: null } };
  await outbox.put("create", { id: newId(), title: "First" });
  await outbox.put("update", { id: seen.id, version: seen.version, ...change }, seen);
  await outbox.send(
    (kind, item, now, problem) => told.push([kind, item, now?.title.trim(), problem]),
    (kind, item, now, seen) =>
      kind === "delete" ? null : { ...item, title: `${seen?.title ?? ""} ${now.title}` },
  );
  await outbox.stop();
  // @ts-expect-error: the token is a function
  new Outbox(memory, { url: "http://127.0.0.1:8000", token: "tmw_api_x" });
  // @ts-expect-error: there is no such kind
  await outbox.put("replace", { id: seen.id });
  // @ts-expect-error: the first argument of resolve is no item
  await outbox.send(() => {}, (kind: Item) => kind);
  return outbox.stored + outbox.waiting.size;
}
export const plain: Outbox<AnyTask> = new Outbox(memory, { ...options, token: () => "tmw_api_x" });
"""


def test_the_types_of_the_outbox_fit_a_strict_program_and_a_generated_client(npm, tmp_path):
    for name in ("outbox.mjs", "outbox.d.mts"):
        shutil.copy(PROJECT / "docs/examples" / name, npm)
    (npm / "openapi.json").write_text(json.dumps(document()))
    run("openapi-typescript", "openapi.json", "--output", "service.ts", cwd=npm)
    (npm / "waiting.mts").write_text(TYPED)
    strict = "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"
    run("tsc", *strict, "--module", "nodenext", "--target", "es2022", "waiting.mts", cwd=npm)
