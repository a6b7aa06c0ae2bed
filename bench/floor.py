"""The floor: the same two statements in a bare WSGI callable, on the service's own pool.

``gunicorn bench.floor:app`` in the project's folder runs the callable, which checks nothing.
"""

import json
from hashlib import sha256
from urllib.parse import parse_qs

from bench.cases import CASES
from service.callers import Usage
from service.database.pool import Pool
from service.http.responses import Body, Changed, Created, One, Page
from service.settings import Settings

POOL = Pool(Settings.read(), "bench")
# The first of two cases with one path has the defaults.
BY_ROUTE = {(case.method, case.path.partition("?")[0]): case for case in reversed(CASES)}
ROWS = {
    "tasks/list": Page,
    "tasks/get": One,
    "tasks/create": Created,
    "tasks/update": Changed,
    "workspaces/list": Body,
    "dashboard/stats": Body,
}


def app(environ, start_response):
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    case = BY_ROUTE.get((method, path))
    if case:
        values = dict(case.values)
    else:
        folder, _, last = path.rpartition("/")
        case = BY_ROUTE[method, f"{folder}/{{id}}"]
        values = {**case.values, "id": last}
    if environ["QUERY_STRING"]:
        query = parse_qs(environ["QUERY_STRING"])
        values["limit"] = int(query["limit"][0])
    if method == "POST":
        values |= json.loads(environ["wsgi.input"].read())
    elif method == "PATCH":
        values["changes"] = environ["wsgi.input"].read().decode()
    token = environ["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    if POOL.closed:
        POOL.open()
    connection = POOL.getconn()
    try:
        usage = connection.row(
            Usage,
            "gate/authenticate_and_count",
            {
                "kind": "api",
                "hash": sha256(token.encode()).digest(),
                "address": environ["REMOTE_ADDR"],
                "requested_workspace_id": None,
            },
        )
        for name in ("user_id", "workspace_id", "token_workspace_id"):
            values[name] = getattr(usage, name)
        found = connection.row(ROWS[case.statement], case.statement, values)
    finally:
        POOL.putconn(connection)
    status = "201 Created" if method == "POST" else "200 OK"
    body = page(found) if "limit" in values else found.body
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]


def page(found):
    cursor = "null" if found.next_cursor is None else f'"{found.next_cursor}"'
    return b'{"data": %b, "nextCursor": %b}' % (found.data, cursor.encode())


# gunicorn.conf.py closes the pool of a worker that ends.
app.extensions = {"pool": POOL}
