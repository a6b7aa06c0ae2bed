"""Keeps a copy of a workspace's tasks and meetings in SQLite: ``python mirror.py FILE``.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN, a ``read`` token of the workspace.
"""

import json
import os
import sqlite3
import sys
import time

from urllib3 import PoolManager, Retry

PAUSE = float(os.environ.get("PAUSE", 60))
# Repeats a request until it is answered: after the Retry-After of the response, or with pauses.
http = PoolManager(
    headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},
    retries=Retry(None, status_forcelist=(429, 502, 503, 504), backoff_factor=0.5),
    timeout=60,
)
copy = sqlite3.connect(sys.argv[1])
copy.execute("PRAGMA journal_mode = WAL")  # Others can read it meanwhile.
# A task and a meeting can have the same id.
copy.execute("CREATE TABLE IF NOT EXISTS copies (kind, id, body, PRIMARY KEY (kind, id))")


def get(path, **query):
    while True:
        answer = http.request("GET", os.environ["URL"] + path, fields=query)
        try:
            body = answer.json()
            break
        except ValueError:  # Something else answered: a proxy with its own page, for example.
            time.sleep(PAUSE)
    if answer.status not in (200, 410):
        sys.exit(body["message"])
    return body if answer.status == 200 else None


def pages(kind, path, **query):
    while page := get(path, **query):
        yield [(kind, one["id"], json.dumps(one)) for one in page["data"]]
        if page["nextCursor"] is None:
            return
        query["cursor"] = page["nextCursor"]


def begin():
    cursor, workspace = get("/api/events")["nextCursor"], get("/api/me")["workspace"]["id"]
    copy.execute("DELETE FROM copies")
    for page in pages("task", "/api/tasks", limit="200"):
        copy.executemany("REPLACE INTO copies VALUES (?, ?, ?)", page)
    for page in pages("meeting", "/api/meetings", limit="100", workspaceId=workspace):
        copy.executemany("REPLACE INTO copies VALUES (?, ?, ?)", page)
    return cursor


(cursor,) = copy.execute("SELECT body FROM copies WHERE kind = 'cursor'").fetchone() or (None,)
while True:
    page = get("/api/events", after=cursor, limit="500") if cursor else None
    cursor = page["nextCursor"] if page else begin()
    for event in page["data"] if page else ():
        kind, id = event["type"].split(".")[0], event["data"]["id"]
        if kind not in ("task", "meeting"):
            continue  # Not in this copy.
        if event["type"].endswith(".deleted"):
            copy.execute("DELETE FROM copies WHERE kind = ? AND id = ?", (kind, id))
        else:
            body = json.dumps(event["data"])
            copy.execute("REPLACE INTO copies VALUES (?, ?, ?)", (kind, id, body))
    copy.execute("REPLACE INTO copies VALUES ('cursor', '', ?)", [cursor])
    copy.commit()
    if page and not page["hasMore"]:
        time.sleep(PAUSE)
