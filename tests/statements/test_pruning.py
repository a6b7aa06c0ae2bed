"""The tables that the worker prunes page by page."""

import pytest
from client import count
from statement import run


@pytest.mark.parametrize(("pages", "following"), [(128, [None]), (129, ["128", None])])
@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("usage", "(%s, number::text, now(), 1, now() - interval '3 days', 1, true)"),
        ("task_counts", "(%s, number::integer, 'todo', 'low', 0)"),
    ],
)
def test_the_rows_of_every_page_are_pruned_128_pages_at_a_time(
    connection, cast, table, row, pages, following
):
    name = {"usage": "worker/prune_usage", "task_counts": "worker/prune_counts"}[table]
    with connection.transaction(force_rollback=True):
        connection.execute(f"TRUNCATE {table}")
        number = 0
        while True:
            size = connection.execute("SELECT pg_relation_size(%s) / 8192 AS pages", (table,))
            if size.fetchone()["pages"] == pages:
                break
            # Fewer than a page has.
            connection.execute(
                f"INSERT INTO {table} SELECT ({row}::{table}).*"
                " FROM generate_series(%s::bigint, %s) AS number",
                (cast["acme"], number, number + 29),
            )
            number += 30
        found, after = [], ""
        while after is not None:
            (batch,) = run(connection, name, after=after)
            after = batch["next"]
            found.append(after)
        assert found == following
        assert count(connection, table) == 0
