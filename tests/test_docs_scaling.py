"""docs/move-workspace.sql moves every table and every column of a workspace."""

import re

import pytest
from pages import PROJECT

PAGE = "docs/move-workspace.sql"
# Triggers of the new cell make these rows.
MADE_ANEW = {"task_counts"}
# Each cell has its own plans, and tokens whose text names it.
OF_THE_CELL = {"plans", "tokens", "schema_migrations"}
# Temporary tables with rows that the new cell may have.
MERGED = {"moved": "users", "gone": "deleted_users"}


def test_a_workspace_is_moved_with_the_rows_of_all_its_tables(connection):
    text = PROJECT.joinpath(PAGE).read_text(encoding="utf-8")
    copied = re.findall(r"COPY (\w+)[^;]*? FROM stdin;'", text)
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    tables = {row["tablename"] for row in rows.fetchall()} - MADE_ANEW - OF_THE_CELL
    moved = {MERGED.get(table, table) for table in copied}
    assert not tables - moved, f"{PAGE} does not copy {sorted(tables - moved)}"
    assert moved == tables
    for temporary, table in MERGED.items():
        assert f"TABLE {temporary} (LIKE {table})" in text
        assert re.search(rf"INSERT INTO {table}\b[^;]*FROM {temporary} ON CONFLICT", text)


@pytest.mark.parametrize("table", ["knowledge", "users"])
def test_a_table_of_which_columns_are_listed_is_moved_with_all_of_them(connection, table):
    """Generated columns are made anew; the active workspace is set once its members are there."""
    columns = connection.execute(
        "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) AS names"
        " FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'"
        " AND column_name <> 'active_workspace_id'",
        (table,),
    ).fetchone()["names"]
    text = " ".join(PROJECT.joinpath(PAGE).read_text(encoding="utf-8").split())
    expected = {
        "knowledge": [f"COPY knowledge ({columns}) FROM", f"SELECT {columns} FROM knowledge"],
        "users": [f"INSERT INTO users ({columns})", f"SELECT {columns} FROM moved"],
    }[table]
    assert [part for part in expected if part not in text] == [], f"edit {PAGE}"
