"""Prints what a workspace has finished last week, for a mail or a chat: ``python report.py``.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN, a ``read`` token of the workspace.
The week begins on Monday in the timezone of the workspace. A DAY, such as 2026-11-25, asks for the
week before that day.
"""

import os
import sys
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from urllib3 import PoolManager, Retry

RETRY = Retry(None, status_forcelist=(429, 502, 503, 504), backoff_factor=0.5)
http = PoolManager(retries=RETRY, timeout=60)


def get(path, *, absent=None, **query):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    answer = http.request("GET", os.environ["URL"] + path, fields=query, headers=headers)
    if absent and answer.status == 404:
        return absent
    return answer.json() if answer.status == 200 else sys.exit(answer.json()["message"])


def pages(path, **query):
    while True:
        page = get(path, **query)
        yield from page["data"]
        if page["nextCursor"] is None:
            return
        query["cursor"] = page["nextCursor"]


workspace = get(f"/api/workspaces/{get('/api/me')['workspace']['id']}")
members = f"/api/workspaces/{workspace['id']}/members"
names = {one["userId"]: one["name"] for one in get(members)}
today = datetime.now(ZoneInfo(workspace["timezone"])).date()
day = date.fromisoformat(os.environ.get("DAY") or str(today))
monday = day - timedelta(days=day.weekday())
# A day in a filter means its beginning in the timezone of the workspace.
week = {"completedAfter": str(monday - timedelta(days=7)), "completedBefore": str(monday)}
tasks = list(pages("/api/tasks", sort="completedAt", limit="200", **week))
late = [task for task in tasks if (task["dueDate"] or "9999") < task["completedAt"]]
print(f"{workspace['name']} finished {len(tasks)} tasks last week, {len(late)} of them late.")
for task in tasks:
    who = task["completedBy"]
    if who and who not in names:
        # Somebody who has left is not in the list of members, but still has a name.
        names[who] = get(f"{members}/{who}", absent={"name": "a deleted user"})["name"]
    print(f"- {task['title']}" + (f" (finished by {names[who]})" if who else ""))
