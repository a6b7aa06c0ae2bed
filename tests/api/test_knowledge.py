"""Knowledge: what a search finds, and in which order."""

import pytest
from support.http import ids, read_all


@pytest.fixture
def put(insert_into):
    def put(title, content="", tags=(), workspace="acme", **values):
        return insert_into(
            "knowledge", workspace, title=title, content=content, tags=list(tags), **values
        )

    return put


def titles(client, q, **query):
    return [entry["title"] for entry in read_all(client, "/knowledge", q=q, **query)]


def test_a_match_in_the_title_ranks_above_tags_and_tags_above_content(alice, put):
    put("In the content", "All about a kettle")
    put("Kettle in the title")
    put("In the tags", tags=["kettle"])
    put("Nowhere", "All about a pot")
    assert titles(alice, "kettle") == ["Kettle in the title", "In the tags", "In the content"]


def test_an_entry_with_more_occurrences_ranks_higher_even_if_it_is_older(alice, put):
    made = [put("Drink", "tea " * times) for times in (6, 5, 4, 3, 2, 1)]
    assert ids(read_all(alice, "/knowledge", q="tea", limit=2)) == made


@pytest.mark.parametrize(
    ("q", "matches"),
    [
        ("brew", "ab"), ("BREWING", "ab"), ("brewed tea", "a"), ("tea brew", "a"),
        ("tea or coffee", "ab"), ("brew -coffee", "a"), ("the tea", "a"), ("hot", "a"),
        ('"strong coffee"', "b"), ('"coffee strong"', ""), ("zürich", "c"), ("ZÜRICH", "c"),
        ("absent", ""), ("tea absent", ""), ("te", ""),
    ],
)  # fmt: skip
def test_a_search_matches_every_grammatical_form_and_any_case_of_a_word(alice, put, q, matches):
    made = {
        put("a: brewing tea", "Wait for it", ["hot"]): "a",
        put("b: how coffee is brewed", "A strong coffee takes long"): "b",
        put("c: the office in Zürich"): "c",
    }
    assert {made[id] for id in ids(read_all(alice, "/knowledge", q=q))} == set(matches)


def test_the_pages_of_a_search_that_only_excludes_words_have_every_match(alice, put):
    """No matched word raises a rank, so all entries have the lowest rank."""
    for title in ("Coffee", "Milk", "Tea", "Water"):
        put(title)
    found = read_all(alice, "/knowledge", q="-tea", limit=1)
    assert [entry["title"] for entry in found] == ["Water", "Milk", "Coffee"]


@pytest.fixture
def put_many(connection, cast):
    """Return a function that inserts entries with the word tea; the oldest have it most often."""

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


@pytest.mark.slow
def test_of_5000_matches_the_best_come_first_even_if_they_are_the_oldest(alice, put_many):
    put_many(5000)
    matches = read_all(alice, "/knowledge", q="tea", limit=200)
    times = [entry["content"].count("tea") for entry in matches]
    assert times == sorted(times, reverse=True)
    assert len(set(ids(matches))) == 5000


@pytest.mark.slow
@pytest.mark.parametrize("q", ["tea", "-coffee", "tea -coffee", '"tea tea" or drink'])
def test_of_more_than_5000_matches_the_newest_come_first(alice, put_many, q):
    put_many(5001)
    matches = ids(read_all(alice, "/knowledge", q=q, limit=200))
    assert matches == sorted(set(matches), reverse=True)
    assert len(matches) == 5001


@pytest.mark.slow
@pytest.mark.parametrize("count", [5000, 5001])
def test_pages_keep_their_order_while_the_number_of_matches_crosses_5000(
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


SYNTAX = [
    "", " ", "the", "the of and", '"', '""', '"the"', "'", "''", "tea'", "(", ")", "(()",
    "'; DROP TABLE knowledge; --", "tea & coffee | !x", "&", "|", "!", "!!", ":*", "tea:*",
    "tea:ABCD", "<->", "<2>", "-", "--", "or", "or or", "-or -", "\\", "\\'", "%", "%s %(q)s",
    "_", "*", "$$", "workspace:", "😀", "日本語", "\u202e", "\ufffd", "\t\n", "a" * 500,
    "-a " * 166, '"a b" ' * 83, "-" * 33, "- " * 250, "-!" * 240, "-\t-\n" * 120,
]  # fmt: skip


def test_a_search_for_operators_of_tsquery_finds_no_entry_of_another_workspace(alice, put):
    put("Tea")
    for q in SYNTAX:
        put("Tea foreign", q, [q[:120]], "globex")
        answer = alice.get("/knowledge", query_string={"q": q})
        assert answer.status_code == 200, q
        assert {entry["title"] for entry in answer.get_json()["data"]} <= {"Tea"}, q


def test_three_minus_signs_before_a_word_do_not_exclude_the_word(alice, put):
    put("Tea and milk"), put("Tea")
    assert titles(alice, "tea - --milk") == ["Tea and milk"]
    assert titles(alice, "tea -milk") == ["Tea"]


def test_a_search_for_the_marker_of_another_workspace_matches_nothing(alice, cast, put):
    put("Tea"), put("Tea", workspace="globex")
    for q in (cast["globex"], f"workspace:{cast['globex']}", f'"workspace:{cast["globex"]}"'):
        assert titles(alice, q) == []
        assert titles(alice, f"tea or {q}") == ["Tea"]


def test_tags_and_content_cannot_forge_the_marker_of_another_workspace(alice, charlie, cast, put):
    mark = f"workspace:{cast['acme']}"
    put("Tea", f"{mark} '{mark}'", [mark, cast["acme"]], "globex")
    assert titles(alice, "tea") == []
    assert titles(charlie, "tea") == ["Tea"]
