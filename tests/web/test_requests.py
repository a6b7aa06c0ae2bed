"""Bodies, queries and ids that no view should ever see."""

import gzip
import json
from io import BytesIO
from itertools import product
from urllib.parse import quote, urljoin

import pytest
from support.derived import Values, body_of, by_name, views
from support.http import Client, error_message, invalid_field, location, next_page
from support.openapi_check import LOGIN_KEY, check_against_document, document
from support.resources import LISTS
from support.rows import TOKENS, UNKNOWN, count

from service.values.strict_json import MESSAGES

TASK = {"title": "Write the report"}
PATHS = sorted({paged.path for paged in LISTS.values()})


# tests/values/test_strict_json.py tries more bodies.
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be a JSON object: "), (b'{"title": "\xff"}', MESSAGES["encoding"]),
        (b'{"title": "x", "title": "y"}', 'must not repeat the name "title"'),
    ],
)  # fmt: skip
def test_a_body_that_is_not_a_json_object_gets_400_and_changes_nothing(
    alice, connection, content, reason
):
    task = alice.post("/tasks", TASK).get_json()
    path = f"/tasks/{task['id']}"
    for response in (
        alice.post("/tasks", data=content, content_type="application/json"),
        alice.post("/tasks", data=content),
        alice.patch(path, data=content, content_type="application/json"),
    ):
        message = error_message(response, 400)
        assert message.startswith(f"The body {reason}")
        assert len(message) < 300
    assert alice.get(path).get_json() == task
    assert count(connection, "tasks") == 1


NO_TITLES = (
    rb'"a\u0000b"', rb'"\ud800"', rb'"\udc00\ud800"', b"null", b"1", b"1.5e3", b"true", b"[]",
    b'["x"]', b"{}", b'""',
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        *[(b'{"title": %b}' % value, ["title"]) for value in NO_TITLES],
        (rb'{"title": "x", "projectId": "\u0000"}', ["projectId"]),
        (rb'{"title": "x", "assigneeId": "\ud800"}', ["assigneeId"]),
        (rb'{"title": "x", "status": "\ud800"}', ["status"]),
        (rb'{"title": "x", "priority": "\u0000"}', ["priority"]),
        (rb'{"title": "x", "dueDate": "2026-01-01T00:00:00Z\u0000"}', ["dueDate"]),
        (rb'{"title": "x", "parentId": "\u0000"}', ["parentId"]),
        (rb'{"title": "x", "\u0000": 1}', ["\0"]),
        (rb'{"title": "x", "\ud800": 1}', ["?"]),
        (b'{"title": "x", "": 1}', [""]),
        (b'{"title": "x", "__proto__": 1, "id": 2}', ["__proto__", "id"]),
        (b"{}", ["title"]),
        (b'{"title": "x", "description": 1, "status": [], "priority": {}}',
         ["description", "status", "priority"]),
    ],
)  # fmt: skip
def test_an_invalid_value_gets_400_and_the_message_names_its_field(
    alice, connection, content, fields
):
    response = alice.post("/tasks", data=content, content_type="application/json")
    message = error_message(response, 400)
    errors = response.get_json()["errors"]
    assert sorted(error["field"] for error in errors) == sorted(fields)
    for error in errors:
        assert " ".join(error["field"].split()) in message
    assert count(connection, "tasks") == 0


def test_a_body_with_a_json_media_type_or_none_is_accepted_and_any_other_type_gets_415(
    alice, connection
):
    for type in (
        "text/plain", "text/json", "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x", "application/xml", "application/jsonp",
        "application/json-seq", "application/+json", "json", "é", "*/*",
    ):  # fmt: skip
        header = {"Content-Type": type.encode().decode("latin-1")}
        response = alice.post("/tasks", data=json.dumps(TASK), headers=header)
        assert "must be application/json" in error_message(response, 415), type
    assert count(connection, "tasks") == 0
    for type in (
        None, "", "; charset=utf-8", "application/json", "APPLICATION/JSON",
        "application/json; charset=utf-8", 'application/json;charset="UTF-8"',
        "application/merge-patch+json", "application/vnd.api+json",
    ):  # fmt: skip
        response = alice.post("/tasks", data=json.dumps(TASK), content_type=type)
        assert response.status_code == 201, type


def padded(size):
    content = json.dumps(TASK).encode()
    return content + b" " * (size - len(content))


MAX = 1_048_576


def chunked(content):
    """Return options for a body without Content-Length, as gunicorn passes a chunked body."""
    return {
        "input_stream": BytesIO(content),
        "environ_overrides": {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
    }


def test_a_body_over_the_limit_gets_413_by_its_content_length(alice, connection):
    assert alice.post("/tasks", data=padded(MAX)).status_code == 201
    message = error_message(alice.post("/tasks", data=padded(MAX + 1)), 413)
    assert message == f"The body is too large; it may have at most {MAX} bytes"
    assert count(connection, "tasks") == 1


def test_a_chunked_body_over_the_limit_gets_413(alice, connection):
    for size in (MAX + 1, 5 * MAX):
        message = error_message(alice.post("/tasks", **chunked(padded(size))), 413)
        assert f"at most {MAX} bytes" in message
    assert count(connection, "tasks") == 0
    for size in (MAX - 1, MAX):
        assert alice.post("/tasks", **chunked(padded(size))).status_code == 201


@pytest.mark.parametrize("declared", ["-1", "x", "1e3", "1_0", "", "9" * 30])
def test_an_invalid_content_length_gets_400_or_413(alice, declared):
    response = alice.post("/tasks", data=b"{}", environ_overrides={"CONTENT_LENGTH": declared})
    error_message(response, 413 if declared == "9" * 30 else 400)


def test_a_body_ends_at_its_content_length(alice):
    body = json.dumps(TASK).encode()
    length = {"CONTENT_LENGTH": str(len(body))}
    assert alice.post("/tasks", data=body + b"GET /", environ_overrides=length).status_code == 201


def anywhere(view):
    """The path of a view, with ids that no row has."""
    return view.path(*[UNKNOWN] * len(view.variables))


@by_name(views())
def test_an_unknown_query_parameter_gets_400_for_every_view(browser, connection, view):
    for query in (
        *("zzz=1", "zzz", "=1", "zzz=1&yyy=2", "zzz=%00", "%00=1", "zzz=%ff", "%ff", "zzz=a&zzz=b"),
        "title=x",
    ):
        response = browser.send(view.method, f"{anywhere(view)}?{query}", json=TASK)
        message = error_message(response, 400)
        if view.operation.query is None and view.method != "GET":
            assert message.endswith("unknown query parameter; this operation takes none")
    assert count(connection, "tasks") == 0


@pytest.mark.parametrize("query", ["", "&", "&&"])
def test_a_query_of_ampersands_only_counts_as_empty(alice, query):
    for path in ("/tasks", "/workspaces"):
        assert alice.get(f"{path}?{query}").status_code == 200


@pytest.mark.parametrize(
    "query", [b"q=caf\xc3\xa9", b"q=caf\xe9", b"\xff=1", b"zzz=\xc3\xa4", b"status=todo&q=\xf0"]
)
def test_a_query_that_is_not_percent_encoded_gets_400_that_says_so(app, query):
    for path, told in ("/api/tasks", "percent-encoded"), ("/api/workspaces", "unknown query"):
        response = app.test_client().get(
            path,
            environ_overrides={"QUERY_STRING": query.decode("latin-1")},
            headers={"Authorization": f"Bearer {TOKENS['alice']}"},
        )
        check_against_document(response)
        assert told in error_message(response, 400)


def test_references_lead_below_the_prefix_of_the_path_that_a_proxy_takes_away(app, alice):
    for slash in ("", "/"):
        created = alice.post(f"/tasks{slash}", TASK)
        assert location(created) == f"/tasks/{created.get_json()['id']}"
        alice.post("/tasks", TASK)
        page = alice.get(f"/tasks{slash}?q=the&limit=1")
        assert next_page(page).startswith(f"/tasks{slash}?q=the&limit=1&cursor=")
        session = Client(app, LOGIN_KEY).post(f"/session{slash}", {"email": "alice@example.com"})
        assert location(session) == f"/session{slash}"
    (server,) = document()["servers"]
    assert urljoin("https://proxy.example/team/openapi.json", server["url"]) == (
        "https://proxy.example/team/"
    )


BROKEN = "caf%E9", "%C3", "%ED%A0%80", "%ff", "a%80b", "%F4%90%80%80", "%C0%AF"


@pytest.mark.parametrize("text", BROKEN)
def test_a_query_parameter_in_broken_utf_8_gets_400_that_names_it(alice, text):
    for path, name in (
        *((f"/tasks?{name}={text}", name) for name in ("q", "projectId", "status", "limit")),
        (f"/tasks?status=todo&status={text}", "status"),
        *((f"{path.removeprefix('/api')}?cursor={text}", "cursor") for path in PATHS),
        (f"/dashboard/stats?workspaceId={text}", "workspaceId"),
        (f"/tasks?x{text}=1", None),
    ):
        response = alice.get(path)
        if name is None:
            (fault,) = response.get_json()["errors"]
            name = fault["field"]
            assert name.startswith("x")
        assert invalid_field(response, name) == "must be UTF-8, percent-encoded"
    assert alice.get("/tasks?q=caf%C3%A9%EF%BF%BD").status_code == 200
    # Only a query has parameters to name.
    error_message(alice.get(f"/tasks/{text}"), 404)


@pytest.mark.parametrize("path", ["/", "/healthz", "/openapi.json", "/docs/"])
def test_the_public_paths_ignore_queries(build, path):
    client = build(docs=True).test_client()
    plain = client.get(path)
    for query in ("probe=1", "probe", "a=1&a=2", "%ff", "_=1700000000"):
        response = client.get(f"{path}?{query}")
        assert (response.status_code, response.data) == (plain.status_code, plain.data)


CODINGS = "gzip", "deflate", "br", "zstd", "GZIP", "x", "identity, gzip", "gzip, gzip", "*", "é"


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_with_a_content_coding_gets_415_that_says_which_codings_are_accepted(
    alice, connection, coding
):
    task = alice.post("/tasks", TASK).get_json()
    header = {"Content-Encoding": coding.encode().decode("latin-1")}
    for body in (json.dumps(TASK).encode(), gzip.compress(json.dumps(TASK).encode()), b""):
        for response in (
            alice.post("/tasks", data=body, content_type="application/json", headers=header),
            alice.patch(f"/tasks/{task['id']}", data=body, headers=header),
        ):
            assert "sent without compression" in error_message(response, 415)
            assert response.headers["Accept-Encoding"] == "identity"
    assert count(connection, "tasks") == 1
    # The service reads no body here.
    assert alice.get("/tasks", headers=header).status_code == 200


def test_a_body_without_a_content_coding_is_accepted_however_the_header_says_so(alice):
    for coding in ("identity", "Identity", "identity, identity", "", ","):
        response = alice.post("/tasks", TASK, headers={"Content-Encoding": coding})
        assert response.status_code == 201
    response = alice.post("/tasks", data="x", content_type="text/plain")
    assert "Accept-Encoding" not in response.headers


@pytest.mark.parametrize("declared", [
    "application/json, application/json", "application/json,application/json",
    "application/json; charset=utf-8, application/json; charset=utf-8", "text/plain, text/html",
])  # fmt: skip
def test_several_media_types_get_400_that_names_content_type(alice, declared):
    response = alice.post("/tasks", data=json.dumps(TASK), headers={"Content-Type": declared})
    invalid_field(response, "Content-Type")
    quoted = 'application/json; profile="a, b"'
    response = alice.post("/tasks", data=json.dumps(TASK), headers={"Content-Type": quoted})
    assert response.status_code == 201


@pytest.mark.parametrize(
    ("path", "name", "reason"),
    [
        ("/tasks?Status=todo", "Status", "unknown query parameter; did you mean status?"),
        ("/mail?sort=receivedAt", "sort", "unknown query parameter; allowed: limit, cursor"),
        ("/tasks?asignee=x", "asignee", "unknown query parameter; did you mean assignee?"),
        ("/workspaces?limit=1", "limit", "unknown query parameter; this operation takes none"),
        ("/tasks?limit=1&limit=1", "limit", "must not be repeated"),
        ("/tasks?sort=dueDate&limit=1&sort=dueDate", "sort", "must not be repeated"),
        ("/meetings?upcoming=true&upcoming=true", "upcoming", "must not be repeated"),
        ("/knowledge?q=a&q=b", "q", "must not be repeated"),
        ("/mail?cursor=&cursor=", "cursor", "must not be repeated"),
        ("/dashboard/stats?workspaceId=a&workspaceId=b", "workspaceId", "must not be repeated"),
    ],
)
def test_the_message_names_the_unknown_or_repeated_query_parameter(alice, path, name, reason):
    assert invalid_field(alice.get(path), name) == reason


# Every parameter of a query that takes an id.
ID_FILTERS = [
    (path.removeprefix("/api"), parameter["name"])
    for path, item in document()["paths"].items()
    for parameter in item.get("get", {}).get("parameters", ())
    if parameter.get("in") == "query"
    and (parameter["schema"].get("format") == "uuid" or "[0-9A-Fa-f]{8}" in str(parameter))
]


@pytest.mark.parametrize(("path", "name"), ID_FILTERS)
def test_a_malformed_id_in_a_query_gets_400_and_an_unknown_id_matches_nothing(alice, path, name):
    alice.post("/tasks", {"title": "Write the report"})
    for malformed in ("null", "true", "nonsense", "", "Me", UNKNOWN[1:], UNKNOWN + "0"):
        assert invalid_field(alice.get(f"{path}?{name}={malformed}"), name).startswith(
            "must be an id, "
        )
    response = alice.get(f"{path}?{name}={UNKNOWN}")
    assert response.status_code == 404 or response.get_json()["data"] == []


def test_a_query_parameter_outside_its_choices_or_its_length_gets_400(alice):
    for path, name, values in (
        ("/tasks", "status", ["", "todo,"]),
        ("/tasks", "priority", ["HIGH"]),
        ("/tasks", "projectId", ["", "x" * 129, "a\0b"]),
        ("/meetings", "upcoming", ["True", "1", ""]),
        ("/knowledge", "q", ["x" * 501, "a\0b"]),
    ):
        for value in values:
            assert invalid_field(alice.get(path, query_string={name: value}), name), value


INVALID_LIMITS = (
    "", "0", "000", "007", "-1", "%2B1", "1.0", "1e2", "1_0", "\uff10", "\uff15", "\u0663", " 5",
    "5 ", "5%0A", "x", "%00", "0x1",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_limit_must_be_a_plain_integer_and_is_lowered_to_the_maximum(alice, path):
    for value in INVALID_LIMITS:
        response = alice.get(path, query_string=f"limit={quote(value, safe='%')}")
        assert invalid_field(response, "limit").startswith("must be an integer from 1 to ")
    for value in ("1", "201", "9" * 18, "9" * 400):
        assert alice.get(f"{path}?limit={value}").status_code == 200


ZEROS = "0" * 32
INVALID_CURSORS = (
    "", "x", "%25%25%25", "====", "é", "%00", "0", "0.", f".{ZEROS}", "0" * 31, "0" * 33,
    f"-{ZEROS}", f"1.2.{ZEROS}", f"{'9' * 40}.{ZEROS}", f"1.{'G' * 32}", f"{ZEROS}%0A",
    f"1.5.{ZEROS}", f"\u0663.{ZEROS}", "null", "00000000-0000-0000-0000-000000000000", "A" * 32,
    f"1.{'A' * 32}", f"1,{ZEROS}", f"%2B1.{ZEROS}", f"{'9' * 16}.{ZEROS}",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_malformed_cursor_gets_400(alice, path):
    for value in INVALID_CURSORS:
        response = alice.get(f"{path}?cursor={quote(value, safe='%')}")
        assert invalid_field(response, "cursor").startswith("must be the nextCursor")


def test_a_cursor_with_an_extreme_key_gets_200_or_400(alice):
    paths = "/meetings?", "/meetings?upcoming=true&", "/mail?", "/knowledge?q=a&"
    keys = "-" + "9" * 15, "9" * 15, "0", "-0", "000"
    for path, key, id in product(paths, keys, (ZEROS, "f" * 32)):
        response = alice.get(f"{path}cursor={key}.{id}")
        assert response.status_code in (200, 400), (path, key, id)


MALFORMED_IDS = (
    "%00", "x%00", "%ff", "%ed%a0%80", "é", "x" * 5000, "null", "..%2f..", "%2e%2e", "1", "'",
    "{}", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "%0a",
    "+", "{0}", "a%20b", "\u0663", "acme", UNKNOWN[:-1], f"urn:uuid:{UNKNOWN}", ZEROS,
    f"{UNKNOWN}%0a", f"%7B{UNKNOWN}%7D",
)  # fmt: skip
WITH_ID = [view for view in views() if view.variables]
# The function that reads ids, to which `id` in each of these paths refers, makes all of them the id
# of zeros. So one view tries all, and each other view a few.
FEW_MALFORMED_IDS = "null", "00000000-0000-0000-0000-000000000000", "%2e%2e", UNKNOWN[:-1]


@pytest.mark.parametrize(
    ("view", "malformed"),
    [(WITH_ID[0], MALFORMED_IDS), *((view, FEW_MALFORMED_IDS) for view in WITH_ID[1:])],
    ids=[view.name for view in WITH_ID],
)
def test_a_malformed_id_in_a_path_gets_404_like_an_unknown_id(browser, unlimited, view, malformed):
    number = len(view.variables)
    body = body_of(view, Values({})) if view.method != "GET" else None

    def refused(id):
        response = browser.send(view.method, view.path(*[id] * number), json=body)
        return error_message(response, 404)

    unknown = refused(UNKNOWN)
    for id in malformed:
        assert refused(id) in (unknown, "This path does not exist")


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31m", "<script>", "\N{LINE SEPARATOR}", "%(x)s", "{0}"]
)
def test_a_message_about_a_hostile_name_is_one_line_of_plain_text(alice, name):
    message = error_message(alice.post("/tasks", {"title": "x", name: 1}), 400)
    assert message.isascii() or message.isprintable()
    assert len(message.splitlines()) == 1
    assert "unknown field" in message


def test_a_message_about_an_empty_name_shows_it_in_quotes(alice):
    for response, reason in (
        (alice.get("/mail?=true"), "unknown query parameter; allowed: limit, cursor"),
        (alice.post("/tasks?=true", TASK), "unknown query parameter; allowed: dryRun"),
        (alice.get("/workspaces?=true"), "unknown query parameter; this operation takes none"),
        (alice.get("/mail?=%FF"), "must be UTF-8, percent-encoded"),
        (alice.post("/tasks", {**TASK, "": 1}), "unknown field; allowed: id, title"),
    ):
        assert error_message(response, 400).startswith(f'"": {reason}')
