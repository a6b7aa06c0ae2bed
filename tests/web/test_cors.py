"""CORS: pages of the origins in CORS_ORIGINS can call the service, with a token only."""

import re
from dataclasses import replace
from itertools import product

import pytest
from support.http import Client, error_message
from support.openapi_check import DOCUMENTED, document
from support.rows import TOKENS, count, insert_token

from service.app import create_app
from service.settings import Settings

APP, OTHER = "https://app.example.com", "http://127.0.0.1:3000"
FOREIGN = [
    "https://evil.example", "null", "", "*", "https://app.example.com.evil.example",
    "https://app.example.com:8443", "http://app.example.com", "https://APP.example.com",
    "https://app.example.com/", f"{APP},{OTHER}", f"{APP} {OTHER}", f"{APP}, {APP}",
]  # fmt: skip
PREFLIGHT = {"Access-Control-Request-Method": "PATCH"}
CORS_HEADER = re.compile("access-control-", re.IGNORECASE)
RULES = sorted({rule.rule for rule in create_app(Settings.read({})).url_map.iter_rules()})
TASK = {"title": "Write the report"}
ALLOWED = {
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Workspace-Id",
    "X-Request-Id", "traceparent", "tracestate", "baggage",
}  # fmt: skip


@pytest.fixture(scope="module")
def app_of_pages(settings, start_shared):
    return start_shared(replace(settings, cors_origins=(APP, OTHER)))


@pytest.fixture
def ada(app_of_pages):
    return in_page(app_of_pages)


def in_page(app):
    page = Client(app, TOKENS["alice"])
    page.headers["Origin"] = APP
    return page


def ask(app, path, origin=APP, **headers):
    """Return the response to a preflight request, which browsers send without a credential."""
    return app.test_client().options(path, headers={"Origin": origin, **PREFLIGHT, **headers})


def cors_headers(response):
    return {name: value for name, value in response.headers if CORS_HEADER.match(name)}


def is_readable(response, origin=APP):
    assert response.headers["Access-Control-Allow-Origin"] == origin
    assert "Access-Control-Allow-Credentials" not in response.headers
    assert "Origin" in response.headers["Vary"].split(", ")
    assert len(response.headers.getlist("Vary")) == 1
    exposed = set(response.headers["Access-Control-Expose-Headers"].split(", "))
    assert (DOCUMENTED | {"X-Request-Id"}) == exposed
    return True


def test_a_preflight_request_is_204_without_a_credential_and_is_not_counted(
    app_of_pages, connection
):
    bob = {"Authorization": f"Bearer {TOKENS['bob']}"}
    wanted = {"Access-Control-Request-Headers": "authorization,content-type"}
    for number, (rule, origin) in enumerate(product(RULES, (APP, OTHER)), 1):
        path = re.sub("<.*?>", "x", rule)
        response = ask(app_of_pages, path, origin, **wanted)
        headers = response.headers
        assert (response.status_code, response.data) == (204, b""), path
        assert headers["Access-Control-Allow-Origin"] == origin
        rejected = app_of_pages.test_client().put(path, headers=bob)
        allowed = {*headers["Access-Control-Allow-Methods"].split(", ")}
        assert allowed == {*rejected.headers["Allow"].split(", ")}, path
        assert {*headers["Access-Control-Allow-Headers"].split(", ")} == ALLOWED
        assert headers["Access-Control-Max-Age"] == "7200"
        assert "Access-Control-Allow-Credentials" not in headers
        assert "Origin" in headers["Vary"]
        assert headers["X-Request-Id"]
        # The service has counted only the rejected requests.
        counted = [row["minute_count"] for row in connection.execute("SELECT * FROM usage")]
        assert counted == [number], path


@pytest.mark.nodatabase
def test_the_document_lists_the_headers_that_a_page_may_send_and_read():
    (listed,) = (
        line
        for line in document()["info"]["description"].replace("\n  ", " ").splitlines()
        if line.startswith("- **Web pages of other origins**")
    )
    allowed, _, readable = listed.partition("can read")
    assert set(re.findall("`([^`]+)`", allowed)) == ALLOWED
    assert set(re.findall("`([^`]+)`", readable)) == DOCUMENTED | {"X-Request-Id"}


@pytest.mark.nodatabase
def test_a_preflight_request_needs_no_database(start):
    app = start(Settings.read({"DATABASE_URL": "host=127.0.0.1 port=1", "CORS_ORIGINS": APP}))
    response = ask(app, "/api/tasks")
    assert response.status_code == 204
    for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"):
        assert int(response.headers[name]) >= 60


def test_a_preflight_request_from_an_unlisted_origin_is_204_allows_nothing_and_is_not_counted(
    app, app_of_pages, connection
):
    paths = "/api/tasks", "/api/nothing", "/healthz"
    for service, path, origin in product((app, app_of_pages), paths, FOREIGN):
        response = ask(service, path, origin)
        assert (response.status_code, response.data) == (204, b""), (path, origin)
        assert cors_headers(response) == {}, (path, origin)
    assert count(connection, "usage") == 0


def test_a_preflight_request_for_an_unknown_path_succeeds_so_that_a_page_can_read_the_404(
    app_of_pages, connection
):
    response = ask(app_of_pages, "/api/nothing")
    assert response.status_code == 204
    assert response.headers["Access-Control-Allow-Methods"] == "DELETE, GET, PATCH, POST"
    assert count(connection, "usage") == 0


def test_an_options_request_that_is_not_a_preflight_request_goes_through_the_gate(
    app_of_pages, ada, stranger
):
    # Without Access-Control-Request-Method, an OPTIONS request is not a preflight request.
    rejected = ada.send("OPTIONS", "/tasks")
    assert error_message(rejected, 405)
    assert is_readable(rejected)
    asked = stranger.client.options("/api/tasks", headers=PREFLIGHT)
    assert error_message(asked, 401)


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/tasks", {}, 200), ("HEAD", "/tasks", {}, 200),
        ("POST", "/tasks", {"json": TASK}, 201), ("DELETE", "/tasks/{task}", {}, 204),
        ("GET", "/tasks/{task}", {"headers": {"If-None-Match": '"1"'}}, 304),
        ("POST", "/tasks", {"json": {}}, 400),
        ("GET", "/tasks", {"headers": {"Authorization": "Bearer x"}}, 401),
        ("GET", "/tasks/unknown", {}, 404), ("GET", "/nothing", {}, 404),
        ("PUT", "/tasks", {}, 405),
        ("DELETE", "/tasks/{task}", {"headers": {"If-Match": '"9"'}}, 412),
        ("POST", "/tasks", {"data": b" " * 2**21}, 413),
        ("POST", "/tasks", {"data": b"x", "content_type": "text/plain"}, 415),
    ],
)  # fmt: skip
def test_a_page_of_a_listed_origin_can_read_every_response(ada, method, path, options, status):
    created = ada.post("/tasks", TASK)
    assert is_readable(created)
    response = ada.send(method, path.format(task=created.get_json()["id"]), **options)
    assert response.status_code == status
    assert is_readable(response)


def test_a_page_of_a_listed_origin_can_read_a_500(build):
    app = build(cors_origins=(APP,))
    app.add_url_rule("/api/bug", view_func=lambda: 1 / 0)
    response = in_page(app).get("/bug")
    assert error_message(response, 500)
    assert is_readable(response)


@pytest.mark.nodatabase
def test_a_page_of_a_listed_origin_can_read_a_503_without_a_database(start):
    variables = {"DATABASE_URL": "host=127.0.0.1 port=1", "POOL_TIMEOUT": "0.2"}
    app = start(Settings.read({**variables, "CORS_ORIGINS": OTHER}))
    for path in ("/api/tasks", "/healthz"):
        response = app.test_client().get(path, headers={"Origin": OTHER})
        assert error_message(response, 503)
        assert is_readable(response, OTHER)


def test_a_page_of_a_listed_origin_can_read_the_public_documents(app_of_pages):
    for path in ("/", "/healthz", "/openapi.json"):
        response = app_of_pages.test_client().get(path, headers={"Origin": APP})
        assert response.status_code == 200, path
        assert is_readable(response)


def test_a_page_of_an_unlisted_origin_can_read_nothing(app_of_pages):
    alice = Client(app_of_pages, TOKENS["alice"])
    origins = {}, *({"Origin": origin} for origin in FOREIGN)
    for path, headers in product(("/tasks", "/nothing", "/tasks?limit=0"), origins):
        response = alice.get(path, headers=headers)
        assert cors_headers(response) == {}, (path, headers)
        # Without Vary, a cache could give this response to a page of a listed origin.
        assert response.headers["Vary"] == "Authorization, Cookie, Workspace-Id, Origin"


def test_without_cors_origins_no_page_of_another_origin_can_read_anything(app, alice):
    assert alice.get("/tasks").headers["Vary"] == "Authorization, Cookie, Workspace-Id"
    for origin in (APP, *FOREIGN):
        response = alice.get("/tasks", headers={"Origin": origin})
        assert cors_headers(response) == {}
        assert response.headers["Vary"] == "Authorization, Cookie, Workspace-Id"
        public = app.test_client().get("/openapi.json", headers={"Origin": origin})
        assert not {"Vary", *cors_headers(public)} & set(public.headers.keys())


def test_a_page_of_a_listed_origin_can_neither_write_nor_read_with_the_cookie(
    app_of_pages, cast, connection
):
    insert_token(connection, cast["alice"], "cookie", kind="session")
    browser = Client(app_of_pages, cookie="cookie")
    for site in ("cross-site", "same-site"):
        sent = {"Origin": APP, "Sec-Fetch-Site": site}
        assert "another origin" in error_message(browser.post("/tasks", TASK, headers=sent), 403)
        read = browser.get("/tasks", headers=sent)
        assert read.status_code == 200
        # Without this header, a browser that sent a cookie does not let the page read the response.
        assert "Access-Control-Allow-Credentials" not in read.headers
    # Browsers that send no Sec-Fetch-Site send Origin.
    assert error_message(browser.post("/tasks", TASK, headers={"Origin": APP}), 403)
    assert count(connection, "tasks") == 0
