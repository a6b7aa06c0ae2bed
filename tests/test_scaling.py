"""docs/scaling.md against the catalog and the plans: what a sharded Postgres needs of the schema.

The tables of that page are the lists, and Postgres decides whether they are complete: a new table,
key, trigger or statement that is on no list fails.
"""

import re
from pathlib import Path

import pytest
from client import preparable
from test_sql import DEFINITIONS, NAMES

from service import db

TEXT = Path(__file__).parent.parent.joinpath("docs/scaling.md").read_text(encoding="utf-8")


def listed(heading):
    """The rows of the table below a heading: the name in the first cell to the other cells."""
    section = TEXT.split(f" {heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows
    assert all(all(cells) for cells in rows)
    return {cells[0].strip("`"): cells[1:] for cells in rows}


def of_kind(kind):
    tables = listed("Which table goes where").items()
    return {table for table, (table_kind, _) in tables if table_kind == kind}


TENANT, REFERENCE, LOCAL = of_kind("distributed"), of_kind("reference"), of_kind("local")


def rows(connection, sql):
    return [tuple(row.values()) for row in connection.execute(sql)]


@pytest.mark.nodatabase
def test_every_statement_and_file_that_the_page_names_exists():
    names = set(re.findall(r"`([a-z_]+/[a-z_]+)`", TEXT))
    assert len(names) >= 20
    assert names - set(NAMES) == set()
    files = set(re.findall(r"`((?:sql|service|tests)/[a-z_/]+\.[a-z]+)`", TEXT))
    assert files
    assert [file for file in files if not (db.SQL.parent / file).exists()] == []


def test_every_table_has_its_place(connection):
    tables = rows(
        connection,
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p', 'm', 'f')",
    )
    assert {table for (table,) in tables} == set(listed("Which table goes where"))
    assert set(listed("Which table goes where")) == TENANT | REFERENCE | LOCAL


@pytest.mark.nodatabase
def test_the_statements_of_the_page_place_each_table_once():
    placed = re.findall(r"create_(distributed|reference)_table\('(\w+)'", TEXT)
    assert len(placed) == len(TENANT | REFERENCE)
    assert {table for how, table in placed if how == "distributed"} == TENANT
    assert {table for how, table in placed if how == "reference"} == REFERENCE
    for table in TENANT:
        assert f"create_distributed_table('{table}', 'workspace_id', colocate_with =>" in TEXT


def test_the_statements_of_the_page_run_on_the_schema(connection):
    (statements,) = [
        block for block in re.findall(r"(?s)```sql\n(.*?)```", TEXT) if "citus" in block
    ]
    # Of Citus there is only what lets its names be called.
    stand_ins = """
        CREATE FUNCTION create_reference_table(regclass) RETURNS void LANGUAGE sql AS '';
        CREATE FUNCTION create_distributed_table(regclass, text, colocate_with text) RETURNS void
        LANGUAGE sql AS '';
    """
    with connection.transaction(force_rollback=True):
        connection.execute(stand_ins)
        connection.execute(statements)
        left = {
            (source, name)
            for source, _, name, _, _, on_delete, _ in rows(connection, FOREIGN_KEYS)
            if source in TENANT and on_delete in "nd"
        }
        assert left == set()


def test_every_unique_key_of_a_tenant_begins_with_its_workspace(connection):
    keys = rows(
        connection,
        "SELECT indrelid::regclass::text, indexrelid::regclass::text,"
        " pg_get_indexdef(indexrelid, 1, true), indisprimary FROM pg_index WHERE indisunique",
    )
    assert {table for table, _, _, primary in keys if primary} >= TENANT
    for table, index, first, _ in keys:
        assert table not in TENANT or first == "workspace_id", index


def test_the_first_column_of_a_tenant_is_its_workspace(connection):
    first = dict(
        rows(
            connection,
            "SELECT attrelid::regclass::text, attname FROM pg_attribute WHERE attnum = 1",
        )
    )
    assert {first[table] for table in TENANT} == {"workspace_id"}


FOREIGN_KEYS = """
    SELECT conrelid::regclass::text AS source, confrelid::regclass::text AS target, conname,
           referring.attname AS first, referred.attname AS referred,
           confdeltype::text AS on_delete, confupdtype::text AS on_update
      FROM pg_constraint
      JOIN pg_attribute AS referring
        ON (referring.attrelid, referring.attnum) = (conrelid, conkey[1])
      JOIN pg_attribute AS referred
        ON (referred.attrelid, referred.attnum) = (confrelid, confkey[1])
     WHERE contype = 'f'
"""


def test_every_foreign_key_of_a_tenant_stays_in_its_workspace(connection):
    keys = [key for key in rows(connection, FOREIGN_KEYS) if key[0] in TENANT]
    # Triggers alone write the counts, and a key may belong to a caller without a workspace.
    assert {source for source, *_ in keys} == TENANT - {"task_counts", "idempotency_keys"}
    for _, target, name, first, referred, _, on_update in keys:
        assert first == "workspace_id", name
        assert (target, referred) == ("workspaces", "id") or referred == "workspace_id", name
        assert target in TENANT | REFERENCE, name
        assert on_update == "a", name


def test_no_foreign_key_leads_to_a_tenant_from_elsewhere_nor_to_a_local_table(connection):
    for source, target, name, *_ in rows(connection, FOREIGN_KEYS):
        assert target in REFERENCE or (source in TENANT and target in TENANT), name


def test_the_page_lists_what_citus_rejects_of_the_schema(connection):
    nulling = {
        f"{source}: {name}"
        for source, _, name, _, _, on_delete, _ in rows(connection, FOREIGN_KEYS)
        if source in TENANT and on_delete in "nd"
    }
    triggers = rows(
        connection,
        "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal",
    )
    assert set(listed("What of the schema has to change")) == nulling | {
        f"{table}: {name}" for table, name in triggers
    }


def plan_of(connection, name):
    """The generic plan of ``sql/<name>.sql``: parameters stay parameters, columns have aliases."""
    text, nulls = preparable(name)
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE it AS {text}")
        (explained,) = rows(connection, f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE it{nulls}")
        connection.execute("DEALLOCATE it")
    return list(nodes(explained[0][0]["Plan"]))


def nodes(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes(child)


GIVEN = r"(?:\$\d+|COALESCE\((?:\$\d+|'[0-9a-f-]+'::uuid)(?:, (?:\$\d+|'[0-9a-f-]+'::uuid))*\))"
COLUMN = r"\b\w+\.(?:workspace_id|id)\b"
EQUAL = re.compile(rf"\(({COLUMN}|{GIVEN}) = ({COLUMN}|{GIVEN})\)")


def conjuncts(condition):
    """The parts of a condition that must all hold; a part within an OR need not."""
    inner = condition[1:-1] if condition.startswith("((") else condition
    parts, depth = [""], 0
    for piece in re.split(r"([()]| AND )", inner):
        depth += (piece == "(") - (piece == ")")
        if piece == " AND " and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def scattered(plan):
    """The aliases of tenant tables whose workspace a plan is not given.

    A workspace is given by an equation with a parameter, or by equations that lead to one.
    """
    equal = [
        set(pair.groups())
        for node in plan
        for key, condition in node.items()
        if key.endswith(("Cond", "Filter"))
        for part in conjuncts(condition)
        if (pair := EQUAL.fullmatch(part))
    ]
    given = {side for pair in equal for side in pair if re.fullmatch(GIVEN, side)}
    while reached := [pair for pair in equal if len(pair & given) == 1]:
        given = given.union(*reached)
    loose = set()
    for node in plan:
        if node.get("Relation Name") not in TENANT:
            continue
        if node.get("Operation") == "Insert":
            # The values of all columns in their order: the workspace is the first.
            value = node["Plans"][0]["Output"][0]
            if not re.fullmatch(GIVEN, value):
                loose.add(node["Alias"])
        elif node["Node Type"] != "ModifyTable" and f"{node['Alias']}.workspace_id" not in given:
            loose.add(node["Alias"])
    return loose


def test_only_the_listed_statements_cross_shards(connection):
    crossing = {
        name for name in NAMES if name not in DEFINITIONS and scattered(plan_of(connection, name))
    }
    assert crossing == set(listed("What crosses shards"))


def test_a_statement_without_its_workspace_is_detected(connection, monkeypatch):
    text = db.statement("tasks/get")
    condition = b"task.workspace_id = %(workspace_id)s::uuid\n   AND "
    assert not scattered(plan_of(connection, "tasks/get"))
    monkeypatch.setattr(db, "statement", lambda _: text.replace(condition, b""))
    assert scattered(plan_of(connection, "tasks/get")) == {"task"}


def test_what_crosses_shards_in_a_request_is_bound_to_the_caller_s_workspaces(connection):
    for name, (when, *_) in listed("What crosses shards").items():
        if when == "request":
            conditions = [str(node) for node in plan_of(connection, name)]
            assert any(
                ".workspace_id = member.workspace_id)" in text for text in conditions
            ) or any("(member.workspace_id = " in text for text in conditions), name
            assert any("member.user_id = $" in text for text in conditions), name


def test_functions_name_the_workspace_of_every_tenant_row(connection):
    bodies = rows(
        connection,
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    )
    touching = set()
    for name, body in bodies:
        for table, alias in re.findall(r"(?:FROM|JOIN|UPDATE)\s+(\w+)(?: AS (\w+))?", body):
            if table in TENANT:
                touching.add(name)
                column = f"{alias}.workspace_id" if alias else "workspace_id"
                assert f" {column} = " in body, name
        for table, first in re.findall(r"INSERT INTO (\w+)(?: AS \w+)? \((\w+)", body):
            if table in TENANT:
                touching.add(name)
                assert first == "workspace_id", name
    assert {"announce", "check_parent", "count_tasks", "catch_up"} <= touching
