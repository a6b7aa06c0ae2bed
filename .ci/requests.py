"""Send one request of each method to a running service; fail if a response is not as expected."""

import json
import sys
from urllib.request import Request, urlopen

base, token = sys.argv[1:]


def send(method, path, body=None):
    request = Request(
        base + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=10) as response:
        content = response.read()
        print(method, path, response.status)
        return response.status, json.loads(content) if content else None


status, page = send("GET", "/tasks?limit=1")
assert status == 200, status
assert len(page["data"]) == 1, page
status, task = send("POST", "/tasks", {"title": "Seen by CI"})
assert status == 201, status
status, task = send("PATCH", f"/tasks/{task['id']}", {"status": "done"})
assert (status, task["status"]) == (200, "done"), task
status, nothing = send("DELETE", f"/tasks/{task['id']}")
assert (status, nothing) == (204, None), status
