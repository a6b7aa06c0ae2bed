"""A dry run answers as the request would, and leaves nothing behind."""

import json
import re

import pytest
from support.commands import UUID
from support.derived import Values, body_of, by_name, references, session, stable, views_of
from support.http import error_message, invalid_field, location, read_all
from support.openapi_check import document
from support.receivers import subscribe
from support.rows import UNKNOWN, count, insert_token
from support.world import COUNTED

from service.database.statements import catalogue

TRY = {"dryRun": "true"}
WRITES = views_of("POST", "PATCH", "DELETE")
REFUSED = [view for view in WRITES if re.match("/api/(tokens|session|webhooks)", view.rule)]
TRIED = [view for view in WRITES if view not in REFUSED]
# What the service writes besides the request: it counts the request, and notes its processes.
UNRELATED = {*COUNTED, "counters", "processes"}
TIMESTAMP = r"20[0-9]{2}-[0-9-]{5}T[0-9:.]+Z"
# The headers that count requests, or name this one.
OWN = "X-Request-Id", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Dry-Run"


def contents(connection):
    """Return all rows of the database, with the transactions that wrote them."""
    query = " UNION ALL ".join(
        f"SELECT '{table}' AS name, to_jsonb(row) - 'last_used_at' AS row,"
        f" {'NULL' if table == 'tokens' else 'row.xmin::text'} AS xmin FROM {table} AS row"
        for table in sorted({*catalogue()["tables"]} - UNRELATED)
    )
    return connection.execute(f"{query} ORDER BY 1, 2").fetchall()


def answer(response, known=()):
    """Return a response without timestamps, counts of requests, and ids that are not known."""

    def masked(text):
        text = re.sub(UUID, lambda id: id[0] if id[0] in known else "new", text)
        return re.sub(TIMESTAMP, "time", text)

    headers = {name: masked(text) for name, text in response.headers if name not in OWN}
    body = stable(response.get_json(silent=True))
    return response.status_code, headers, masked(json.dumps(body))


def tried(client, method, path, **options):
    """Return the response of a dry run, whose header says so."""
    response = client.send(method, path, query_string=TRY, **options)
    assert response.headers["Dry-Run"] == "true"
    return response


@by_name(TRIED)
def test_a_dry_run_of_each_write_changes_no_row_and_answers_like_the_request_after_it(
    silent_app, connection, cast, insert_into, acme, unlimited, view
):
    owner = session(silent_app, "alice")
    body = body_of(view, Values(references(connection, cast, insert_into)))
    known = {*acme.ids(), *re.findall(rf"(?={UUID})(.{{36}})", json.dumps(body))}
    for chosen in acme.keys(view):
        path, before = view.path(*chosen), contents(connection)
        response = tried(owner, view.method, path, json=body)
        assert contents(connection) == before, path
        real = owner.send(view.method, path, json=body)
        assert answer(response, known) == answer(real, known), path
        assert "Dry-Run" not in real.headers
        if real.status_code < 300 and contents(connection) != before:
            return
    raise AssertionError("no request has changed anything")


@by_name(REFUSED)
def test_each_write_of_tokens_sessions_and_webhooks_refuses_a_dry_run(browser, connection, view):
    before = contents(connection)
    path = view.path(*[UNKNOWN] * len(view.variables))
    for value in ("true", "false"):
        response = browser.send(view.method, path, query_string={"dryRun": value}, json={})
        refusal = "unknown query parameter; this operation takes none"
        assert invalid_field(response, "dryRun") == refusal
        assert "Dry-Run" not in response.headers
    assert contents(connection) == before


@pytest.mark.nodatabase
def test_the_document_has_dry_run_for_these_writes_without_a_default_that_clients_would_send():
    found = {}
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                if parameter.get("name") == "dryRun":
                    found[method.upper(), path.partition("{")[0]] = parameter["schema"]
                    success = next(iter(operation["responses"].values()))
                    assert "Dry-Run" in success["headers"]
    assert {*found} == {(view.method, view.rule.partition("<")[0]) for view in TRIED}
    assert all(schema == {"type": "boolean"} for schema in found.values())


def test_no_constraint_is_deferred_so_a_dry_run_meets_all_of_them(connection):
    assert count(connection, "pg_constraint", "condeferrable") == 0
    assert count(connection, "pg_trigger", "tgdeferrable") == 0


@pytest.fixture
def task(alice):
    return alice.post("/tasks", {"title": "Old"}).get_json()


def test_refusals_of_a_dry_run_are_those_of_the_request(alice, bob, cast, connection, task):
    path, acme = f"/tasks/{task['id']}", f"/workspaces/{cast['acme']}"
    old = {"If-Match": '"7"'}
    before = contents(connection)
    for client, method, where, status, options in (
        (alice, "POST", "/tasks", 409, {"json": {"id": task["id"], "title": "Again"}}),
        (alice, "POST", "/tasks", 400, {"json": {"title": "x", "assigneeId": UNKNOWN}}),
        (alice, "POST", "/tasks", 400, {"json": {"title": ""}}),
        (alice, "POST", "/tasks", 415, {"data": "{}", "content_type": "text/plain"}),
        (alice, "PATCH", path, 412, {"json": {"title": "New"}, "headers": old}),
        (alice, "DELETE", path, 412, {"headers": old}),
        (alice, "PATCH", f"/tasks/{UNKNOWN}", 404, {"json": {"title": "New"}}),
        (alice, "DELETE", f"{acme}/members/{cast['alice']}", 409, {}),
        (bob, "PATCH", acme, 403, {"json": {"name": "Bob's"}}),
        (bob, "DELETE", f"{acme}/members/{cast['alice']}", 403, {}),
        (alice, "POST", "/tasks/batch", 412, {
            "json": {"create": [{"title": "x"}], "delete": [{"id": task["id"], "version": 7}]}
        }),
    ):  # fmt: skip
        response = tried(client, method, where, **options)
        assert response.status_code == status, response.text
        real = client.send(method, where, **options)
        assert answer(response, {task["id"]}) == answer(real, {task["id"]})
    assert contents(connection) == before


def test_a_dry_run_needs_the_scope_write_and_counts_as_a_request(
    app, alice, cast, connection, monkeypatch
):
    first, second = (tried(alice, "POST", "/tasks", json={"title": "x"}) for _ in range(2))
    left = "X-RateLimit-Remaining"
    assert int(second.headers[left]) == int(first.headers[left]) - 1
    insert_token(connection, cast["alice"], "tmw_api_reader", scope="read")
    monkeypatch.setitem(alice.headers, "Authorization", "Bearer tmw_api_reader")
    response = alice.post("/tasks", {"title": "x"}, query_string=TRY)
    assert "scope read" in error_message(response, 403)


def test_a_dry_run_posts_nothing_and_leaves_nothing_in_the_feed(
    webhooks_app, ada, cast, connection, receiver
):
    subscribe(connection, cast["acme"], receiver.url)
    cursor = ada.get("/events").get_json()["nextCursor"]
    created = tried(ada, "POST", "/tasks", json={"title": "Tried"})
    path = f"/tasks/{location(created).rpartition('/')[2]}"
    assert ada.get(path).status_code == 404
    assert [count(connection, table) for table in ("events", "deliveries")] == [0, 0]
    ada.post("/tasks", {"title": "Done"})
    assert json.loads(receiver.take().body)["data"]["title"] == "Done"
    assert receiver.take_all() == []
    events = ada.get("/events", query_string={"after": cursor}).get_json()["data"]
    assert [event["data"]["title"] for event in events] == ["Done"]


def test_a_dry_run_neither_reads_nor_stores_an_idempotency_key(alice, connection):
    def send(title, key="k-1", **query):
        headers = {"Idempotency-Key": key}
        response = alice.post("/tasks", {"title": title}, headers=headers, query_string=query)
        return response.status_code, response.headers.get("Idempotent-Replayed")

    assert send("Tried", **TRY) == (201, None)
    assert count(connection, "idempotency_keys") == 0
    assert send("Done") == (201, None)
    assert send("Done", **TRY) == (201, None)
    assert send("Another", **TRY) == (201, None)
    assert send("Another", "\u00fc", **TRY) == (201, None)
    # The request is the same with and without dryRun=false.
    assert send("Done", dryRun="false") == (201, "true")
    assert [task["title"] for task in read_all(alice, "/tasks")] == ["Done"]


@pytest.mark.parametrize(
    ("query", "name", "reason"),
    [
        ("dryRun=1", "dryRun", "must be true or false"),
        ("dryRun=True", "dryRun", "must be true or false"),
        ("dryRun=", "dryRun", "must be true or false"),
        ("dryRun=true&dryRun=false", "dryRun", "must not be repeated"),
        ("dryrun=true", "dryrun", "unknown query parameter; did you mean dryRun?"),
        ("dryRun=true&limit=1", "limit", "unknown query parameter; allowed: dryRun"),
    ],
)
def test_another_query_of_a_write_gets_400_that_names_it(alice, connection, query, name, reason):
    response = alice.post(f"/tasks?{query}", {"title": "x"})
    assert invalid_field(response, name) == reason
    assert count(connection, "tasks") == 0


def test_the_log_line_of_a_dry_run_says_so_and_names_no_new_object(alice, lines):
    tried(alice, "POST", "/tasks", json={"title": "x"})
    alice.post("/tasks?dryRun=false", {"title": "x"})
    dry, real = map(json.loads, lines())
    assert (dry["dryRun"], dry["status"], "created" in dry) == (True, 201, False)
    assert ("dryRun" in real, "created" in real) == (False, True)
