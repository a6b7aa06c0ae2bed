"""Pages: each has about 1 MiB of text at most, and together they have every row."""

import pytest
from support.derived import MAX_TEXT_BYTES, bytes_of, large_fields, longest, view_of
from support.http import ids
from support.resources import LISTS

# A control character is six bytes of JSON; short texts and timestamps need some bytes too.
MAX_BODY_BYTES = 6 * MAX_TEXT_BYTES + 100_000


@pytest.mark.slow
@pytest.mark.parametrize(("name", "column"), large_fields())
def test_a_list_of_long_values_has_shorter_pages_that_together_have_every_row(
    alice, connection, insert_into, name, column
):
    paged = LISTS[name]
    value = longest(view_of(paged).operation.response().fields[column])
    for _ in range(MAX_TEXT_BYTES // bytes_of(value) + 2):
        insert_into(paged.table, **{column: value})
    response = paged.get(alice, limit=paged.maximum)
    page = response.get_json()
    files = view_of(paged).files
    hint = f"does text_bytes of {paged.table}, which {files} call, count {column}?"
    assert page["nextCursor"], hint
    assert len(response.data) <= MAX_BODY_BYTES, hint
    assert paged.ids(alice, limit=paged.maximum) == paged.ordered(connection)


# One large field of each list: a text, if the list has one.
FIRST_LARGE = dict(reversed(large_fields()))


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST_LARGE)
def test_a_page_ends_before_the_row_that_would_exceed_its_maximum_size(
    alice, connection, insert_into, name
):
    """Of fifteen rows with the same sort key, six are long, so the order of the sizes matters."""
    paged, column = LISTS[name], FIRST_LARGE[name]
    # A little shorter than the maximum, so that the bytes of an empty list do not add up to a row.
    value = longest(view_of(paged).operation.response().fields[column])
    value = value[: len(value) * 15 // 16]
    for n in range(150):
        insert_into(paged.table, **paged.columns(n))
    late = [id for position, id in enumerate(paged.ordered(connection)) if position % 15 < 6]
    sql = f"UPDATE {paged.table} SET {column} = %s WHERE id = ANY (%s::uuid[])"
    connection.execute(sql, (value, late))
    order = paged.ordered(connection)
    size = bytes_of(value) + (4 * len(value) if isinstance(value, list) else 0)
    long = [position for position, id in enumerate(order) if id in late]
    page = ids(paged.get(alice, limit=paged.maximum).get_json()["data"])
    assert page == order[: long[MAX_TEXT_BYTES // size]]


def test_rows_of_exactly_the_maximum_size_are_one_page_and_one_more_byte_makes_two(
    alice, connection, insert_into
):
    sizes = [{}] + [{"description": "é" * 32_768}] * (MAX_TEXT_BYTES // 65_536)
    rows = [insert_into("tasks", metadata=None, **row) for row in sizes][::-1]
    page = alice.get("/tasks").get_json()
    assert (ids(page["data"]), page["nextCursor"]) == (rows, None)
    for query, size in (("?limit=15", 15), ("", 16)):
        connection.execute("UPDATE tasks SET description = 'x' WHERE id = %s", (rows[-1],))
        page = alice.get(f"/tasks{query}").get_json()
        assert ids(page["data"]) == rows[:size]
        assert page["nextCursor"] == rows[size - 1].replace("-", "")
