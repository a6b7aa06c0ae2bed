"""Two devices change the same tasks offline: no text is lost, and each conflict is told once."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support.feeds import events, tasks
from support.processes import call, children, free_port, serving
from support.project import PROJECT
from support.proxy import CuttingProxy
from support.rows import TOKENS

pytestmark = [pytest.mark.proof, pytest.mark.needs("node")]

APPS = Path(__file__).parent / "devices"
PROGRAMS = {".mjs": "node", ".py": sys.executable}
# What the person who changes a task has seen of it.
SHOWN = {"title": "", "description": "", "status": "todo"}


def numbers(text):
    """Return the numbers of the changes whose texts a title or a description has."""
    return [int(number) for number in re.findall(r"#(\d+);", text or "")]


def shown(task):
    return {name: task.get(name, default) for name, default in SHOWN.items()}


class Device:
    """The app of a device, which a test can kill and start again; it remembers all that it says."""

    def __init__(self, folder, app, port, token):
        self.folder, self.app = folder, app
        self.variables = {
            **os.environ,
            "URL": f"http://127.0.0.1:{port}",
            "TOKEN": token,
            "OUTBOX": "outbox.db",
            "PAUSE": "0.02",
        }
        folder.mkdir()
        shutil.copy(PROJECT / f"docs/examples/outbox{app.suffix}", folder)
        shutil.copy(app, folder)
        # The tasks as the person saw them, by the numbers of changes. What the app says has the
        # number of the process that says it.
        self.seen, self.told, self.asked = {}, [], []
        self.starts, self.synchronising, self.copy = 0, False, {}
        # The tasks that the person may change, newest last.
        self.ids = []
        self.start()

    def start(self):
        self.starts += 1
        self.synchronising = False
        self.process = subprocess.Popen(
            [PROGRAMS[self.app.suffix], self.app.name],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.read("started")

    def kill(self):
        self.process.kill()
        while self.read():
            pass
        self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()

    def read(self, wanted=None):
        """Read lines until one has this member; return it, or None at the end."""
        for text in self.process.stdout:
            # A process that is killed may not finish its last line.
            line = json.loads(text) if text.endswith("\n") else {}
            if "copy" in line:
                self.copy, self.synchronising = line["copy"], False
                self.ids = sorted(self.copy)
            for name, lines in ("told", self.told), ("asked", self.asked):
                if name in line:
                    lines.append((self.starts, line))
            if wanted in line:
                return line
        assert wanted is None, "the app has ended"
        return None

    def say(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def put(self, number, **change):
        """Let the person make a change, if the device has the task."""
        self.say(number=number, **change)
        if (seen := self.read("put")["seen"]) is not None:
            self.seen[number] = {**change, "seen": seen}
            if change["kind"] == "create":
                self.ids.append(change["id"])
            if change["kind"] == "delete":
                self.ids.remove(change["id"])

    def synchronise(self):
        """Begin to send what waits, and then to read all tasks."""
        if not self.synchronising:
            self.synchronising = True
            self.say(synchronise=True)

    def finish(self):
        if self.synchronising:
            self.read("copy")
        self.synchronise()
        assert self.read("copy")["synchronised"] == 0


class Server:
    """The service, which a test can kill and start again."""

    def __init__(self, database_url, stack):
        self.url, self.stack, self.port = database_url, stack, free_port()
        self.start()

    def start(self):
        settings = {"port": self.port, "WEB_CONCURRENCY": "1"}
        self.process = self.stack.enter_context(serving(self.url, **settings))

    def kill(self):
        workers = children(self.process.pid)
        for pid in (self.process.pid, *workers):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(60)


def invent(chance, number, ids):
    """Invent a change of one of these tasks, or of a new one; texts have its number."""
    text, kind = f"#{number};", chance.random()
    if kind < 0.02 or len(ids) < 8:
        id = f"01a1f940-4ea4-7000-8000-{number:012x}"
        return {"kind": "create", "id": id, "title": text, "append": text}
    change = {"kind": "update", "id": chance.choice(ids)}
    if kind < 0.04:
        return {**change, "kind": "delete"}
    if kind < 0.6:
        change["append"] = text
    if 0.55 < kind < 0.75:
        change["title"] = text
    if kind > 0.75 or kind < 0.3:
        change["status"] = chance.choice(["todo", "in_progress", "done"])
    return change


def number_of(item):
    """Return the number of the change; None if it has no text."""
    return next(iter(numbers(item.get("title")) or numbers(item.get("description"))[::-1]), None)


def said_once(lines, key):
    """Return the key of each line about a text; check that no process says the same twice."""
    said = Counter((start, key(line)) for start, line in lines if number_of(line["item"]))
    assert [line for line, times in said.items() if times > 1] == []
    return [what for _, what in said]


def check(history, devices, now):
    """Compare what happened with what the people saw and were told; return the figures."""
    changes = {number: change for device in devices for number, change in device.seen.items()}
    told, asked = [], []
    for device in devices:
        told += said_once(device.told, lambda line: (number_of(line["item"]), line["problem"]))
        asked += said_once(
            device.asked, lambda line: (number_of(line["item"]), line["now"]["version"])
        )
    refused = {number for number, problem in told if problem}
    approved = {number for number, problem in told if not problem}
    conflicts = {number for number, _ in asked}
    with_text = {number for number, change in changes.items() if {"append", "title"} & {*change}}
    assert approved | refused == with_text
    happened, gone = set(), set()
    for id, past in history.items():
        before = SHOWN
        for event in past:
            after = event["data"]
            if event["type"] == "task.deleted":
                # Somebody has deleted what he saw.
                assert shown(before) in [
                    shown(change["seen"])
                    for change in changes.values()
                    if (change["kind"], change["id"]) == ("delete", id)
                ]
                gone |= {*numbers(before["description"])}
                continue
            assert after["description"].startswith(before["description"]), "a text is overwritten"
            by = {*numbers(after["description"][len(before["description"]) :])}
            if after["title"] != before["title"]:
                by |= {*numbers(after["title"])}
            assert len(by) <= 1
            happened |= by
            if event["type"] == "task.updated":
                for number in by:
                    merged = shown(before) != shown(changes[number]["seen"])
                    assert not merged or number in conflicts, "a conflict is not told"
            before = after
    texts = {number for number, change in changes.items() if "append" in change}
    kept = gone.union(*(numbers(task["description"]) for task in now.values()))
    assert approved <= happened
    assert (approved & texts) - kept == set(), "a text is lost"
    return {
        "changes": len(changes),
        "texts": len(texts),
        "conflicts to merge": len({*asked}),
        "conflicts that were dropped": len(refused),
        "dropped although an earlier attempt had succeeded": len(refused & happened),
        "told again after a kill": len(told) + len(asked) - len({*told}) - len({*asked}),
    }


@pytest.mark.parametrize(
    ("app", "user"), [("device.mjs", "bob"), ("device.mjs", "alice"), ("device.py", "alice")]
)
def test_no_text_of_two_devices_is_lost_and_each_conflict_is_told_once(
    database_url, unlimited, connection, tmp_path, app, user
):
    actions = int(os.environ.get("OUTBOX_ACTIONS") or 300)
    seed = int(os.environ.get("OUTBOX_SEED") or random.randrange(10**6))
    print(f"OUTBOX_SEED={seed}")
    chance = random.Random(seed)
    kills = dict.fromkeys(chance.sample(range(actions), actions // 60), "kills of a device")
    kills |= dict.fromkeys(chance.sample(range(actions), actions // 200), "kills of the service")
    with ExitStack() as stack:
        service = Server(database_url, stack)
        _, page = call(service.port, "GET", "/api/events", TOKENS["alice"])
        proxy = stack.enter_context(closing(CuttingProxy(service.port, chance)))
        devices = [
            Device(tmp_path / "first", APPS / "device.mjs", proxy.port, TOKENS["alice"]),
            Device(tmp_path / "second", APPS / app, proxy.port, TOKENS[user]),
        ]
        for device in devices:
            stack.callback(device.kill)
        for number in range(1, actions + 1):
            device = devices[0] if number <= 8 else chance.choice(devices)
            device.put(number, **invent(chance, number, device.ids[-12:]))
            if chance.random() < 0.06 or number == 8:
                device.synchronise()
            if chance.random() < 0.04 or number == 8:
                # What was put before is sent, and the person sees what others have changed.
                device.finish()
            if chance.random() < 0.02:
                # The changes that wait are sent so late that the service has forgotten their keys.
                connection.execute("DELETE FROM idempotency_keys")
            if kills.get(number) == "kills of a device":
                device.synchronise()
                device.kill()
                device.start()
            elif kills.get(number) == "kills of the service":
                for each in devices:
                    each.synchronise()
                service.kill()
                service.start()
        for device in (*devices, *devices):
            device.finish()
        now = tasks(service.port, TOKENS["alice"])
        history = defaultdict(list)
        for event in events(service.port, TOKENS["alice"], page["nextCursor"]):
            history[event["data"]["id"]].append(event)
    for device in devices:
        assert device.copy == now
    figures = check(history, devices, now)
    figures |= {"connections cut": proxy.cuts, **Counter(kills.values())}
    print(figures)
    assert figures["conflicts to merge"] > actions // 50
