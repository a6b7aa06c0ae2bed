"""The cost of lists: reading a page reads about one page of rows, however many rows there are."""

import psycopg
import pytest
from psycopg import sql
from support.statements import configure, flattened, numbered

from service.api.filters import filters_of

MEMBER = "00000000-0000-7000-8000-00000000000a"
WORKSPACE = "00000000-0000-7000-8000-00000000000b"
OTHER = "00000000-0000-7000-8000-00000000000c"


MANY = """
INSERT INTO workspaces (id, name, slug)
VALUES ({workspace}, 'Big', 'big'), ({other}, 'Other', 'other');
INSERT INTO users (id, email, name)
VALUES ({member}, 'm@example.com', 'M'), ({other}, 'o@example.com', 'O');
INSERT INTO members (workspace_id, user_id)
VALUES ({workspace}, {member}), ({workspace}, {other}), ({other}, {member});
INSERT INTO tasks (workspace_id, id, title, assignee_id, project_id, created_by)
SELECT CASE WHEN n % 10 = 0 THEN {other} ELSE {workspace} END::uuid,
       new_id(now() - n * interval '1 second'),
       'Task',
       CASE WHEN n % 250 = 1 THEN {member}::uuid END,
       CASE WHEN n % 250 = 2 THEN 'p' END,
       {member}
  FROM generate_series(1, 12500) AS n;
INSERT INTO meetings (workspace_id, title, start_time, end_time, created_by)
SELECT CASE WHEN n % 10 = 0 THEN {other} ELSE {workspace} END::uuid,
       'Meeting', at, at + interval '1 hour', {member}
  FROM generate_series(1, 6000) AS n
 CROSS JOIN LATERAL (
       SELECT date_trunc('minute', now()) + (n - 3000) * interval '1 hour' AS at
       ) AS start;
INSERT INTO mail (workspace_id, user_id, sender, received_at)
SELECT {workspace}, CASE WHEN n % 10 = 0 THEN {other} ELSE {member} END::uuid, 'a@example.com',
       date_trunc('minute', now()) - n * interval '1 minute'
  FROM generate_series(1, 6000) AS n;
INSERT INTO knowledge (workspace_id, id, title)
SELECT {workspace}, new_id(now() - n * interval '1 second'), 'Entry'
  FROM generate_series(1, 3000) AS n;
INSERT INTO suggestions (workspace_id, id, kind, title, status)
SELECT {workspace}, new_id(now() - n * interval '1 second'), 'task', 'Do it',
       CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'accepted' END
  FROM generate_series(1, 6000) AS n;
ANALYZE tasks, meetings, mail, knowledge, suggestions, members
"""


@pytest.fixture(scope="module")
def many(database_url):
    """Yield a connection in a transaction in which every table is large.

    The transaction is rolled back, so no other test sees its rows. Most rows are in one workspace,
    so a statement that forgets to filter by workspace reads too many of them.
    """
    names = {"member": MEMBER, "workspace": WORKSPACE, "other": OTHER}
    literals = {name: sql.Literal(value) for name, value in names.items()}
    with psycopg.connect(database_url) as connection, connection.transaction(force_rollback=True):
        for statement in MANY.split(";\n"):
            connection.execute(sql.SQL(statement).format(**literals))
        yield connection


def plan(connection, name, mode, **values):
    """Prepare and run ``sql/<name>.sql`` with these values; return the nodes of its plan."""
    text, names = numbered(name)
    literals = sql.SQL(", ").join(sql.Literal(values.get(each)) for each in names)
    configure(connection)
    connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
    connection.execute(f"PREPARE counted AS {text}")
    explain = "EXPLAIN (ANALYZE, TIMING off, FORMAT json) EXECUTE counted ({})"
    (tree,) = connection.execute(sql.SQL(explain).format(literals)).fetchone()[0]
    connection.execute("DEALLOCATE counted")
    return flattened(tree)


# Where a page begins, as a share of the list: at the top, in the middle, near the end.
DEPTHS = 0.0, 0.5, 0.98
PENDING = "workspace_id = {workspace} AND status = 'pending'"
LISTS = {
    "tasks/list": ("tasks", "workspace_id = {workspace}", "id DESC"),
    "knowledge/list": ("knowledge", "workspace_id = {workspace}", "id DESC"),
    "suggestions/list": ("suggestions", PENDING, "id DESC"),
    "mail/list": ("mail", "user_id = {member}", "received_at DESC, id DESC"),
    "meetings/list": ("meetings", "true", "start_time DESC, id DESC"),
    "meetings/upcoming": ("meetings", "start_time > now()", "start_time, id"),
}
KEYS = {"mail": "to_millis(received_at)", "meetings": "to_millis(start_time)"}


def cursor_at(connection, table, where, order, depth):
    """Return the sort key and the id of the row before a page at this depth."""
    if depth == 0:
        return {"after": None, "after_id": None}
    where = where.format(workspace=f"'{WORKSPACE}'", member=f"'{MEMBER}'")
    rows = f"FROM {table} WHERE {where}"
    key = KEYS.get(table, "NULL")
    after, after_id = connection.execute(
        f"SELECT {key}, id {rows} ORDER BY {order}"
        f" OFFSET (SELECT (count(*) * {depth})::integer {rows}) LIMIT 1"
    ).fetchone()
    return {"after": after, "after_id": str(after_id)}


def cheap(nodes, table, limit):
    """Require that the plan reads the table by an index, reads few rows and sorts few rows."""
    page = limit + 1
    scans = [node for node in nodes if node.get("Relation Name") == table]
    assert scans
    for node in scans:
        assert "Index" in node["Node Type"] or "Bitmap" in node["Node Type"]
        rows = "Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"
        assert sum(node.get(name, 0) for name in rows) <= 2 * page
    for node in nodes:
        if "Sort" in node["Node Type"]:
            # One page of each of the caller's two workspaces.
            assert node["Plans"][0]["Actual Rows"] * node["Plans"][0]["Actual Loops"] <= 2 * page
    return True


GENERIC, CUSTOM = "force_generic_plan", "force_custom_plan"
FILTERS = [
    {"assignee": MEMBER},
    {"project_id": "p"},
    {"status": ["todo"]},
    {"priority": ["medium"]},
    {"assignee": MEMBER, "status": ["todo"], "priority": ["medium"]},
]
PAGES = [
    *((name, {}, mode) for name in LISTS for mode in (CUSTOM, GENERIC)),
    *(("tasks/filter", {"filters": filters_of(filters)}, CUSTOM) for filters in FILTERS),
    *(
        (name, {"only_workspace_id": workspace}, GENERIC)
        for name in ("meetings/list", "meetings/upcoming")
        for workspace in (WORKSPACE, OTHER)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("name", "filters", "mode"), PAGES)
def test_a_page_of_a_list_reads_about_one_page_of_rows_at_any_depth(
    many, name, filters, mode, depth
):
    listed = LISTS.get(name, LISTS["tasks/list"])
    values = {"user_id": MEMBER, "workspace_id": WORKSPACE, "limit": 50, **filters}
    nodes = plan(many, name, mode, **values, **cursor_at(many, *listed, depth))
    assert nodes[0]["Actual Rows"] <= 51
    assert cheap(nodes, listed[0], 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tasks/get", "meetings/get"])
def test_getting_one_object_uses_an_index(many, name):
    table = name.split("/")[0]
    (id,) = many.execute(
        f"SELECT id FROM {table} WHERE workspace_id = '{WORKSPACE}' LIMIT 1"
    ).fetchone()
    for mode in (CUSTOM, GENERIC):
        nodes = plan(many, name, mode, user_id=MEMBER, workspace_id=WORKSPACE, id=str(id))
        assert cheap(nodes, table, 1)
