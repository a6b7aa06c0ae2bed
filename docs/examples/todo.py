"""A client of the service, as test_todo.py tests it."""

import json
import time
import uuid

import urllib3


class Tasks:
    def __init__(self, base_url, token):
        self.base_url, self.headers = base_url, {"Authorization": f"Bearer {token}"}
        self.headers["Content-Type"] = "application/json"
        self.http = urllib3.PoolManager(retries=False)

    def add(self, title):
        return self.send("POST", "/tasks", {"title": title}, {"Idempotency-Key": str(uuid.uuid4())})

    def all(self):
        page = self.send("GET", "/tasks?limit=200")
        while True:
            yield from page["data"]
            if page["nextCursor"] is None:
                return
            page = self.send("GET", f"/tasks?limit=200&cursor={page['nextCursor']}")

    def send(self, method, path, document=None, headers=()):
        headers = self.headers | dict(headers)
        for attempt in range(5):
            try:
                body = None if document is None else json.dumps(document)
                url = self.base_url + path
                response = self.http.request(method, url, body=body, headers=headers)
            except urllib3.exceptions.ProtocolError:
                if attempt == 4:
                    raise
                time.sleep(attempt)
                continue  # The service does a repeated request once, because it has the same key.
            if response.status not in (429, 503):
                break
            # Retry-After has seconds or a date; the response of a proxy may not have it.
            seconds = urllib3.Retry().get_retry_after(response)
            time.sleep(attempt if seconds is None else seconds)
        if response.status >= 400:
            raise RuntimeError(json.loads(response.data)["message"])
        return json.loads(response.data)
