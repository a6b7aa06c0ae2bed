"""Posts "Bob closed X" to a chat for each task that is done: ``python notify.py FILE``.

FILE keeps the cursor. A text is posted again if the program or its connection ends too early.
"""

import os
import sys
import time
from pathlib import Path

from urllib3 import PoolManager, Retry

RETRY = Retry(None, allowed_methods=None, status_forcelist=(429, 502, 503, 504), backoff_factor=0.5)
http, kept = PoolManager(retries=RETRY, timeout=60), Path(sys.argv[1])


def get(path, **query):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    answer = http.request("GET", os.environ["URL"] + path, fields=query, headers=headers)
    if answer.status not in (200, 404, 410):
        sys.exit(answer.data.decode())
    return answer.json() if answer.status == 200 else None


def name_of(event):
    path = f"/api/workspaces/{event['workspaceId']}/members/{event['actorId']}"
    # Who has left has a name only as the author of a task or a meeting.
    return (get(path) or {"name": "Somebody"})["name"]


cursor = kept.read_text() if kept.exists() else None
while True:
    page = get("/api/events", type="task.updated", **({"after": cursor} if cursor else {}))
    if page is None:
        print("Some events are lost", file=sys.stderr)  # It was off for longer than WEBHOOK_KEEP.
        cursor = None
        continue
    for event in page["data"]:
        if "status" in event["changed"] and event["data"]["status"] == "done":
            text = f"{name_of(event)} closed {event['data']['title']}"
            if http.request("POST", os.environ["CHAT"], json={"text": text}).status >= 300:
                sys.exit("The chat refused a text")
    cursor = page["nextCursor"]
    new = kept.with_name(f"{kept.name}.new")
    new.write_text(cursor)
    new.replace(kept)
    if not page["hasMore"]:
        time.sleep(float(os.environ.get("PAUSE", 60)))
