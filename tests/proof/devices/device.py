"""The app of one device, as device.mjs; it merges nothing, because outbox.py does not."""

import json
import os
import sys
from pathlib import Path

import outbox
from urllib3 import PoolManager, Retry

statuses = (429, 502, 503, 504)
soon = Retry(
    None, status_forcelist=statuses, allowed_methods=None, backoff_factor=0.02, backoff_max=0.1
)
outbox.http = PoolManager(retries=soon, timeout=60)
COPY = Path("copy.json")
copy = json.loads(COPY.read_text()) if COPY.exists() else {}
KINDS = {"POST": "create", "PATCH": "update", "DELETE": "delete"}


def show(line):
    print(json.dumps(line), flush=True)


def keep_copy():
    Path("copy.json.new").write_text(json.dumps(copy))
    os.replace("copy.json.new", COPY)


def waiting(id):
    """Return the changes of a task that wait: method, body and version."""
    rows = outbox.outbox.execute("SELECT method, path, body, version FROM outbox ORDER BY number")
    changes = [(method, path, json.loads(body), version) for method, path, body, version in rows]
    return [
        (method, body, version)
        for method, path, body, version in changes
        if path.endswith(id) or (method == "POST" and body["id"] == id)
    ]


def put(number, kind, id, append=None, **values):
    seen, version = copy.get(id), copy.get(id, {}).get("version")
    for method, body, of in waiting(id):
        seen = None if method == "DELETE" else {**(seen or {}), **body}
        version = of or 1
    if (seen is None) == (kind != "create"):
        show({"put": number, "seen": None})
        return
    if append:
        values["description"] = (seen or {}).get("description", "") + append
    if kind == "create":
        outbox.put("POST", "/api/tasks", {"id": id, **values})
    elif kind == "update":
        outbox.put("PATCH", f"/api/tasks/{id}", values, version, seen)
    else:
        outbox.put("DELETE", f"/api/tasks/{id}", None, version)
    show({"put": number, "seen": seen or {}})


def tell(method, path, body, now, problem):
    id = body["id"] if method == "POST" else path.rsplit("/", 1)[1]
    copy.pop(id, None)
    if now:
        copy[id] = now
    keep_copy()
    show({"told": KINDS[method], "item": {**(body or {}), "id": id}, "problem": problem})


def get(path):
    while True:
        try:
            return outbox.ask("GET", path)
        except ValueError:
            continue


def synchronise():
    outbox.send(tell)
    copy.clear()
    cursor = ""
    while cursor is not None:
        page = get(f"/api/tasks?limit=200{cursor}")
        copy.update((task["id"], task) for task in page["data"])
        cursor = page["nextCursor"] and f"&cursor={page['nextCursor']}"
    keep_copy()
    left = outbox.outbox.execute("SELECT count(*) FROM outbox").fetchone()[0]
    show({"synchronised": left, "copy": copy})


show({"started": True})
for line in sys.stdin:
    command = json.loads(line)
    if "number" in command:
        put(**command)
    else:
        synchronise()
