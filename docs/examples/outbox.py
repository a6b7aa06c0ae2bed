"""Stores changes in the SQLite file OUTBOX, and sends them when the service can be reached.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN. ``put`` stores a change. ``send``
sends all that wait, and tells what became of each.
"""

import json
import os
import sqlite3
import time
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


def new_id():  # A UUIDv7, because lists are in the order of ids.
    now = int(time.time() * 1000)
    return str(UUID(int=now << 80 | 7 << 76 | randbits(12) << 64 | 2 << 62 | randbits(62)))


def put(method, path, body=None, version=None):
    """Store a change of the version that the person saw: 1 if the object itself still waits."""
    values = method, path, json.dumps(body), version, str(uuid4())
    with outbox:
        outbox.execute("INSERT INTO outbox VALUES (NULL, ?, ?, ?, ?, ?)", values)


def has(now, value):
    """Return whether a member is as a PATCH with this value leaves it; metadata is merged."""
    if isinstance(value, dict):
        return all(has((now or {}).get(name), inner) for name, inner in value.items())
    return now == value or (value is None and now == {})


def shows(now, body):
    """Return whether an object has the values of a body."""
    return now is not None and all(
        has(now.get(name), value) or (name == "dueDate" and now["dueDay"] == value)
        for name, value in json.loads(body).items()
    )


def happened(method, body, answer, result):
    """Return whether a refused change happened in an earlier attempt, whose response was lost."""
    if method == "POST":
        return answer.status == 409 and [e["field"] for e in result.get("errors", ())] == ["id"]
    if method == "DELETE":
        return answer.status == 404
    return shows(result.get("current"), body)


def send(tell):
    """Send what waits, oldest first.

    After each change, call tell(path, object as it is now or None, problem or None).
    """
    while row := outbox.execute("SELECT * FROM outbox ORDER BY number LIMIT 1").fetchone():
        number, method, path, body, version, key = row
        safe = {"Idempotency-Key": key, **({"If-Match": f'"{version}"'} if version else {})}
        answer = http.request(method, os.environ["URL"] + path, body=body, headers={**own, **safe})
        try:
            result = answer.json() if answer.data else {}
            past = answer.status >= 400 and happened(method, body, answer, result)
            if past and method == "POST":  # This error does not have the object.
                made = f"{os.environ['URL']}{path}/{json.loads(body)['id']}"
                read = http.request("GET", made, headers=own)
                result["current"] = read.json() if read.status == 200 else None
        except ValueError:  # Something else answered: a proxy with its own page, for example.
            time.sleep(PAUSE)
            continue
        with outbox:
            if answer.status < 300 or past:
                now = result.get("current") if past else result
                # What the person did next to this object follows from this change, unless somebody
                # else has changed the object since then.
                if now and method == "POST" and (not past or shows(now, body)):
                    # With the id of a deleted object, the new one begins above its version.
                    sql = "UPDATE outbox SET version = ? WHERE path = ?"
                    outbox.execute(sql, (now.get("version"), f"{path}/{now.get('id')}"))
                elif now and method != "POST" and (not past or now["version"] == version + 1):
                    sql = "UPDATE outbox SET version = ? WHERE path = ? AND version = ?"
                    outbox.execute(sql, (now.get("version"), path, version))
                tell(path, now, None)
            elif answer.status in (404, 412):  # Drop what the person did next to this object.
                outbox.execute("DELETE FROM outbox WHERE path = ?", [path])
                tell(path, result.get("current"), result["message"])
            elif answer.status in (400, 413, 422):
                tell(path, None, result["message"])
            else:  # It stays: sign in again, for example, then send again.
                raise SystemExit(result["message"])
            outbox.execute("DELETE FROM outbox WHERE number = ?", [number])
