"""Sends lines of convert.py as batches of 100 tasks: ``python upload.py <LINES``.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN, a token of the workspace.
"""

import hashlib
import json
import os
import sys
import time

from urllib3 import PoolManager, Retry

PAUSE = float(os.environ.get("PAUSE", 60))
# The service itself sets createdAt, updatedAt and completedAt.
SENT = "id", "title", "description", "status", "priority", "dueDate", "projectId", "parentId"
own = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
# Repeats a request until it is answered. None: including POST.
again = Retry(None, status_forcelist=(429, 502, 503, 504), allowed_methods=None, backoff_factor=0.5)
http = PoolManager(retries=again, timeout=60)


def call(method, path, body=None, **headers):
    headers |= own
    while True:
        answer = http.request(method, os.environ["URL"] + path, body=body, headers=headers)
        try:
            result = answer.json()
        except ValueError:  # Something else answered: a proxy with its own page, for example.
            time.sleep(PAUSE)
        else:
            return result if answer.status == 200 else sys.exit(result["message"])


workspace = call("GET", "/api/me")["workspace"]["id"]
people = call("GET", f"/api/workspaces/{workspace}/members")
ids = {person["email"].lower(): person["userId"] for person in people}
tasks = []
for line in sys.stdin:
    given = json.loads(line)
    tasks.append({name: value for name, value in given.items() if name in SENT})
    if email := given.get("assigneeId"):
        absent = f"{email} is not a member of the workspace"
        tasks[-1]["assigneeId"] = ids.get(email.lower()) or sys.exit(absent)
while tasks:
    number = 100
    # MAX_BODY is 1 MiB unless the operator has changed it.
    while len(body := json.dumps({"create": tasks[:number]})) > 2**20 and number > 1:
        number //= 2
    # If the response is lost, the repeat has the same key and gets it again.
    key = hashlib.sha256(body.encode()).hexdigest()
    call("POST", "/api/tasks/batch", body, **{"Idempotency-Key": key})
    del tasks[:number]
