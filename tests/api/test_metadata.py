"""metadata of tasks and meetings: strings of the clients' own."""

import json
import uuid
from threading import Barrier, Thread

import pytest
from support.commands import CommandRunner
from support.http import error_message, ids, read_all
from support.receivers import subscribe

TIMES = {"startTime": "2027-01-01T09:00:00Z", "endTime": "2027-01-01T10:00:00Z"}
OBJECTS = {"tasks": {"title": "Tea"}, "meetings": {"title": "Tea", **TIMES}}
FIFTY = {f"n{number}": "x" for number in range(50)}
TOO_MANY = "metadata: must have at most 50 pairs"
TOO_LONG = "metadata: must have at most 16384 bytes of JSON"
BAD_NAME = "must be a name with 1 to 40 of the characters A-Z a-z 0-9 _ . : -"

each_kind = pytest.mark.parametrize("kind", OBJECTS)


def of_size(size):
    """Return metadata that has this many bytes of JSON without spaces, of 1 000 to 16 500."""
    pairs = {str(number): "x" * 490 for number in range(size // 500)}
    return {**pairs, "rest": "x" * (size - len(compact({**pairs, "rest": ""})))}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.fixture
def cli(app):
    return lambda *words, **options: CommandRunner(app).invoke(words, **options)


@pytest.fixture
def create(alice):
    """Return a function that creates an object with this metadata, and returns its path."""

    def create(kind, metadata):
        made = alice.post(f"/{kind}", {**OBJECTS[kind], "metadata": metadata})
        assert made.status_code == 201, made.text
        return f"/{kind}/{made.get_json()['id']}"

    return create


@each_kind
def test_metadata_is_an_object_in_every_response_and_is_empty_by_default(alice, insert_into, kind):
    for body in ({}, {"metadata": {}}, {"metadata": None}, {"metadata": {"gone": None}}):
        made = alice.post(f"/{kind}", {**OBJECTS[kind], **body}).get_json()
        assert made["metadata"] == {}
        assert alice.get(f"/{kind}/{made['id']}").get_json() == made
    # A row that an older release inserts.
    insert_into(kind, metadata=None)
    assert [item["metadata"] for item in read_all(alice, f"/{kind}")] == [{}] * 5


@each_kind
def test_an_update_merges_names_as_rfc_7396_says(alice, create, kind):
    def patch(metadata):
        changed = alice.patch(path, {"metadata": metadata}).get_json()
        assert alice.get(path).get_json() == changed
        assert next(iter(read_all(alice, f"/{kind}"))) == changed
        return changed["metadata"]

    # A new object has nothing that null could remove.
    path = create(kind, {"a": "1", "b": "2", "c": None})
    assert alice.get(path).get_json()["metadata"] == {"a": "1", "b": "2"}
    assert patch({"b": "3", "x.y:z-_": "4"}) == {"a": "1", "b": "3", "x.y:z-_": "4"}
    assert patch({"a": None, "unknown": None}) == {"b": "3", "x.y:z-_": "4"}
    assert patch({"b": None, "x.y:z-_": None}) == {}
    assert patch({"b": "5"}) == {"b": "5"}
    assert patch(None) == {}
    assert patch({"b": "6"}) == {"b": "6"}
    # Other changes keep it.
    renamed = alice.patch(path, {"title": "Coffee"}).get_json()
    assert renamed["metadata"] == {"b": "6"}
    for metadata in ({}, {"b": "6"}, {"unknown": None}):
        assert alice.patch(path, {"metadata": metadata}).get_json() == renamed
    cleared = alice.patch(path, {"metadata": None}).get_json()
    assert alice.patch(path, {"metadata": None}).get_json() == cleared
    assert alice.patch(path, {"metadata": {"b": None}}).get_json() == cleared


@each_kind
def test_strings_come_back_exactly_and_responses_have_no_spaces_between_them(alice, create, kind):
    metadata = {"a": '"\\/\b\n\t\x01 \x7f', "b": " ", "c": "Größe 😀", "d": "null", "e": "x: y, z"}
    path = create(kind, metadata)
    response = alice.get(path)
    assert response.get_json()["metadata"] == metadata
    assert f'"metadata":{compact(metadata)}'.encode() in response.data


@each_kind
@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([], "metadata: must be an object"),
        ("a", "metadata: must be an object"),
        ({"a": 1}, "metadata.a: must be a string"),
        ({"a": {"b": "c"}}, "metadata.a: must be a string"),
        ({"a": ""}, "metadata.a: must have 1 to 500 characters, not 0"),
        ({"a": "x" * 501}, "metadata.a: must have 1 to 500 characters, not 501"),
        ({"a": "\0"}, "metadata.a: must not contain the character NUL"),
        ({"a": "\ud800"}, "metadata.a: must not contain an unpaired surrogate"),
        ({"a b": "c"}, f"metadata.a b: {BAD_NAME}"),
        ({"a\n": "c"}, f"metadata.a : {BAD_NAME}"),
        ({"ä": None}, f"metadata.ä: {BAD_NAME}"),
        ({"": "c"}, f"metadata.: {BAD_NAME}"),
        ({"\ud800": "c"}, f"metadata.?: {BAD_NAME}"),
        ({"x" * 41: "c"}, f"metadata.{'x' * 41}: {BAD_NAME}"),
        ({**FIFTY, "a": "c"}, TOO_MANY),
        (of_size(16385), TOO_LONG),
        ({f"n{number}": "\x01" * 55 for number in range(50)}, TOO_LONG),
        ({f"n{number}": "€" * 109 for number in range(50)}, TOO_LONG),
    ],
    ids=str,
)
def test_invalid_metadata_gets_400_that_names_it_and_says_what_is_allowed(
    alice, create, kind, metadata, message
):
    body = {**OBJECTS[kind], "metadata": metadata}
    assert error_message(alice.post(f"/{kind}", body), 400) == message
    path = create(kind, {"a": "kept"})
    before = alice.get(path).get_json()
    assert error_message(alice.patch(path, {"metadata": metadata}), 400) == message
    assert alice.get(path).get_json() == before


@each_kind
def test_the_limits_are_exact_and_hold_for_the_whole_object_after_an_update(alice, create, kind):
    full = create(kind, FIFTY)
    assert error_message(alice.patch(full, {"metadata": {"a": "x"}}), 400) == TOO_MANY
    # As many names may go as come, even if the request names more than 50.
    moved = {**dict.fromkeys(FIFTY), **{name.upper(): "y" for name in FIFTY}}
    changed = alice.patch(full, {"metadata": moved}).get_json()
    assert changed["metadata"] == {name.upper(): "y" for name in FIFTY}

    long = create(kind, of_size(16384))
    assert len(compact(alice.get(long).get_json()["metadata"]).encode()) == 16384
    rest = of_size(16384)["rest"]
    assert error_message(alice.patch(long, {"metadata": {"rest": f"{rest}x"}}), 400) == TOO_LONG
    assert error_message(alice.patch(long, {"metadata": {"a": "x"}}), 400) == TOO_LONG
    assert alice.patch(long, {"metadata": {"rest": None, "a": "x"}}).status_code == 200


@each_kind
def test_updates_at_the_same_time_keep_each_others_names_and_the_limit(alice, create, kind):
    path = create(kind, dict([*FIFTY.items()][:46]))
    barrier, statuses = Barrier(8), []

    def add(name):
        barrier.wait()
        statuses.append(alice.patch(path, {"metadata": {name: "x"}}).status_code)

    threads = [Thread(target=add, args=(f"m{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 4 + [400] * 4
    assert len(alice.get(path).get_json()["metadata"]) == 50


def test_a_batch_of_100_tasks_may_have_all_their_fields_and_metadata_and_come_back_as_read(
    alice, cast, create
):
    task = {
        **{"title": "Tea", "description": "x", "status": "done", "priority": "low"},
        **{"dueDate": "2027-01-01", "assigneeId": cast["alice"], "projectId": "x"},
        **{"parentId": create("tasks", {}).rpartition("/")[2], "metadata": FIFTY},
    }
    batch = {"create": [{"id": str(uuid.uuid4()), **task} for _ in range(100)]}
    created = alice.post("/tasks/batch", batch)
    assert created.status_code == 200, created.text
    tasks = created.get_json()["created"]
    # No member is null.
    assert all(all(value is not None for value in task.values()) for task in tasks)
    updated = alice.post("/tasks/batch", {"update": tasks})
    assert updated.status_code == 200, updated.text
    assert updated.get_json()["updated"] == tasks


@each_kind
def test_a_stale_version_gets_412_even_if_the_merged_metadata_would_be_too_long(
    alice, create, kind
):
    path = create(kind, {})
    assert alice.patch(path, {"metadata": FIFTY}).status_code == 200
    changes = {"metadata": {"one": "more"}}
    stale = alice.patch(path, changes, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    assert stale.get_json()["current"] == alice.get(path).get_json()
    assert error_message(alice.patch(path, changes, headers={"If-Match": '"2"'}), 400) == TOO_MANY
    if kind == "tasks":
        item = {"id": path.rpartition("/")[2], "version": 1, **changes}
        assert "has changed" in error_message(alice.post("/tasks/batch", {"update": [item]}), 412)


def test_a_batch_names_the_task_whose_metadata_is_refused(alice, create):
    id = create("tasks", FIFTY).rpartition("/")[2]
    body = {
        "create": [{"title": "A", "metadata": {"a": "1", "gone": None}}],
        "update": [{"id": id, "metadata": {"n0": None, "a": "1"}}],
    }
    result = alice.post("/tasks/batch", body).get_json()
    assert result["created"][0]["metadata"] == {"a": "1"}
    assert len(result["updated"][0]["metadata"]) == 50
    body["update"][0]["metadata"] = {"b": "1"}
    refused = alice.post("/tasks/batch", body)
    assert error_message(refused, 400) == f"update[0].{TOO_MANY}"


@each_kind
def test_an_update_event_has_the_whole_old_object(alice, cast, connection, kind):
    subscribe(connection, cast["acme"], "https://example.com/hook")
    old = {"a": "1", "b": "2"}
    made = alice.post(f"/{kind}", {**OBJECTS[kind], "metadata": old}).get_json()
    path = f"/{kind}/{made['id']}"
    alice.patch(path, {"metadata": {"b": None, "c": "3"}})
    alice.patch(path, {"metadata": {"c": "3"}})
    alice.patch(path, {"metadata": None})
    rows = connection.execute("SELECT body FROM events ORDER BY position").fetchall()
    created, changed, cleared = (json.loads(row["body"]) for row in rows)
    assert created["data"]["metadata"] == old
    assert (changed["changed"], changed["previous"]) == (["metadata"], {"metadata": old})
    assert changed["data"]["metadata"] == cleared["previous"]["metadata"] == {"a": "1", "c": "3"}
    assert cleared["data"]["metadata"] == {}


@each_kind
def test_an_export_has_the_metadata_and_load_reads_it(alice, create, cli, connection, kind):
    create(kind, {"a": 'Größe "≤"\n', "b": "2"})
    create(kind, {})
    before = read_all(alice, f"/{kind}")
    exported = cli("workspace", "export", "acme").stdout
    assert cli("workspace", "delete", "acme", "--yes").exit_code == 0
    connection.execute("DELETE FROM users WHERE name <> 'Charlie'")
    outcome = cli("load", "-", input=exported)
    assert outcome.exit_code == 0, outcome.output
    assert cli("workspace", "export", "acme").stdout == exported
    rows = connection.execute(f"SELECT metadata FROM {kind} ORDER BY id DESC").fetchall()
    assert [row["metadata"] or {} for row in rows] == [item["metadata"] for item in before]


@each_kind
def test_load_refuses_metadata_as_the_api_does(cli, kind):
    line = {"type": kind[:-1], "workspace": "acme", **OBJECTS[kind]}
    for metadata, message in (
        ({"a": 1}, "metadata.a: must be a string"),
        ({**FIFTY, "a": "x"}, TOO_MANY),
        (of_size(16385), TOO_LONG),
    ):
        refused = cli("load", "-", input=json.dumps({**line, "metadata": metadata}) + "\n")
        assert message in refused.output


@each_kind
def test_the_update_of_an_older_release_keeps_the_metadata(alice, create, connection, kind):
    path = create(kind, {"a": "1"})
    connection.execute(
        f"UPDATE {kind} SET title = 'Old', version = version + 1, updated_at = now_ms()"
    )
    shown = alice.get(path).get_json()
    assert (shown["title"], shown["metadata"]) == ("Old", {"a": "1"})


PAIRS = {
    "a": {"ticket": "42", "label": "blue"},
    "b": {"ticket": "42", "x.y:z-_": "a&b=[c] %41 + é 😀"},
    "c": {"ticket": "421"},
    "d": {"label": "blue", "ticket.id": "42"},
    "none": {},
}


@each_kind
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"metadata[ticket]": "42"}, "a b"),
        ({"metadata[ticket]": "42", "metadata[label]": "blue"}, "a"),
        ({"metadata[x.y:z-_]": "a&b=[c] %41 + é 😀"}, "b"),
        ({"metadata[ticket]": "4"}, ""),
        ({"metadata[42]": "ticket"}, ""),
        ({"metadata[Ticket]": "42"}, ""),
        ({"metadata[label]": "blue", "limit": "1"}, "a d"),
    ],
)
def test_a_list_shows_the_objects_whose_metadata_has_all_pairs_of_the_filter(
    alice, create, kind, query, found
):
    rows = {create(kind, pairs).rpartition("/")[2]: name for name, pairs in PAIRS.items()}
    listed = read_all(alice, f"/{kind}", **query)
    assert sorted(rows[row["id"]] for row in listed) == found.split()
    # Brackets in a query need no percent-encoding, although RFC 3986 asks for it.
    (name, value), *_ = query.items()
    if value.isalnum():
        raw = alice.get(f"/{kind}?{name}={value}&limit=100").get_json()["data"]
        encoded = alice.get(f"/{kind}", query_string={name: value, "limit": 100}).get_json()["data"]
        assert raw == encoded


@each_kind
def test_a_filter_of_metadata_sees_what_a_change_left(alice, create, kind):
    path = create(kind, {"ticket": "42"})
    query = {"metadata[ticket]": "42"}
    assert len(read_all(alice, f"/{kind}", **query)) == 1
    alice.patch(path, {"metadata": {"ticket": None, "other": "42"}})
    assert read_all(alice, f"/{kind}", **query) == []
    assert len(read_all(alice, f"/{kind}", **{"metadata[other]": "42"})) == 1


def test_a_filter_of_metadata_goes_with_the_others(alice, create):
    path = create("tasks", {"ticket": "42"})
    create("tasks", {"ticket": "43"})
    for more in ({"q": "tea"}, {"sort": "dueDate"}, {"status": "todo"}, {"assignee": "none"}):
        query = {"metadata[ticket]": "42", **more}
        assert [f"/tasks/{row['id']}" for row in read_all(alice, "/tasks", **query)] == [path]
    for more in ({"q": "coffee"}, {"status": "done"}, {"assignee": "me"}):
        assert read_all(alice, "/tasks", **{"metadata[ticket]": "42", **more}) == []
    create("meetings", {"ticket": "42"})
    for more, number in ({"upcoming": "true"}, 1), ({"to": TIMES["startTime"]}, 0):
        assert len(read_all(alice, "/meetings", **{"metadata[ticket]": "42", **more})) == number


LONG = "x" * 501


@each_kind
@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("metadata=a", "metadata", "must have the name of a pair in brackets"),
        ("metadata=a&metadata[a]=b", "metadata", "must have the name of a pair in brackets"),
        ("metadata[a]=b&metadata[a]=c", "metadata[a]", "must not be repeated"),
        ("metadata[a]=b&metadata%5Ba%5D=c", "metadata[a]", "must not be repeated"),
        ("metadata[]=a", "metadata[]", BAD_NAME),
        ("metadata[a%20b]=c", "metadata[a b]", BAD_NAME),
        ("metadata[a][b]=c", "metadata[a][b]", BAD_NAME),
        (f"metadata[{'x' * 41}]=c", f"metadata[{'x' * 41}]", BAD_NAME),
        ("metadata[a]=", "metadata[a]", "must have 1 to 500 characters, not 0"),
        (f"metadata[a]={LONG}", "metadata[a]", "must have 1 to 500 characters, not 501"),
        ("metadata[a]=%00", "metadata[a]", "must not contain the character NUL"),
        ("metadata[a]=%ff", "metadata[a]", "must be UTF-8, percent-encoded"),
        ("&".join(f"metadata[{n}]=x" for n in range(51)), "metadata", "must have at most 50 pairs"),
        ("metadata[a=b", "metadata[a", "unknown query parameter"),
        ("metadata.a=b", "metadata.a", "unknown query parameter"),
        ("limit[a]=1", "limit[a]", "unknown query parameter"),
    ],
)
def test_a_pair_that_metadata_could_not_have_gets_400_that_names_its_parameter(
    alice, kind, query, field, message
):
    response = alice.get(f"/{kind}?{query}")
    assert message in error_message(response, 400)
    (fault,) = response.get_json()["errors"]
    assert fault["field"] == field
    assert fault["message"].startswith(message)


def test_a_filter_of_metadata_compares_few_bytes_and_goes_on(alice, cast, connection):
    """The first page ends after 20 MB, before the only task that has the pair."""
    many = {str(number): "x" * 490 for number in range(32)}
    connection.execute(
        "INSERT INTO tasks (workspace_id, title, created_by, metadata)"
        " SELECT %(acme)s, 'Tea', %(alice)s,"
        '        CASE n WHEN 0 THEN \'{"ticket": "42"}\' ELSE %(many)s::jsonb END'
        " FROM generate_series(0, 1999) AS n",
        {**cast, "many": json.dumps(many)},
    )
    page = alice.get("/tasks?metadata[ticket]=42").get_json()
    assert page["data"] == []
    rest = alice.get(f"/tasks?metadata[ticket]=42&cursor={page['nextCursor']}").get_json()
    assert len(rest["data"]) == 1
    assert rest["nextCursor"] is None


@pytest.mark.slow
@pytest.mark.parametrize("upcoming", [True, False])
def test_a_page_of_meetings_compares_as_many_of_each_workspace(
    alice, cast, connection, initech, upcoming
):
    """Every thousandth meeting of both workspaces has the pair, at the same times."""
    connection.execute(
        "INSERT INTO meetings"
        "        (workspace_id, title, start_time, end_time, created_by, metadata)"
        " SELECT workspace, 'Tea', start, start + interval '1 min', %s,"
        '        CASE n %% 1000 WHEN 0 THEN \'{"ticket": "42"}\'::jsonb END'
        " FROM generate_series(1, 8000) AS n,"
        "      unnest(%s::uuid[]) WITH ORDINALITY AS workspaces (workspace, number),"
        "      LATERAL (SELECT date_trunc('minute', now()) + n * interval '1 h' AS start) AS at"
        # Initech has only some of them, so its share is never used up.
        " WHERE number = 1 OR n > 4000",
        (cast["alice"], [cast["acme"], initech]),
    )
    order = (
        "start_time, id, workspace_id"
        if upcoming
        else ("start_time DESC, id DESC, workspace_id DESC")
    )
    rows = connection.execute(
        f"SELECT id::text FROM meetings WHERE metadata IS NOT NULL ORDER BY {order}"
    )
    expected = ids(rows.fetchall())
    query = {"metadata[ticket]": "42"} | ({"upcoming": "true"} if upcoming else {})
    first = alice.get("/meetings", query_string=query).get_json()
    # 5 000 of each workspace: only Acme's, or 5 000 of Acme beside 4 000 of Initech.
    assert ids(first["data"]) == expected[: len(first["data"])]
    assert len(first["data"]) == (6 if upcoming else 9)
    assert first["nextCursor"]
    for limit in (1, 3, 100):
        assert ids(read_all(alice, "/meetings", **query, limit=limit)) == expected
    one = {**query, "workspaceId": cast["acme"]}
    page = alice.get("/meetings", query_string=one).get_json()
    assert (len(page["data"]), page["nextCursor"]) == (8, None)
