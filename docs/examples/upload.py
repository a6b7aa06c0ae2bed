"""Sends lines of convert.py as batches of 100 tasks: ``python upload.py <LINES``.

Needs urllib3 2. Set URL, like http://127.0.0.1:8000, and TOKEN, a token of the workspace.
"""

import hashlib
import json
import os
import re
import sys
import time

from urllib3 import PoolManager, Retry

PAUSE = float(os.environ.get("PAUSE", 60))
# The service itself sets these, and the token chooses the workspace. Everything else is sent.
LEFT_OUT = {"type", "workspace", "workspaceId", "dueDay", "version"}
LEFT_OUT |= {f"{word}{end}" for word in ("created", "updated", "completed") for end in ("At", "By")}
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
            return result if answer.status == 200 else sys.exit(named(result["message"]))


def named(message):
    """Return a message of the service with the numbers of lines instead of tasks."""
    task = r"create\[(\d+)\][.:]? ?"
    return re.sub(task, lambda found: f"line {numbers[int(found[1])]}: ", message)


workspace = call("GET", "/api/me")["workspace"]["id"]
people = call("GET", f"/api/workspaces/{workspace}/members")
ids = {person["email"].lower(): person["userId"] for person in people}
ids |= {id: id for id in ids.values()}
tasks, numbers = [], []
for number, line in enumerate(sys.stdin, 1):
    if not line.strip():
        continue
    given = json.loads(line)
    tasks.append({name: value for name, value in given.items() if name not in LEFT_OUT})
    numbers.append(number)
    if day := given.get("dueDay"):
        tasks[-1]["dueDate"] = day
    if email := given.get("assigneeId"):
        absent = f"line {number}: {email} is not a member of the workspace"
        tasks[-1]["assigneeId"] = ids.get(email.lower()) or sys.exit(absent)
while tasks:
    number = 100
    # MAX_BODY is 1 MiB unless the operator has changed it.
    while len(body := json.dumps({"create": tasks[:number]})) > 2**20 and number > 1:
        number //= 2
    # If the response is lost, the repeat has the same key and gets it again.
    key = hashlib.sha256(body.encode()).hexdigest()
    call("POST", "/api/tasks/batch", body, **{"Idempotency-Key": key})
    del tasks[:number], numbers[:number]
