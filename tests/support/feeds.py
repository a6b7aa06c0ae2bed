"""Read all events or all tasks of a running service."""

from support.processes import call


def events(port, token, cursor):
    """Yield all events after a cursor."""
    more = True
    while more:
        path = f"/api/events?limit=500&after={cursor}"
        _, page = call(port, "GET", path, token)
        yield from page["data"]
        cursor, more = page["nextCursor"], page["hasMore"]


def tasks(port, token):
    """Return all tasks by their ids."""
    found, cursor = {}, ""
    while cursor is not None:
        _, page = call(port, "GET", f"/api/tasks?limit=200{cursor}", token)
        found.update((task["id"], task) for task in page["data"])
        cursor = page["nextCursor"] and f"&cursor={page['nextCursor']}"
    return found
