"""The tables that the worker prunes page by page."""

import pytest
from support.rows import count
from support.statements import run


@pytest.mark.parametrize(("pages", "following"), [(128, [None]), (129, ["128", None])])
def test_the_rows_of_every_page_are_pruned_128_pages_at_a_time(connection, cast, pages, following):
    with connection.transaction(force_rollback=True):
        connection.execute("TRUNCATE usage")
        number = 0
        while True:
            size = connection.execute("SELECT pg_relation_size('usage') / 8192 AS pages")
            if size.fetchone()["pages"] == pages:
                break
            # Fewer rows than fit on a page.
            connection.execute(
                "INSERT INTO usage"
                " SELECT %s, number::text, now(), 1, now() - interval '3 days', 1, true"
                " FROM generate_series(%s::bigint, %s) AS number",
                (cast["acme"], number, number + 29),
            )
            number += 30
        found, after = [], ""
        while after is not None:
            (batch,) = run(connection, "worker/prune_usage", after=after)
            after = batch["next"]
            found.append(after)
        assert found == following
        assert count(connection, "usage") == 0
