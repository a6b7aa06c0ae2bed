"""What comes in: bodies and queries that no schema should ever have to see."""

import json
from io import BytesIO

import pytest
from client import TOKENS

TASK = {"title": "Write the report"}


def titled(text):
    """The bytes of a task whose title is this JSON text."""
    return b'{"title": ' + text + b"}"


def refused(answer, status=400):
    """The message of an error answer; whatever was sent, it is JSON in the one shape."""
    assert answer.status_code == status
    assert answer.content_type == "application/json"
    body = answer.get_json()
    assert set(body) - {"errors"} == {"message", "status", "requestId"}
    assert body["status"] == status
    assert body["requestId"] == answer.headers["X-Request-Id"]
    assert body["message"]
    for error in body.get("errors", []):
        assert set(error) == {"field", "message"}
        assert " ".join(error["field"].split()) in body["message"]
    return body["message"]


def none_written(connection):
    return connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 0


DEEP = 100_000

# Bodies that are no JSON object in UTF-8, and what the message says about them.
FAULTS = {
    "empty": (b"", "JSON object"),
    "white space": (b" \n", "JSON object"),
    "words": (b"title=x", "JSON object"),
    "form": (b"title=x&description=y", "JSON object"),
    "array": (b'[{"title": "x"}]', "JSON object"),
    "number": (b"1", "JSON object"),
    "string": (b'"title"', "JSON object"),
    "null": (b"null", "JSON object"),
    "true": (b"true", "JSON object"),
    "truncated": (b'{"title": "x"', "JSON object"),
    "truncated string": (b'{"title": "x', "JSON object"),
    "two objects": (b'{"title": "x"} {"title": "y"}', "JSON object"),
    "trailing comma": (b'{"title": "x",}', "JSON object"),
    "single quotes": (b"{'title': 'x'}", "JSON object"),
    "comment": (b'{"title": "x" /* y */}', "JSON object"),
    "control character": (titled(b'"a\tb"'), "JSON object"),
    "raw NUL": (titled(b'"a\0b"'), "JSON object"),
    "trailing NUL": (titled(b'"x"') + b"\0", "JSON object"),
    "bad escape": (titled(rb'"\x41"'), "JSON object"),
    "NaN": (titled(b"NaN"), "NaN"),
    "Infinity": (titled(b"Infinity"), "Infinity"),
    "minus Infinity": (titled(b"-Infinity"), "-Infinity"),
    "too large a float": (titled(b"1e999"), "1e999"),
    "too small a float": (titled(b"-1e999"), "-1e999"),
    "hidden too large": (b'{"title": "x", "projectId": [[1e400]]}', "1e400"),
    "huge integer": (titled(b"9" * 5000), "integer"),
    "huge float": (titled(b"9" * 5000 + b".0"), "out of range"),
    "twice": (b'{"title": "x", "title": "y"}', "'title' stands more than once"),
    "twice, escaped": (rb'{"title": "x", "\u0074itle": "y"}', "'title' stands more than once"),
    "twice, deeper": (b'{"title": {"a": 1, "a": 1}}', "'a' stands more than once"),
    "deep arrays": (titled(b"[" * DEEP + b"]" * DEEP), "too deeply"),
    "deep objects": (titled(b'{"a":' * DEEP + b"1" + b"}" * DEEP), "too deeply"),
    "deep, never closed": (b"[" * DEEP, "too deeply"),
    "invalid UTF-8": (titled(b'"\xff"'), "UTF-8"),
    "truncated UTF-8": (titled(b'"\xe2\x82"'), "UTF-8"),
    "overlong UTF-8": (titled(b'"\xc0\xaf"'), "UTF-8"),
    "surrogate in UTF-8": (titled(b'"\xed\xa0\x80"'), "UTF-8"),
    "Latin-1": ('{"title": "Café"}'.encode("latin-1"), "UTF-8"),
    "UTF-16": ('{"title": "x"}'.encode("utf-16"), "UTF-8"),
    "UTF-16 without mark": ('{"title": "x"}'.encode("utf-16-le"), "JSON"),
    "UTF-32": ('{"title": "x"}'.encode("utf-32-be"), "JSON"),
    "byte order mark": (b"\xef\xbb\xbf" + titled(b'"x"'), "JSON"),
}


@pytest.mark.parametrize("type", ["application/json", None])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_body_that_is_no_json_object_in_utf_8_is_400(alice, connection, fault, type):
    content, reason = FAULTS[fault]
    answer = alice.post("/tasks", data=content, content_type=type)
    message = refused(answer)
    assert reason in message
    assert len(message) < 300
    assert "integer string conversion" not in message  # Python's words for its own limit
    assert none_written(connection)


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (titled(rb'"a\u0000b"'), ["title"]),
        (titled(rb'"\ud800"'), ["title"]),
        (titled(rb'"\udc00\ud800"'), ["title"]),
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
        (titled(b"null"), ["title"]),
        (titled(b"1"), ["title"]),
        (titled(b"1.5e3"), ["title"]),
        (titled(b"true"), ["title"]),
        (titled(b"[]"), ["title"]),
        (titled(b'["x"]'), ["title"]),
        (titled(b"{}"), ["title"]),
        (titled(b'""'), ["title"]),
        (titled(b'"x"')[:-1] + b', "description": 1, "status": [], "priority": {}}',
         ["description", "status", "priority"]),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_kept_is_400_and_names_its_field(alice, connection, content, fields):
    answer = alice.post("/tasks", data=content, content_type="application/json")
    refused(answer)
    assert sorted(error["field"] for error in answer.get_json()["errors"]) == sorted(fields)
    assert none_written(connection)


def test_the_same_faults_in_a_change_are_400_and_change_nothing(alice):
    task = alice.post("/tasks", TASK).get_json()
    path = f"/tasks/{task['id']}"
    for content, _ in FAULTS.values():
        refused(alice.patch(path, data=content, content_type="application/json"))
    for text in (rb'"\u0000"', rb'"\ud800"', b'""', b"null", b"1"):
        refused(alice.patch(path, data=titled(text)))
    assert alice.get(path).get_json() == task


def test_an_unknown_field_is_400_and_names_the_nearest(alice):
    near = alice.post("/tasks", {"title": "x", "duedate": None})
    assert refused(near) == "duedate: unknown field; did you mean dueDate?"
    far = refused(alice.post("/tasks", {"title": "x", "zzz": 1}))
    assert "zzz: unknown field" in far
    assert "dueDate" in far
    for name in ("due_date", "id", "workspaceId", "createdBy", "createdAt", "version"):
        assert name in refused(alice.post("/tasks", {"title": "x", name: "x"}))


def test_any_json_beside_that_is_taken(alice):
    spaced = b' \r\n\t{ "title" :"\\u00e9\xc3\xa9\\ud83d\\ude00\\/" , "description":null } \n'
    task = alice.post("/tasks", data=spaced, content_type="application/json").get_json()
    assert task["title"] == "éé\U0001f600/"


# Content-Type


@pytest.mark.parametrize(
    "type",
    [
        None,
        "",
        "; charset=utf-8",
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/merge-patch+json",
        "application/vnd.api+json",
    ],
)
def test_a_declared_json_type_or_none_is_taken(alice, type):
    answer = alice.post("/tasks", data=json.dumps(TASK), content_type=type)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "type",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonp",
        "application/json-seq",
        "application/+json",
        "json",
        "é",
        "*/*",
    ],
)
def test_any_other_declared_type_is_415(alice, connection, type):
    header = {"Content-Type": type.encode().decode("latin-1")}
    answer = alice.post("/tasks", data=json.dumps(TASK), headers=header)
    assert "application/json is allowed" in refused(answer, 415)
    assert none_written(connection)


# Sizes


def padded(size):
    """A task of exactly this many bytes."""
    content = json.dumps(TASK).encode()
    return content + b" " * (size - len(content))


MAX = 1_048_576


def chunked(content):
    """Options for a body without Content-Length, as gunicorn passes on a chunked one."""
    return {
        "input_stream": BytesIO(content),
        "environ_overrides": {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
    }


def test_a_body_over_the_limit_is_413_by_its_announced_length(alice, connection):
    assert alice.post("/tasks", data=padded(MAX)).status_code == 201
    refused(alice.post("/tasks", data=padded(MAX + 1)), 413)
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1


def test_a_body_over_the_limit_is_413_although_chunked(alice, connection):
    refused(alice.post("/tasks", **chunked(padded(MAX + 1))), 413)
    refused(alice.post("/tasks", **chunked(padded(5 * MAX))), 413)
    assert none_written(connection)
    assert alice.post("/tasks", **chunked(padded(MAX - 1))).status_code == 201


def test_a_chunked_body_of_exactly_the_limit_is_taken(alice):
    assert alice.post("/tasks", **chunked(padded(MAX))).status_code == 201


@pytest.mark.parametrize("announced", ["-1", "x", "1e3", "1_0", "", "9" * 30])
def test_an_odd_content_length_is_never_a_500(alice, announced):
    answer = alice.post("/tasks", data=b"{}", environ_overrides={"CONTENT_LENGTH": announced})
    refused(answer, 413 if announced == "9" * 30 else 400)


# Queries

PATHS = (
    "/tasks",
    "/meetings",
    "/mail",
    "/knowledge",
    "/ai/suggestions",
    "/dashboard/stats",
    "/workspaces",
    "/workspaces/{acme}",
    "/workspaces/{acme}/members",
    "/tasks/{task}",
    "/meetings/{meeting}",
)


@pytest.fixture
def paths(alice, cast):
    task = alice.post("/tasks", TASK).get_json()["id"]
    times = {"startTime": "2026-01-01T10:00Z", "endTime": "2026-01-01T11:00Z"}
    meeting = alice.post("/meetings", {"title": "Plan", **times}).get_json()["id"]
    return [path.format(**cast, task=task, meeting=meeting) for path in PATHS]


@pytest.mark.parametrize(
    "query",
    ["zzz=1", "zzz", "=1", "zzz=1&yyy=2", "zzz=%00", "%00=1", "zzz=%ff", "%ff", "zzz=a&zzz=b"],
)
def test_an_unknown_query_parameter_is_400_on_every_path(alice, paths, query):
    for path in paths:
        assert alice.get(path).status_code == 200
        refused(alice.get(f"{path}?{query}"))


@pytest.mark.parametrize("query", ["", "&", "&&"])
def test_a_query_without_names_is_none(alice, query):
    for path in ("/tasks", "/workspaces"):
        assert alice.get(f"{path}?{query}").status_code == 200


@pytest.mark.parametrize("query", [b"\xff=1", b"%FF=1", b"zzz=\xc3\xa4"])
def test_bytes_that_are_no_utf_8_are_400_too(app, query):
    for path in ("/api/tasks", "/api/workspaces"):
        answer = app.test_client().get(
            path,
            environ_overrides={"QUERY_STRING": query.decode("latin-1")},
            headers={"Authorization": f"Bearer {TOKENS['alice']}"},
        )
        assert "unknown query parameter" in refused(answer)


@pytest.mark.parametrize("query", ["zzz=1", "title=x", "limit=1"])
def test_a_query_is_400_on_writes_too(alice, paths, query, connection):
    task = next(path for path in paths if path.startswith("/tasks/"))
    before = alice.get(task).get_json()
    for method, path in (
        ("POST", "/tasks"),
        ("POST", "/meetings"),
        ("PATCH", task),
        ("DELETE", task),
    ):
        answer = alice.send(method, f"{path}?{query}", json={"title": "Other"})
        assert query.split("=")[0] in refused(answer)
    assert alice.get(task).get_json() == before


def test_an_unknown_query_parameter_is_named_with_the_nearest(alice):
    assert refused(alice.get("/tasks?Status=todo")).startswith("Status: unknown query parameter")
    assert "did you mean assignee?" in refused(alice.get("/tasks?asignee=x"))
    assert "workspaces" not in refused(alice.get("/workspaces?limit=1"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tasks?limit=1&limit=1", "limit"),
        ("/tasks?status=todo&limit=1&status=done", "status"),
        ("/meetings?upcoming=true&upcoming=true", "upcoming"),
        ("/knowledge?q=a&q=b", "q"),
        ("/mail?cursor=&cursor=", "cursor"),
        ("/dashboard/stats?workspaceId=a&workspaceId=b", "workspaceId"),
    ],
)
def test_a_repeated_query_parameter_is_400_and_named(alice, path, name):
    assert refused(alice.get(path)).startswith(f"{name}: stands more than once")


def test_a_bare_question_mark_is_no_query(alice):
    assert alice.get("/tasks?").status_code == 200
    assert alice.get("/workspaces?").status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "+1",
        "1.0",
        "1e2",
        "1_0",
        "\uff10",
        "\uff15",
        "\u0663",
        " 5",
        "5 ",
        "x",
        "%00",
        "%ff",
        "0x1",
    ],
)
@pytest.mark.parametrize("path", ["/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"])
def test_a_limit_that_is_no_plain_number_is_400(alice, path, value):
    refused(alice.get(path, query_string=f"limit={value.replace('+', '%2B')}"))


@pytest.mark.parametrize("path", ["/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"])
def test_a_limit_above_the_maximum_is_lowered_however_long(alice, path):
    for value in ("1", "007", "201", "9" * 18, "9" * 400):
        assert alice.get(f"{path}?limit={value}").status_code == 200


@pytest.mark.parametrize(
    "value",
    ["", "x", "%25%25%25", "====", "é", "%00", "0", "0.", "." + "0" * 32, "0" * 31, "0" * 33,
     "-" + "0" * 32, "1.2." + "0" * 32, "9" * 40 + "." + "0" * 32, "1." + "G" * 32, "0" * 32 + "%0A",
     "1.5." + "0" * 32, "\u0663." + "0" * 32, "null", "00000000-0000-0000-0000-000000000000"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/tasks", "/meetings", "/mail", "/knowledge", "/ai/suggestions"])
def test_a_cursor_that_is_none_is_400(alice, path, value):
    assert "cursor: must be the nextCursor" in refused(alice.get(f"{path}?cursor={value}"))


@pytest.mark.parametrize("key", ["-" + "9" * 15, "9" * 15, "0", "-0", "000"])
@pytest.mark.parametrize(
    "path", ["/meetings", "/meetings?upcoming=true", "/mail", "/knowledge?q=a"]
)
@pytest.mark.parametrize("id", ["0" * 32, "f" * 32])
def test_a_cursor_at_the_ends_of_the_scale_is_never_a_500(alice, path, key, id):
    answer = alice.get(f"{path}{'&' if '?' in path else '?'}cursor={key}.{id}")
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    "value", ["%00", "a%00b", "%ed%a0%80", "%ff", "%C3%28", "x" * 4000, "%F0%9F%98%80"]
)
@pytest.mark.parametrize(
    "name",
    ["tasks?status", "tasks?priority", "tasks?assignee", "tasks?projectId", "tasks?parentId",
     "meetings?upcoming", "meetings?workspaceId", "knowledge?q", "dashboard/stats?workspaceId"],
)  # fmt: skip
def test_an_odd_query_value_is_never_a_500(alice, name, value):
    answer = alice.get(f"/{name}={value}")
    assert answer.status_code in (200, 400, 404)
    if "%00" in value or len(value) == 4000:
        refused(answer)


@pytest.mark.parametrize(
    "q",
    [
        "'",
        '"',
        "\\",
        "!",
        "&|",
        ":*",
        "()",
        "a:b",
        "-",
        "or",
        "workspace:x",
        "''''",
        "a\\'b",
        "%",
        "<->",
    ],
)
def test_a_search_is_words_whatever_their_signs(alice, q):
    assert alice.get("/knowledge", query_string={"q": q}).get_json()["data"] == []


@pytest.mark.parametrize(
    "id",
    ["%00", "x%00", "%ff", "%ed%a0%80", "é", "x" * 5000, "null", "..%2f..", "%2e%2e", "1", "'", "{}",
     "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "%0a", "+",
     "{0}", "urn:uuid:00000000-0000-0000-0000-000000000000", "0" * 32],
)  # fmt: skip
def test_a_malformed_id_is_404_like_an_unknown_one(alice, id):
    for path in ("/tasks", "/meetings", "/workspaces"):
        unknown = refused(alice.get(f"{path}/00000000-0000-7000-8000-000000000000"), 404)
        answers = [alice.get(f"{path}/{id}"), alice.patch(f"{path}/{id}", {})]
        if path == "/tasks":
            answers.append(alice.delete(f"{path}/{id}"))
        if path == "/workspaces":
            answers.append(alice.get(f"{path}/{id}/members"))
        for answer in answers:
            assert refused(answer, 404) in (unknown, "No resource has this path")


def test_messages_are_plain_text_in_one_line(alice):
    for name in ("a\nb", "\x1b[31m", "<script>", "\N{LINE SEPARATOR}", "%(x)s", "{0}"):
        message = refused(alice.post("/tasks", {"title": "x", name: 1}))
        assert message.isascii() or message.isprintable()
        assert len(message.splitlines()) == 1
        assert "unknown field" in message
