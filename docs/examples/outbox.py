"""Stores changes in the SQLite file OUTBOX, and sends them when the service can be reached.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN. ``put`` stores a change. ``send``
sends all that wait, and tells what became of each.
"""

import json
import os
import sqlite3
import time
from contextlib import suppress
from secrets import randbits
from uuid import UUID, uuid4

from urllib3 import PoolManager, Retry

PAUSE = float(os.environ.get("PAUSE", 60))
own = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
# Repeats a request until it is answered. None: including POST and PATCH.
again = Retry(None, status_forcelist=(429, 502, 503, 504), allowed_methods=None, backoff_factor=0.5)
http = PoolManager(retries=again, timeout=60)
outbox = sqlite3.connect(os.environ["OUTBOX"])
outbox.execute(
    "CREATE TABLE IF NOT EXISTS outbox"
    " (number INTEGER PRIMARY KEY, method, path, body, version, key)"
)
with suppress(sqlite3.OperationalError):  # The file has this column already.
    outbox.execute("ALTER TABLE outbox ADD COLUMN seen")


def new_id():  # A UUIDv7, because lists are in the order of ids.
    now = int(time.time() * 1000)
    return str(UUID(int=now << 80 | 7 << 76 | randbits(12) << 64 | 2 << 62 | randbits(62)))


def put(method, path, body=None, version=None, seen=None):
    """Store a change of the version that the person saw: 1 if the object itself still waits.

    Also give the object as the person saw it, with the changes that still waited then: without it,
    two devices of one person that make the same change are not told apart.
    """
    values = method, path, json.dumps(body), version, str(uuid4()), json.dumps(seen)
    with outbox:
        outbox.execute("INSERT INTO outbox VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)


def ask(method, path, body=None):
    """Return the object in the response, or None if the service refuses the request."""
    answer = http.request(method, os.environ["URL"] + path, body=body, headers=own)
    result = answer.json()
    if answer.status not in (200, 400, 404, 409):
        raise SystemExit(result["message"])
    return result if answer.status == 200 else None


def is_now(now, path, values):
    """Ask whether the object has these values already: a PATCH would then change nothing."""
    after = ask("PATCH", f"{path}?dryRun=true", json.dumps(values))
    return after is not None and after["version"] == now["version"]


def with_change(seen, body, now):
    """Return the values of the object as the person saw it, with the change, for a PATCH of now."""
    values = {**seen, **body}
    if seen.get("dueDay") and "dueDate" not in body:
        values["dueDate"] = seen["dueDay"]
    if "metadata" in seen and body.get("metadata", {}) is not None:
        none = dict.fromkeys(now["metadata"])
        values["metadata"] = {**none, **seen["metadata"], **body.get("metadata", {})}
    return values


def earlier(method, path, body, version, seen, now):
    """Find out whether a refused change happened in an earlier attempt, whose response was lost.

    Return whether it happened, and whether nothing has changed the object since then.
    """
    if method == "DELETE" or (method == "PATCH" and not is_now(now, path, body)):
        return False, False
    me = ask("GET", "/api/me")["user"]["id"]
    if method == "POST" and now["createdBy"] != me:
        return False, False
    # Somebody else, or the person's other device, may have made this change with another one.
    if method == "POST":
        first = now["updatedAt"] == now["createdAt"]
    else:
        first = now["version"] == version + 1
    mine = first and now["updatedBy"] == me
    return True, mine and is_now(now, path, with_change(seen or {}, body, now))


def send(tell):
    """Send what waits, oldest first.

    After each change, call tell(method, path, body, object as it is now or None, problem or None).
    If somebody else has changed the object, the change is dropped with all that follow it.
    """
    while row := outbox.execute("SELECT * FROM outbox ORDER BY number LIMIT 1").fetchone():
        number, method, path, body, version, key, seen = row
        safe = {"Idempotency-Key": key, **({"If-Match": f'"{version}"'} if version else {})}
        answer = http.request(method, os.environ["URL"] + path, body=body, headers={**own, **safe})
        made = method == "POST" and f"{path}/{json.loads(body).get('id')}"
        taken = False
        try:
            now = result = answer.json() if answer.data else {}
            happened, follows = answer.status < 300, True
            if answer.status >= 400:
                refused = [error["field"] for error in result.get("errors", ())]
                taken = answer.status == 409 and refused == ["id"]
                now = ask("GET", made) if taken else result.get("current")
                happened, follows = method == "DELETE" and answer.status == 404, False
                if now:
                    change = json.loads(body), version, json.loads(seen or "null")
                    happened, follows = earlier(method, made or path, *change, now)
        except ValueError:  # Something else answered: a proxy with its own page, for example.
            time.sleep(PAUSE)
            continue
        ended = [row]
        if happened:
            problem = None
        elif answer.status in (404, 412) or taken:  # Drop what the person did next to this object.
            problem, following = result["message"], (made or path, number)
            more = "SELECT * FROM outbox WHERE path = ? AND number > ? ORDER BY number"
            ended += outbox.execute(more, following)
        elif answer.status in (400, 413, 422):
            problem = result["message"]
        else:  # It stays: sign in again, for example, then send again.
            raise SystemExit(result["message"])
        with outbox:
            if follows and made:
                # With the id of a deleted object, the new one begins above its version.
                sql = "UPDATE outbox SET version = ? WHERE path = ?"
                outbox.execute(sql, (now["version"], made))
            elif follows and now.get("version"):
                # What the person did next to this object follows from this change.
                sql = "UPDATE outbox SET version = ? WHERE path = ? AND version = ?"
                outbox.execute(sql, (now["version"], path, version))
            for number, method, path, body, *_ in ended:
                tell(method, path, json.loads(body), now, problem)
                outbox.execute("DELETE FROM outbox WHERE number = ?", [number])
