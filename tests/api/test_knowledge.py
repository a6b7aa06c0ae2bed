"""Knowledge: the list, and the search for the best."""

import pytest
from client import INVALID_LIMITS, error_message, insert, insert_member, invalid_field, read_all

FIELDS = ["id", "title", "content", "tags", "createdAt", "updatedAt"]


@pytest.fixture
def put(connection, cast):
    """Put an entry into a workspace, past the service; returns its id."""

    def put(title, content="", tags=(), workspace="acme", **values):
        return insert(
            connection,
            "knowledge",
            workspace_id=cast.get(workspace, workspace),
            title=title,
            content=content,
            tags=list(tags),
            **values,
        )

    return put


def ids(items):
    return [item["id"] for item in items]


def titles(client, q, **query):
    return [entry["title"] for entry in read_all(client, "/knowledge", q=q, **query)]


# List


def test_alice_reads_the_knowledge_of_her_workspace(alice, bob, put):
    bare = put("Bare")
    full = put(
        "How to brew tea",
        "Boil the water \N{HOT BEVERAGE}.\nWait.",
        ["kitchen", "hot"],
        created_at="2026-01-01T12:00:00Z",
        updated_at="2026-01-02T12:00:00.743Z",
    )
    answer = alice.get("/knowledge")
    assert answer.status_code == 200
    assert list(answer.get_json()) == ["data", "nextCursor"]
    first, second = answer.get_json()["data"]
    assert list(first) == list(second) == FIELDS
    assert first == {
        "id": full,
        "title": "How to brew tea",
        "content": "Boil the water \N{HOT BEVERAGE}.\nWait.",
        "tags": ["kitchen", "hot"],
        "createdAt": "2026-01-01T12:00:00.000Z",
        "updatedAt": "2026-01-02T12:00:00.743Z",
    }
    assert (second["id"], second["content"], second["tags"]) == (bare, "", [])
    assert bob.get("/knowledge").get_json() == answer.get_json()
    assert read_all(alice, "/knowledge", q="tea") == [first]


@pytest.mark.parametrize("query", [{}, {"q": "tea"}], ids=["list", "search"])
def test_no_knowledge_is_an_empty_list(alice, query):
    answer = alice.get("/knowledge", query_string=query)
    assert answer.get_json() == {"data": [], "nextCursor": None}


@pytest.mark.parametrize("query", [{}, {"q": "tea"}, {"q": "-coffee"}], ids=str)
def test_nobody_sees_the_knowledge_of_another_tenant(alice, charlie, put, query):
    acme, globex = put("Our tea"), put("Their tea", "tea tea tea", ["tea"], "globex")
    assert ids(read_all(alice, "/knowledge", **query)) == [acme]
    assert ids(read_all(charlie, "/knowledge", **query)) == [globex]


@pytest.mark.parametrize("query", [{}, {"q": "tea"}], ids=["list", "search"])
def test_only_the_knowledge_of_the_active_workspace_is_listed(alice, cast, connection, put, query):
    initech = insert(connection, "workspaces", name="Initech", slug="initech", plan="Team")
    insert_member(connection, initech, cast["alice"], "owner")
    acme, other = put("Our tea"), put("Other tea", workspace=initech)
    assert ids(read_all(alice, "/knowledge", **query)) == [acme]
    connection.execute(
        "UPDATE users SET active_workspace_id = %s WHERE id = %s", (initech, cast["alice"])
    )
    assert ids(read_all(alice, "/knowledge", **query)) == [other]


@pytest.mark.parametrize("limit", [1, 3, 7, 200])
def test_the_pages_hold_every_entry_exactly_once_newest_first(alice, put, limit):
    put("Foreign", workspace="globex")
    made = [put(f"Entry {n}") for n in range(7)]
    assert ids(read_all(alice, "/knowledge", limit=limit)) == made[::-1]


# Search


def test_a_title_is_better_than_a_tag_and_a_tag_better_than_the_content(alice, put):
    put("In the content", "All about a kettle")
    put("Kettle in the title")
    put("In the tags", tags=["kettle"])
    put("Nowhere", "All about a pot")
    assert titles(alice, "kettle") == ["Kettle in the title", "In the tags", "In the content"]


def test_an_entry_that_says_it_more_often_is_better_though_it_be_older(alice, put):
    made = [put("Drink", "tea " * times) for times in (6, 5, 4, 3, 2, 1)]
    assert ids(read_all(alice, "/knowledge", q="tea", limit=2)) == made


def test_among_equals_the_newest_is_best(alice, put):
    made = [put("Tea") for _ in range(5)]
    assert ids(read_all(alice, "/knowledge", q="tea")) == made[::-1]


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("brew", "ab"),
        ("BREWING", "ab"),
        ("brewed tea", "a"),
        ("tea brew", "a"),
        ("tea or coffee", "ab"),
        ("brew -coffee", "a"),
        ('"strong coffee"', "b"),
        ('"coffee strong"', ""),
        ("the tea", "a"),
        ("hot", "a"),
        ("zürich", "c"),
        ("ZÜRICH", "c"),
        ("absent", ""),
        ("tea absent", ""),
        ("te", ""),
    ],
)
def test_a_search_finds_words_in_whatever_form(alice, put, q, found):
    made = {
        put("a: brewing tea", "Wait for it", ["hot"]): "a",
        put("b: how coffee is brewed", "A strong coffee takes long"): "b",
        put("c: the office in Zürich"): "c",
    }
    assert {made[id] for id in ids(read_all(alice, "/knowledge", q=q))} == set(found)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_the_pages_of_a_search_hold_every_match_exactly_once_best_first(alice, put, limit):
    """Several entries are equally good; the pages cut through them."""
    for n in range(3):
        put("Tea", "tea " * n, ["tea"])
        put("Tea")
        put("Drink", "Tea is one of them")
        put("Drink", "x " * 50 + "tea " * 3)
        put("Drink", tags=["tea"])
        put("Drink", "coffee")
        put("Tea", workspace="globex")
    everything = alice.get("/knowledge?q=tea&limit=200").get_json()["data"]
    assert len({entry["id"] for entry in everything}) == 15
    assert read_all(alice, "/knowledge", q="tea", limit=limit) == everything


@pytest.fixture
def put_many(connection, cast):
    """Put so many entries into Alice's workspace that say tea, the oldest ones most often."""

    def put_many(count):
        connection.execute(
            """
            INSERT INTO knowledge (workspace_id, title, content)
            SELECT %s, 'Drink', repeat('tea ', 1 + (%s - number) / 1000)
              FROM generate_series(1, %s) AS number
            """,
            (cast["acme"], count, count),
        )
        connection.execute("ANALYZE knowledge")

    return put_many


def test_of_5000_matches_the_best_are_first_though_they_be_the_oldest(alice, put_many):
    put_many(5000)
    found = read_all(alice, "/knowledge", q="tea", limit=200)
    times = [entry["content"].count("tea") for entry in found]
    assert times == sorted(times, reverse=True)
    assert len(set(ids(found))) == 5000


@pytest.mark.parametrize("q", ["tea", "-coffee", "tea -coffee", '"tea tea" or drink'])
def test_of_more_than_5000_matches_the_newest_are_first(alice, put_many, q):
    put_many(5001)
    found = ids(read_all(alice, "/knowledge", q=q, limit=200))
    assert found == sorted(set(found), reverse=True)
    assert len(found) == 5001


@pytest.mark.parametrize("count", [5000, 5001])
def test_pages_go_on_in_their_order_when_the_matches_become_too_many_or_few(
    alice, put, put_many, connection, count
):
    put_many(count)
    everything = ids(read_all(alice, "/knowledge", q="tea", limit=200))
    first = alice.get("/knowledge?q=tea&limit=2").get_json()
    assert ids(first["data"]) == everything[:2]
    if count == 5000:
        put("Tea")
    else:
        connection.execute("DELETE FROM knowledge WHERE id = %s", (everything[0],))
    rest = ids(read_all(alice, "/knowledge", q="tea", limit=200, cursor=first["nextCursor"]))
    assert rest == everything[2:]


@pytest.mark.parametrize("query", [{}, {"q": "tea"}], ids=["list", "search"])
def test_a_cursor_works_after_its_entry_is_gone(alice, put, connection, query):
    for n in range(4):
        put("Tea", "tea " * (n // 2))
    everything = ids(read_all(alice, "/knowledge", **query))
    first = alice.get("/knowledge", query_string={**query, "limit": 2}).get_json()
    for id in ids(first["data"]):
        connection.execute("DELETE FROM knowledge WHERE id = %s", (id,))
    rest = read_all(alice, "/knowledge", **query, cursor=first["nextCursor"])
    assert ids(rest) == everything[2:]


@pytest.mark.parametrize(
    "q",
    [
        "",
        " ",
        "the",
        "the of and",
        '"',
        '""',
        '"the"',
        "'",
        "''",
        "tea'",
        "'; DROP TABLE knowledge; --",
        "(",
        ")",
        "(()",
        "tea & coffee | !x",
        "&",
        "|",
        "!",
        "!!",
        ":*",
        "tea:*",
        "tea:ABCD",
        "<->",
        "<2>",
        "-",
        "--",
        "or",
        "or or",
        "-or -",
        "\\",
        "\\'",
        "%",
        "%s %(q)s",
        "_",
        "*",
        "$$",
        "workspace:",
        "😀",
        "日本語",
        "\u202e",
        "\ufffd",
        "\t\n",
        "a" * 500,
        "-a " * 166,
        '"a b" ' * 83,
    ],
    ids=ascii,
)
def test_an_odd_search_is_no_failure_and_shows_nothing_foreign(alice, put, q):
    put("Tea"), put("Tea foreign", q, [q[:120]], "globex")
    answer = alice.get("/knowledge", query_string={"q": q})
    assert answer.status_code == 200
    assert {entry["title"] for entry in answer.get_json()["data"]} <= {"Tea"}


def test_a_search_for_the_mark_of_another_tenant_finds_nothing(alice, cast, put):
    put("Tea"), put("Tea", workspace="globex")
    for q in (cast["globex"], f"workspace:{cast['globex']}", f'"workspace:{cast["globex"]}"'):
        assert titles(alice, q) == []
        assert titles(alice, f"tea or {q}") == ["Tea"]


def test_tags_and_content_cannot_pretend_to_be_of_another_workspace(alice, charlie, cast, put):
    mark = f"workspace:{cast['acme']}"
    put("Tea", f"{mark} '{mark}'", [mark, cast["acme"]], "globex")
    assert titles(alice, "tea") == []
    assert titles(charlie, "tea") == ["Tea"]


@pytest.mark.parametrize("q", ["x" * 501, "a\0b", "\0"], ids=["long", "nul inside", "nul"])
def test_a_search_that_can_be_none_is_refused(alice, q):
    assert invalid_field(alice.get("/knowledge", query_string={"q": q}), "q")


# The checklist of lists


@pytest.mark.parametrize("query", [{}, {"q": "tea"}], ids=["list", "search"])
def test_the_limit_is_50_unless_told_and_never_more_than_200(alice, cast, connection, query):
    connection.execute(
        "INSERT INTO knowledge (workspace_id, title) SELECT %s, 'Tea' FROM generate_series(1, 201)",
        (cast["acme"],),
    )
    for limit, size in ((None, 50), ("1", 1), ("200", 200), ("999", 200)):
        limits = {"limit": limit} if limit else {}
        page = alice.get("/knowledge", query_string={**query, **limits}).get_json()
        assert len(page["data"]) == size
        assert page["nextCursor"]


@pytest.mark.parametrize("limit", INVALID_LIMITS)
def test_a_limit_that_is_no_whole_number_from_1_is_refused(alice, limit):
    answer = alice.get("/knowledge", query_string={"limit": limit})
    assert invalid_field(answer, "limit") == "must be an integer from 1 to 200"


@pytest.mark.parametrize("query", [{}, {"q": "tea"}], ids=["list", "search"])
@pytest.mark.parametrize(
    "cursor", ["", "x", "0", "a" * 32, "0.", "x." + "a" * 32, "1.5." + "a" * 32]
)
def test_a_cursor_that_was_never_given_is_refused(alice, query, cursor):
    answer = alice.get("/knowledge", query_string={**query, "cursor": cursor})
    assert invalid_field(answer, "cursor") == "must be the nextCursor of an earlier response"


@pytest.mark.parametrize(
    ("name", "nearest"), [("Q", "q"), ("limits", "limit"), ("cursors", "cursor")]
)
def test_an_unknown_query_parameter_is_refused_and_the_known_ones_named(alice, name, nearest):
    answer = alice.get("/knowledge", query_string={name: "1"})
    fault = invalid_field(answer, name)
    assert "unknown query parameter" in fault
    assert nearest in fault.replace(",", "").replace("?", "").split()


def test_a_stranger_sees_no_knowledge(stranger, put):
    put("Tea")
    assert "nauthorized" in error_message(stranger.get("/knowledge"), 401)
    assert "nauthorized" in error_message(stranger.get("/knowledge?q=tea"), 401)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_knowledge_can_only_be_read(alice, method):
    error_message(alice.send(method, "/knowledge", json={}), 405)
