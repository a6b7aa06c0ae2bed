"""A real browser: what pages of a listed and of an unlisted origin get from fetch()."""

import html
import json
import re
import subprocess
from contextlib import closing

import pytest
from support.chromium import Chromium
from support.derived import Values, key, references, settable
from support.openapi_check import LOGIN_KEY, document
from support.processes import serving
from support.project import PROJECT, read, replaced
from support.receivers import PATIENCE, Receiver, answer
from support.rows import TOKENS, count

from service.api.tasks import Task

pytestmark = [pytest.mark.proof, pytest.mark.needs("chromium")]

# With these options, Chromium requests nothing but the pages.
CHROMIUM = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--virtual-time-budget=20000", "--dump-dom",
]  # fmt: skip
PAGE = """<!doctype html><pre></pre><script type="module">
const seen = {}, token = TOKEN, json = {"Content-Type": "application/json"};
async function call(name, path, {bearer = token, headers = {}, ...options} = {}) {
  if (bearer) headers = {...headers, Authorization: `Bearer ${bearer}`};
  try {
    const response = await fetch(SERVICE + path, {...options, headers});
    seen[name] = {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: await response.text(),
    };
  } catch (error) {
    seen[name] = error.name;
  }
}
await call("create", "/api/tasks", {
  method: "POST", headers: {...json, "Idempotency-Key": "one"}, body: '{"title": "From a page"}',
});
await call("repeat", "/api/tasks", {
  method: "POST", headers: {...json, "Idempotency-Key": "one"}, body: '{"title": "From a page"}',
});
const created = seen.create.headers ?? {};
const path = new URL(created.location ?? "tasks/unknown", SERVICE + "/api/tasks").pathname;
const etag = created.etag ?? '"1"';
const change = {method: "PATCH", headers: {...json, "If-Match": etag}, body: '{"status": "done"}'};
await call("change", path, change);
await call("stale", path, change);
await call("unchanged", path, {headers: {"If-None-Match": '"2"'}});
await call("list", "/api/tasks?limit=1", {headers: {"X-Request-Id": "page-1"}});
await call("unknown", "/api/tasks/unknown");
await call("unauthorized", "/api/tasks", {bearer: "unknown"});
await call("document", "/openapi.json", {bearer: null});
await call("with cookies", "/api/tasks", {bearer: null, credentials: "include"});
await call("foreign header", "/api/tasks", {headers: {"X-Other": "1"}});
await call("foreign method", "/api/tasks", {method: "PUT"});
await call("delete", path, {method: "DELETE"});
document.querySelector("pre").textContent = JSON.stringify(seen);
</script>"""


@pytest.fixture(scope="module")
def listed():
    with closing(Receiver()) as listed:
        yield listed


foreign = listed


def lan_origin(listed):
    """Return the origin on plain http under which a page is no secure context."""
    return f"http://tasks.lan:{listed.port}"


@pytest.fixture(scope="module")
def service(database_url, listed):
    """Yield the base URL of a service that lists the origin of the receiver ``listed``."""
    with serving(
        database_url,
        CORS_ORIGINS=f"https://app.example.com, http://127.0.0.1:{listed.port},"
        f"{lan_origin(listed)}",
    ) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def browse(tmp_path):
    """Return a function that opens a page and returns its HTML afterwards and the browser's log."""

    def browse(url, *options):
        run = subprocess.run(
            [*CHROMIUM, f"--user-data-dir={tmp_path}", *options, url],
            capture_output=True,
            text=True,
            timeout=60,
        )
        return run.stdout, run.stderr

    return browse


@pytest.fixture
def visit(service, browse):
    """Return a function that opens the test page on a site and returns what the page has seen."""

    def visit(site):
        page = PAGE.replace("TOKEN", json.dumps(TOKENS["alice"]))
        page = page.replace("SERVICE", json.dumps(service)).encode()
        site.behaves(answer(200, page, Content_Type="text/html; charset=utf-8"))
        dom, log = browse(f"http://127.0.0.1:{site.port}/")
        shown = re.search("<pre>(.+?)</pre>", dom, re.DOTALL)
        assert shown, dom + log
        return json.loads(html.unescape(shown[1]))

    return visit


def test_a_page_of_a_listed_origin_uses_the_api_and_reads_its_headers(visit, listed, connection):
    seen = visit(listed)
    assert {
        name: call if call == "TypeError" else call["status"] for name, call in seen.items()
    } == {
        "create": 201,
        "repeat": 201,
        "change": 200,
        "stale": 412,
        "unchanged": 304,
        "list": 200,
        "unknown": 404,
        "unauthorized": 401,
        "document": 200,
        # The browser withholds this response from the page. It does not even send the next two
        # requests.
        "with cookies": "TypeError",
        "foreign header": "TypeError",
        "foreign method": "TypeError",
        "delete": 204,
    }
    headers = {name: call["headers"] for name, call in seen.items() if call != "TypeError"}
    task = json.loads(seen["create"]["body"])
    assert headers["create"]["location"] == f"tasks/{task['id']}"
    assert headers["create"]["etag"] == '"1"'
    assert headers["repeat"]["idempotent-replayed"] == "true"
    assert seen["repeat"]["body"] == seen["create"]["body"]
    assert json.loads(seen["change"]["body"])["status"] == "done"
    assert [headers[name]["etag"] for name in ("change", "stale", "unchanged")] == ['"2"'] * 3
    assert headers["list"]["x-request-id"] == "page-1"
    assert json.loads(seen["unknown"]["body"])["message"] == "Task not found"
    assert headers["unauthorized"]["www-authenticate"] == "Bearer"
    for name in headers.keys() - {"document"}:
        limits = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit"}
        assert limits < headers[name].keys()
        assert headers[name]["x-request-id"]
    # Alice has sent eight requests to the API. Preflight requests do not count.
    (alice,) = connection.execute("SELECT minute_count FROM usage WHERE subject <> '127.0.0.1'")
    assert alice["minute_count"] == 8
    assert count(connection, "tasks") == 0


def test_a_page_of_an_unlisted_origin_can_read_and_write_nothing(visit, foreign, connection):
    assert set(visit(foreign).values()) == {"TypeError"}
    assert count(connection, "tasks") == 0


def test_the_reference_page_shows_every_operation_under_its_content_security_policy(
    browse, database_url
):
    pytest.importorskip("flask_swagger_ui")
    with serving(database_url, DOCS="on", LOGIN_KEY=LOGIN_KEY) as server:
        dom, log = browse(f"http://127.0.0.1:{server.port}/docs/", "--enable-logging=stderr")
    described = document()
    operations = sum(map(len, [*described["paths"].values(), described["webhooks"]]))
    assert dom.count('class="opblock-summary-method"') == operations
    assert "Content Security Policy" not in log


# A script that acts as a person on docs/examples/tasks.html and records what the page shows.
PERSON = """<script type="module">
const seen = [], service = SERVICE, token = TOKEN, api = service + "/api/tasks";
const find = (selector) => document.querySelector(selector);
const headers = {"Content-Type": "application/json", Authorization: `Bearer ${token}`};
const until = async (happened) => {
  const pause = () => new Promise((go) => setTimeout(go, 50));
  for (let turn = 0; !happened() && turn < 100; turn++) await pause();
};
const titles = () => [...document.querySelectorAll("li span")].map((span) => span.textContent);
const alert = () => find("[role=alert]").textContent;
const click = async (title, text) => {
  const rows = [...document.querySelectorAll("li")];
  const row = rows.find((row) => row.textContent.startsWith(title));
  [...row.querySelectorAll("button")].find((button) => button.textContent === text).click();
};
const add = async (title, day) => {
  Object.assign(find("[name=title]"), {value: title});
  Object.assign(find("[name=dueDate]"), {value: day});
  find("#create").dispatchEvent(new Event("input"));
  find("#create button").click();
};
const enter = async () => {
  Object.assign(find("#service"), {value: service});
  Object.assign(find("#token"), {value: token});
  find("#enter button").click();
  await until(() => !find("#tasks").hidden);
};
await enter();
for (const [title, day] of [["Later", "2098-12-01"], ["Sooner", "2098-11-30"], ["Some day", ""]]) {
  const before = titles().length;
  await add(title, day);
  await until(() => titles().length > before);
}
seen.push(titles(), find("#enter").checkVisibility());
await click("Later", "Done");
await until(() => titles().length === 2);
await click("Some day", "Delete");
await until(() => titles().length === 1);
seen.push(titles(), alert());
const [task] = (await (await fetch(`${api}?status=todo`, {headers})).json()).data;
const due = find("time");
seen.push(task.dueDate, due.dateTime);
seen.push(due.textContent === new Date(2098, 10, 30).toLocaleDateString());
const body = JSON.stringify({title: "Changed"});
await fetch(`${api}/${task.id}`, {method: "PATCH", headers, body});
await click("Sooner", "Done");
await until(() => alert() && titles()[0] === "Changed");
seen.push(alert(), titles());
const real = window.fetch;
for (const status of [429, 503]) {
  const error = JSON.stringify({message: "raw", status, requestId: "x"});
  window.fetch = async () => new Response(error, {status, headers: {"Retry-After": "7"}});
  await click("Changed", "Done");
  await until(() => alert().includes("7 seconds"));
  seen.push(alert());
}
window.fetch = real;
sessionStorage.credential = JSON.stringify({service, token: "unknown"});
await click("Changed", "Done");
await until(() => find("#tasks").hidden);
seen.push(alert());
const result = {textContent: JSON.stringify(seen)};
document.body.append(Object.assign(document.createElement("pre"), result));
</script>"""


def test_the_example_page_of_tasks_does_what_its_user_asks_or_says_why_not(
    service, browse, listed, connection
):
    person = PERSON.replace("TOKEN", json.dumps(TOKENS["alice"]))
    person = person.replace("SERVICE", json.dumps(service))
    page = (PROJECT / "docs/examples/tasks.html").read_text() + person
    listed.behaves(answer(200, page.encode(), Content_Type="text/html; charset=utf-8"))
    dom, log = browse(f"http://127.0.0.1:{listed.port}/")
    shown = re.search("<pre>(.+?)</pre>", dom, re.DOTALL)
    assert shown, dom + log
    assert json.loads(html.unescape(shown[1])) == [
        ["Sooner", "Later", "Some day"],
        False,
        ["Sooner"],
        "",
        "2098-11-30T23:59:59.999Z",
        "2098-11-30",
        True,
        "Somebody has changed this task meanwhile. The list shows it as it is now: look again.",
        ["Changed"],
        "Too many requests. Try again in 7 seconds; nothing is done twice.",
        "The service is not available at the moment. Try again in 7 seconds;"
        " nothing is done twice.",
        "This token is unknown, expired or revoked. Enter another one.",
    ]
    assert count(connection, "tasks") == 2


WINDOWS = pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
WIDTH = "document.documentElement.scrollWidth"
FOCUS = "document.activeElement.ariaLabel"


@pytest.fixture(scope="module")
def chromium():
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def reference(database_url):
    pytest.importorskip("flask_swagger_ui")
    with serving(database_url, DOCS="on") as server:
        yield f"http://127.0.0.1:{server.port}/docs/"


@WINDOWS
def test_the_reference_page_fits_its_window_and_begins_with_operations(
    reference, chromium, width, height
):
    chromium.open(reference, width, height)
    chromium.until("document.querySelector('.opblock')")
    place = "document.querySelector('.opblock').getBoundingClientRect().bottom"
    assert chromium.run(place) < height
    chromium.open(f"{reference}#/tasks/listTasks", width, height)
    chromium.until("document.querySelector('.opblock.is-open .execute')")
    chromium.run(f"ui.preauthorizeApiKey('bearer', {json.dumps(TOKENS['alice'])})")
    chromium.run("document.querySelector('.opblock.is-open .execute').click()")
    chromium.until("document.querySelector('.live-responses-table .response-col_status')")
    assert chromium.run(WIDTH) == width
    sent = chromium.run("document.querySelector('.request-url pre').innerText")
    assert sent.partition("/api")[2] == "/tasks?limit=50"


@WINDOWS
def test_the_example_page_of_tasks_works_with_the_keyboard_alone_and_undoes_what_it_did(
    service, chromium, listed, connection, cast, insert_into, width, height
):
    mine = {"assignee_id": cast["alice"]}
    first = insert_into("tasks", title="First", due_date="2036-01-01", **mine)
    insert_into("tasks", title="Below", parent_id=first)
    insert_into("tasks", title="Second", due_date="2036-01-02", **mine)
    page = (PROJECT / "docs/examples/tasks.html").read_bytes()
    listed.behaves(answer(200, page, Content_Type="text/html; charset=utf-8"))
    chromium.open(f"http://127.0.0.1:{listed.port}/", width, height)
    chromium.run("delete sessionStorage.credential")
    chromium.open(f"http://127.0.0.1:{listed.port}/", width, height)
    assert chromium.run(WIDTH) == width
    enter = "document.forms.enter"
    # A person can read what they type.
    assert chromium.run(f"{enter}.token.getBoundingClientRect().width") > 150
    below = f"{enter}.querySelector('button').getBoundingClientRect()"
    token = f"{enter}.token.getBoundingClientRect()"
    assert chromium.run(f"{token}.right < {below}.left || {token}.bottom < {below}.top")
    chromium.run(f"{enter}.service.value = {json.dumps(service)}")
    chromium.run(f"{enter}.token.value = {json.dumps(TOKENS['alice'])}")
    chromium.run(f"{enter}.token.focus()")
    chromium.press("Enter")
    chromium.until("document.querySelectorAll('li').length === 2")
    assert chromium.run(WIDTH) == width
    assert chromium.run(FOCUS) == "Title"

    def tab_to(label):
        for _ in range(20):
            if chromium.run(FOCUS) == label:
                return
            chromium.press("Tab")
        raise AssertionError(label)

    tab_to("Delete: First")
    chromium.press("Enter")
    chromium.until("!document.querySelector('#undo').hidden")
    assert count(connection, "tasks") == 1
    # The focus stays at the same place of the list.
    assert chromium.run(FOCUS) == "Delete: Second"
    assert chromium.run("document.querySelector('[role=status]').textContent") == "Deleted: First"
    chromium.run("document.querySelector('#undo').focus()")
    chromium.press("Enter")
    chromium.until("document.querySelectorAll('li').length === 2")
    rows = connection.execute("SELECT id::text, title, parent_id::text FROM tasks").fetchall()
    assert {row["title"] for row in rows} == {"First", "Below", "Second"}
    assert [row["parent_id"] for row in rows if row["title"] == "Below"] == [first]
    for left in (1, 0):
        chromium.run("document.querySelector('[data-name=Done]').focus()")
        chromium.press("Enter")
        chromium.until(f"document.querySelectorAll('li').length === {left}")
    assert chromium.run("document.querySelector('#empty').checkVisibility()")
    chromium.until("!document.querySelector('#undo').hidden")
    chromium.run("document.querySelector('#undo').click()")
    chromium.until("document.querySelectorAll('li').length === 1")
    assert chromium.run("document.querySelector('[role=alert]').textContent") == ""


@WINDOWS
def test_the_front_end_of_the_page_about_sign_in_fits_its_window_and_names_its_fields(
    chromium, listed, width, height
):
    page = (PROJECT / "docs/examples/sign-in.html").read_bytes()
    listed.behaves(answer(200, page, Content_Type="text/html; charset=utf-8"))
    # Without the service, the page goes to the login page, which is this page again.
    chromium.open(f"http://127.0.0.1:{listed.port}/", width, height)
    assert chromium.run("innerWidth") == chromium.run(WIDTH) == width
    fields = "[...document.querySelectorAll('select, input')].map((field) => field.ariaLabel)"
    assert chromium.run(fields) == ["Workspace", "Title"]


@pytest.fixture
def lan(listed, chromium):
    """Return a function that opens an example on plain http from another host than localhost."""

    def open_example(name, *, before="", width=1280, height=900):
        page = before + (PROJECT / "docs/examples" / name).read_text()
        listed.behaves(answer(200, page.encode(), Content_Type="text/html; charset=utf-8"))
        chromium.open(f"{lan_origin(listed)}/", width, height)
        assert chromium.run("isSecureContext") is False

    return open_example


@pytest.fixture
def entered(service, chromium, lan):
    """Return a function that opens tasks.html, and enters a token."""

    def enter(token=TOKENS["alice"]):
        lan("tasks.html")
        chromium.run("sessionStorage.clear()")
        lan("tasks.html")
        give(chromium, service, token)
        chromium.until("!document.querySelector('#tasks').hidden")

    return enter


def requested(listed, path):
    """Wait until the browser has requested this path."""
    while listed.received.get(timeout=PATIENCE).path != path:
        pass


def give(chromium, service, token):
    chromium.run(f"document.querySelector('#service').value = {json.dumps(service)}")
    chromium.run(f"document.querySelector('#token').value = {json.dumps(token)}")
    chromium.run("document.querySelector('#enter button').click()")


ALERT = "document.querySelector('[role=alert]').textContent"
STATUS = "document.querySelector('[role=status]').textContent"
UNDO = "document.querySelector('#undo')"
# Replaces the responses to the next requests of a method: a function makes each response, and may
# send the request.
FAILING = """
window.real ??= window.fetch;
window.failing = [];
window.fetch = (url, options = {}) => {
  const index = failing.findIndex(([method]) => method === (options.method ?? "GET"));
  return index < 0 ? real(url, options) : failing.splice(index, 1)[0][1](() => real(url, options));
};
"""
LOST = "async (send) => { await send(); throw new TypeError('Failed to fetch'); }"


def fails(chromium, *responses):
    """Let the next requests fail, given as pairs of a method and a function in JavaScript."""
    chromium.run(FAILING)
    for method, response in responses:
        chromium.run(f"failing.push([{json.dumps(method)}, {response}])")


def row_button(name, title):
    return f"document.querySelector('[aria-label=\"{name}: {title}\"]')"


def members(client, task):
    """Return what a client can set of a task, as the service shows it."""
    names = {key(field) for field in settable(Task())}
    shown = client.get(f"/tasks/{task}").get_json()
    return {name: value for name, value in shown.items() if name in {*names, "dueDay"}}


def test_undo_restores_a_deleted_task_with_every_field_and_all_its_subtasks(
    service, chromium, entered, alice, cast, connection, insert_into, unlimited
):
    values = Values({**references(connection, cast, insert_into), "parentId": [None]})
    connection.execute("DELETE FROM tasks")
    schema = Task()
    every = {key(field): values.of(field, schema)[-1] for field in settable(schema)}
    # The page lists only open tasks of the caller.
    open_task = {"assigneeId": cast["alice"], "status": "in_progress"}
    first = alice.post("/tasks", {**every, **open_task}).get_json()
    below = [
        {"title": f"{n}", "parentId": first["id"], "metadata": {"n": f"{n}"}} for n in range(205)
    ]
    # These descriptions together are larger than the body of a request may be.
    for task in below[:40]:
        task["description"] = "x" * 60_000
    for start in range(0, len(below), 10):
        created = alice.post("/tasks/batch", {"create": below[start : start + 10]})
        assert created.status_code == 200
    ids = [str(row["id"]) for row in connection.execute("SELECT id FROM tasks")]
    before = {task: members(alice, task) for task in ids}
    entered()
    chromium.run(f"{row_button('Delete', first['title'])}.click()")
    chromium.until(f"!{UNDO}.hidden")
    assert count(connection, "tasks") == 0
    # The second batch fails, and the person tries again.
    fails(
        chromium,
        ("POST", "(send) => send()"),
        ("POST", "async () => new Response('{}', { status: 503 })"),
    )
    chromium.run(f"{UNDO}.click()")
    chromium.until(f"{ALERT} && !{UNDO}.hidden")
    assert 0 < count(connection, "tasks") < len(ids)
    chromium.run(f"{UNDO}.click()")
    chromium.until(f"{STATUS} === 'Undone.'")
    assert {task: members(alice, task) for task in ids} == before


def test_a_deletion_whose_response_is_lost_can_be_repeated_and_undone_with_its_subtasks(
    chromium, entered, cast, connection, insert_into
):
    first = insert_into("tasks", title="First", assignee_id=cast["alice"])
    insert_into("tasks", title="Below", parent_id=first)
    entered()
    fails(chromium, ("DELETE", LOST))
    chromium.run(f"{row_button('Delete', 'First')}.click()")
    chromium.until(ALERT)
    assert "cannot be reached" in chromium.run(ALERT)
    assert count(connection, "tasks") == 0
    chromium.run(f"{row_button('Delete', 'First')}.click()")
    chromium.until(f"!{UNDO}.hidden")
    assert chromium.run(ALERT) == ""
    chromium.run(f"{UNDO}.click()")
    chromium.until("document.querySelectorAll('li').length === 1")
    assert count(connection, "tasks") == 2


def test_a_deletion_can_be_undone_even_if_the_list_cannot_be_loaded_or_another_action_fails(
    chromium, entered, cast, connection, insert_into
):
    for title in ("First", "Second"):
        insert_into("tasks", title=title, assignee_id=cast["alice"])
    entered()
    failure = "async () => new Response('{}', { status: 503 })"
    # The first list has the subtasks.
    fails(chromium, ("GET", "(send) => send()"), ("GET", failure))
    chromium.run(f"{row_button('Delete', 'First')}.click()")
    chromium.until(f"{ALERT} && !{UNDO}.hidden")
    fails(chromium, ("PATCH", failure))
    chromium.run(f"{row_button('Done', 'Second')}.click()")
    chromium.until(f"{ALERT} && !{UNDO}.hidden")
    assert chromium.run(STATUS) == "Deleted: First"
    chromium.run(f"{UNDO}.click()")
    chromium.until(f"{STATUS} === 'Undone.'")
    assert count(connection, "tasks", "title = 'First'") == 1


@pytest.mark.parametrize("script", ["module", "none"])
def test_a_token_is_never_part_of_an_address_even_if_the_script_does_not_run(
    chromium, listed, script
):
    page = replaced(read("docs/examples/tasks.html"), ('type="module"', f'type="{script}"'))
    listed.behaves(answer(200, page.encode(), Content_Type="text/html; charset=utf-8"))
    chromium.open(f"{lan_origin(listed)}/")
    chromium.run("sessionStorage.clear()")
    requested(listed, "/")
    chromium.run("document.querySelector('#token').focus()")
    chromium.send("Input.insertText", text="tmw_api_secret")
    chromium.press("Enter")
    if script == "none":
        # Without its script, the form loads the page again.
        requested(listed, "/?")
    else:
        chromium.until(ALERT)
        assert "secret" not in chromium.run("location.href")


def test_the_page_of_tasks_keeps_the_typed_text_and_the_address_when_the_token_is_revoked(
    service, chromium, entered, listed, connection, cast
):
    entered()
    assert chromium.run("document.querySelector('#service').defaultValue") != service
    chromium.run("document.forms.create.title.value = 'Typed'")
    connection.execute("UPDATE tokens SET revoked_at = now() WHERE user_id = %s", (cast["alice"],))
    chromium.run("document.querySelector('#create button').click()")
    chromium.until("!document.querySelector('#enter').hidden")
    shown = "document.querySelector('#service').value"
    assert chromium.run(shown) == service
    assert "revoked" in chromium.run(ALERT)
    connection.execute("UPDATE tokens SET revoked_at = NULL")
    give(chromium, service, TOKENS["alice"])
    chromium.until("!document.querySelector('#tasks').hidden")
    assert chromium.run("document.forms.create.title.value") == "Typed"
    chromium.run("document.querySelector('#create button').click()")
    chromium.until("document.querySelector('li')?.textContent.startsWith('Typed')")
    while not listed.received.empty():
        listed.received.get()
    chromium.run("document.querySelector('#leave').click()")
    requested(listed, "/")
    chromium.open(f"{lan_origin(listed)}/")
    assert chromium.run(shown) == service
    assert TOKENS["alice"] not in chromium.run("JSON.stringify(sessionStorage)")


def test_a_deletion_is_not_undone_in_another_workspace(
    service, chromium, entered, connection, cast, insert_into
):
    insert_into("tasks", title="Alice's", assignee_id=cast["alice"])
    entered()
    chromium.run(f"{row_button('Delete', chr(65) + 'lice' + chr(92) + chr(39) + 's')}.click()")
    chromium.until(f"!{UNDO}.hidden")
    connection.execute("UPDATE tokens SET revoked_at = now() WHERE user_id = %s", (cast["alice"],))
    chromium.run("document.forms.create.title.value = 'Typed'")
    chromium.run("document.querySelector('#create button').click()")
    chromium.until("!document.querySelector('#enter').hidden")
    give(chromium, service, TOKENS["charlie"])
    chromium.until("!document.querySelector('#tasks').hidden")
    assert chromium.run(f"{UNDO}.hidden")


def test_a_double_click_finishes_one_task_and_adds_one_task(
    chromium, entered, cast, connection, insert_into
):
    for title in ("First", "Second"):
        insert_into("tasks", title=title, assignee_id=cast["alice"])
    entered()

    def press(selector, number):
        place = chromium.run(
            f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": number}
        for kind in ("mousePressed", "mouseReleased"):
            chromium.send("Input.dispatchMouseEvent", type=kind, **mouse)

    # Other clicks come while the first request runs, the second one on Delete.
    held = "async (send) => { await new Promise((go) => { window.go = go; }); return send(); }"
    fails(chromium, ("PATCH", held))
    press("[data-name=Done]", 1)
    chromium.until("window.go")
    press("[data-name=Done]", 2)
    press("[data-name=Delete]", 1)
    chromium.run("go()")
    chromium.until(f"!{UNDO}.hidden")
    assert chromium.run(ALERT) == ""
    assert count(connection, "tasks") == 2
    # The second click comes when the next row has taken the place.
    chromium.run(f"{UNDO}.click()")
    chromium.until(f"{STATUS} === 'Undone.' && document.querySelectorAll('li').length === 2")
    chromium.until("document.activeElement === document.forms.create.title")
    press("[data-name=Done]", 1)
    chromium.until(f"!{UNDO}.hidden")
    press("[data-name=Done]", 2)
    chromium.run("document.forms.create.title.value = 'Once'; window.go = null")
    fails(chromium, ("POST", held))
    press("#create button", 1)
    press("#create button", 2)
    chromium.until("window.go")
    chromium.run("go()")
    chromium.until("document.querySelectorAll('li').length === 2")
    assert count(connection, "tasks", "status = 'done'") == 1
    assert count(connection, "tasks", "title = 'Once'") == 1


def test_the_page_of_tasks_keeps_the_pages_that_it_shows(
    chromium, entered, cast, insert_into, unlimited
):
    for number in range(80):
        insert_into("tasks", title=f"Task {number}", assignee_id=cast["alice"])
    entered()
    rows = "document.querySelectorAll('li').length"
    assert chromium.run(rows) == 50
    chromium.run("document.querySelector('#more').click()")
    chromium.until(f"{rows} === 80")
    chromium.run("document.querySelectorAll('[data-name=Done]')[70].click()")
    chromium.until(f"!{UNDO}.hidden")
    assert chromium.run(rows) == 79


# What a request meets, as a function in JavaScript, and what a person then reads.
AGAIN = "Try again in a moment; nothing is done twice."
HTML = "new Response('<html>', { status: STATUS, headers: { 'Content-Type': 'text/html' } })"
CUT = "new Response(new ReadableStream({ start: (body) => body.error() }), { status: 200 })"
FAILED = """new Response('{"message": "Internal error", "status": 500, "requestId": "r-1"}',
  { status: 500 })"""
LATER = "new Response('', { status: 503, headers: { 'Retry-After': '7' } })"
DATE = (
    "new Response('', { status: 429, headers: { 'Retry-After': 'Mon, 30 Nov 2026 00:00:00 GMT' } })"
)
TROUBLE = {
    HTML.replace("STATUS", "200"): f"The response (200) was cut short, or did not come from the"
    f" service. {AGAIN}",
    CUT: f"The response (200) was cut short, or did not come from the service. {AGAIN}",
    HTML.replace("STATUS", "403"): f"The response (403) was cut short, or did not come from the"
    f" service. {AGAIN}",
    HTML.replace("STATUS", "502"): f"The service is not available at the moment. {AGAIN}",
    LATER: "The service is not available at the moment. Try again in 7 seconds; nothing is done"
    " twice.",
    DATE: f"Too many requests. {AGAIN}",
    FAILED: f"The service has failed. {AGAIN} If it fails again, report the number r-1.",
    "Promise.reject(new TypeError())": f"The service cannot be reached. {AGAIN}",
}
# The front end of the page about signing in, which finds the service at its own origin. Here the
# service is at another one.
ELSEWHERE = """<!doctype html><script>
const { fetch: native } = window;
window.ended = sessionStorage.ended;
window.fetch = (path, { headers, ...options }) => {
  const Authorization = "Bearer TOKEN";
  delete sessionStorage.ended;
  if (ended) return Promise.resolve(new Response("", { status: 401 }));
  return native("SERVICE" + path, { ...options, headers: { ...headers, Authorization } });
};
</script>"""


@pytest.fixture
def signed_in(service, lan, chromium):
    def open_page(token=TOKENS["alice"]):
        before = ELSEWHERE.replace("SERVICE", service).replace("TOKEN", token)
        lan("sign-in.html", before=before)
        chromium.until("document.querySelector('ul').ariaBusy === 'false'")

    chromium.run("sessionStorage.clear()")
    return open_page


@pytest.mark.parametrize("page", ["tasks.html", "sign-in.html"])
def test_both_pages_say_what_went_wrong_in_the_words_of_a_person(
    chromium, entered, signed_in, connection, page
):
    entered() if page == "tasks.html" else signed_in()
    form = "[...document.forms].at(-1)"
    chromium.run(f"{form}.title.value = 'Typed'")
    seen = {}

    def meet(response):
        fails(chromium, ("POST", f"() => {response}"))
        chromium.run(f"{form}.querySelector('button').click()")
        chromium.until(f"{ALERT} && {STATUS} === ''")
        return chromium.run(ALERT)

    for response in TROUBLE:
        seen[response] = meet(response)
    assert seen == TROUBLE
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    chromium.send("Network.enable")
    chromium.send("Network.emulateNetworkConditions", **offline)
    assert "You are offline." in meet("Promise.reject(new TypeError())")
    chromium.send("Network.emulateNetworkConditions", **{**offline, "offline": False})
    # The same key went with each of the requests, and the text is still there.
    assert chromium.run(f"{form}.title.value") == "Typed"
    fails(chromium, ("POST", LOST))
    for _ in range(2):
        chromium.run(f"{form}.querySelector('button').click()")
        chromium.until(f"{STATUS} === ''")
    assert chromium.run(f"{form}.title.value") == ""
    assert count(connection, "tasks") == 1


@pytest.mark.nodatabase
def test_both_pages_have_the_same_words():
    function = re.compile(r"(?ms)^function words\(.*?^}$")
    tasks, sign_in = (
        function.search(read(f"docs/examples/{name}.html"))[0] for name in ("tasks", "sign-in")
    )
    assert tasks == sign_in


def test_the_front_end_reaches_every_task_and_keeps_the_pages_that_it_shows(
    chromium, signed_in, insert_into, unlimited
):
    for number in range(120):
        insert_into("tasks", title=f"Task {number}")
    signed_in()
    rows = "document.querySelectorAll('li').length"
    more = "document.querySelector('#more')"
    assert chromium.run(rows) == 50
    for shown in (100, 120):
        chromium.run(f"{more}.click()")
        chromium.until(f"{rows} === {shown}")
    assert chromium.run(f"{more}.hidden")
    chromium.run("document.forms[0].title.value = 'New'")
    chromium.run("document.forms[0].querySelector('button').click()")
    chromium.until(f"{rows} === 121")


def test_the_front_end_keeps_what_was_typed_when_the_session_ends_but_not_for_somebody_else(
    chromium, listed, signed_in, connection
):
    title = "document.forms[0].title.value"

    def type_and_lose_the_session():
        chromium.run("document.forms[0].title.focus()")
        chromium.send("Input.insertText", text="Typed")
        chromium.run("sessionStorage.ended = window.ended = 1")
        chromium.run("document.forms[0].querySelector('button').click()")
        # Instead of the login page, the page itself opens; it gets a 401 once, then a session.
        requested(listed, "/login?next=%2F")

    signed_in()
    type_and_lose_the_session()
    signed_in()
    assert chromium.run(title) == "Typed"
    chromium.run("document.forms[0].querySelector('button').click()")
    chromium.until("document.querySelector('li')?.textContent === 'Typed'")
    assert chromium.run(title) == ""
    type_and_lose_the_session()
    signed_in(TOKENS["charlie"])
    assert chromium.run(title) == ""
    assert count(connection, "tasks") == 1


def test_a_double_click_adds_one_task_in_the_front_end(chromium, signed_in, connection):
    signed_in()
    chromium.run("document.forms[0].title.value = 'Once'")
    button = "document.forms[0].querySelector('button')"
    chromium.run(f"{button}.click(); {button}.click()")
    chromium.until("document.querySelector('li') && document.forms[0].title.value === ''")
    chromium.until(f"{STATUS} === ''")
    assert chromium.run(ALERT) == ""
    assert count(connection, "tasks") == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_neither_a_message_nor_a_date_moves_the_buttons_of_the_list(
    chromium, entered, cast, insert_into, listed, width
):
    insert_into("tasks", title="Dated", due_date="2036-01-01", assignee_id=cast["alice"])
    insert_into("tasks", title="Undated", assignee_id=cast["alice"])
    entered()
    chromium.open(f"{lan_origin(listed)}/", width, 900)
    chromium.until("document.querySelectorAll('li').length === 2")
    places = (
        "[...document.querySelectorAll('[data-name=Done]')].map((button) =>"
        " [button.getBoundingClientRect().left, button.getBoundingClientRect().top])"
    )
    before = chromium.run(places)
    assert before[0][0] == before[1][0]
    row = "document.querySelectorAll('li')[{}].getBoundingClientRect()"
    for index in range(2):
        middle = chromium.run(f"({row.format(index)}.top + {row.format(index)}.bottom) / 2")
        assert abs(middle - before[index][1]) < 30
    fails(chromium, ("PATCH", "() => Promise.reject(new TypeError())"))
    chromium.run("document.querySelector('[data-name=Done]').click()")
    chromium.until(ALERT)
    assert chromium.run(places) == before
    assert chromium.run(WIDTH) == width
