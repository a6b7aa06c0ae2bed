"""A real browser: what pages of a listed and of an unlisted origin get from fetch()."""

import html
import json
import re
import subprocess
from contextlib import closing

import pytest
from support.chromium import Chromium
from support.openapi_check import LOGIN_KEY, document
from support.processes import serving
from support.project import PROJECT
from support.receivers import Receiver, answer
from support.rows import TOKENS, count

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


@pytest.fixture(scope="module")
def service(database_url, listed):
    """Yield the base URL of a service that lists the origin of the receiver ``listed``."""
    with serving(
        database_url, CORS_ORIGINS=f"https://app.example.com, http://127.0.0.1:{listed.port}"
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
  Object.assign(find("[name=service]"), {value: service});
  Object.assign(find("[name=token]"), {value: token});
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
        "Too many requests. Try again in 7 seconds.",
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
