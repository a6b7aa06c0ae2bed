"""Posts "Bob closed X" to a chat for each task that is done: ``python notify.py FILE``.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, TOKEN, and CHAT, the URL that gets the texts.
The program stores its cursor in FILE. After a failure, it may post a text twice. If the service no
longer has all events since the cursor, the program says so on stderr and continues from now.
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
        sys.exit(answer.json()["message"])
    return answer.json()


query = {"after": kept.read_text()} if kept.exists() else {}
while True:
    page = get("/api/events", type="task.updated", **query)
    if page.get("status") == 410:
        print(page["message"], file=sys.stderr)
        page = get("/api/events")
    for event in page["data"]:
        if "status" in event["changed"] and event["data"]["status"] == "done":
            who = get(f"/api/workspaces/{event['workspaceId']}/members/{event['actorId']}")
            # A deleted user has no name.
            text = f"{who.get('name', 'Somebody')} closed {event['data']['title']}"
            if http.request("POST", os.environ["CHAT"], json={"text": text}).status >= 300:
                sys.exit("The chat refused a text")
    query = {"after": page["nextCursor"]}
    kept.with_suffix(".new").write_text(page["nextCursor"])
    kept.with_suffix(".new").replace(kept)
    if not page["hasMore"]:
        time.sleep(float(os.environ.get("PAUSE", 60)))
