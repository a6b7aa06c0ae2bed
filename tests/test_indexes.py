"""Every index serves a statement with all its columns, or the deletion of a referenced row."""

import re

import psycopg
import pytest
from psycopg.rows import dict_row
from support.rows import insert, insert_member
from support.statements import (
    DEFINITIONS,
    NAMES,
    configure,
    copied_database,
    flattened,
    generic_plan,
)

from service.api.filters import filters_of
from service.database.statements import STATEMENTS

HERE = "tests/test_indexes.py"
# Enough rows in each table that the wrong index, or no index, costs more.
ROWS = """
INSERT INTO workspaces (name, slug) SELECT 'Name', 'slug-' || n FROM generate_series(1, 9) AS n;
INSERT INTO users (name, email)
SELECT 'Name', n || '@example.com' FROM generate_series(1, 100) AS n;
INSERT INTO members (workspace_id, user_id)
SELECT workspace.id, person.id FROM workspaces AS workspace, users AS person
    ON CONFLICT DO NOTHING;
INSERT INTO tokens (user_id, kind, scope, hash)
SELECT id, 'api', 'read', sha256(convert_to(id::text || n, 'UTF8'))
  FROM users, generate_series(1, 5) AS n;
INSERT INTO tasks
       (workspace_id, title, created_by, status, priority, project_id, due_date, assignee_id,
        completed_at, completed_by)
SELECT workspace_id, 'Title', user_id, (ARRAY['todo', 'in_progress', 'done'])[1 + n % 3],
       (ARRAY['urgent', 'high', 'medium', 'low'])[1 + n % 4], n, now() + n * interval '1 h',
       user_id,
       CASE WHEN n % 3 = 2 THEN now() + n * interval '1 h' END,
       CASE WHEN n % 3 = 2 THEN user_id END
  FROM members, generate_series(1, 4) AS n;
INSERT INTO tasks (workspace_id, title, created_by, parent_id)
SELECT workspace_id, 'Title', created_by, id FROM tasks WHERE priority = 'low';
INSERT INTO meetings (workspace_id, title, created_by, start_time, end_time)
SELECT workspace_id, 'Title', user_id, now() + n * interval '1 h', now() + n * interval '2 h'
  FROM members, generate_series(1, 4) AS n;
INSERT INTO mail (workspace_id, user_id, sender, received_at, read)
SELECT workspace_id, user_id, 'a@example.com', now() - n * interval '1 h', n > 1
  FROM members, generate_series(1, 20) AS n;
INSERT INTO suggestions (workspace_id, kind, title, task_id, status)
SELECT workspace_id, 'kind', 'Title', id,
       CASE WHEN parent_id IS NULL THEN 'accepted' ELSE 'pending' END
  FROM tasks;
INSERT INTO webhooks (workspace_id, url, key_fingerprint)
SELECT id, 'https://example.com', '' FROM workspaces, generate_series(1, 3);
INSERT INTO events (workspace_id, id, type, body, created_at)
SELECT id, new_id(), 'task.created', '{}', now() - n * interval '1 h'
  FROM workspaces, generate_series(1, 200) AS n;
INSERT INTO deliveries (workspace_id, webhook_id, event_id, state, due_at)
SELECT event.workspace_id, webhook.id, event.id,
       CASE WHEN event.created_at > now() - interval '9 h' THEN 'waiting' ELSE 'delivered' END,
       event.created_at
  FROM events AS event
  JOIN webhooks AS webhook ON webhook.workspace_id = event.workspace_id;
UPDATE feeds SET read_at = now();
INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, created_at)
SELECT workspace_id, user_id, 'key', '', now() - random() * interval '24 h' FROM members;
"""
# By index, unless it is unique: its columns, and statements whose condition has all of them.
SERVED = {
    "deliveries_by_event": ("workspace_id event_id", "worker/prune_events"),
    "deliveries_by_state": ("workspace_id webhook_id state id", "deliveries/list"),
    "deliveries_due": ("workspace_id webhook_id due_at", "webhooks/claim_due"),
    "events_by_age": ("created_at", "worker/prune_events"),
    "events_by_position": ("workspace_id position", "events/list"),
    "feeds_by_reading": ("read_at", "worker/prune_feeds"),
    "idempotency_keys_by_age": ("created_at", "worker/prune_keys"),
    "mail_by_arrival": ("workspace_id user_id received_at id", "mail/list"),
    "mail_unread": ("workspace_id user_id", "dashboard/stats"),
    "meetings_by_start": ("workspace_id start_time id", "meetings/list"),
    "members_by_user": ("user_id workspace_id", "workspaces/get"),
    "suggestions_pending": ("workspace_id id", "suggestions/list"),
    "tasks_by_assignee": (
        "workspace_id assignee_id id",
        "tasks/filter?assignee",
        "tasks/filter?unassigned",
    ),
    "tasks_by_completer": ("workspace_id completed_by", "tasks/filter?completed_by"),
    "tasks_by_completion": ("workspace_id completed_at id", "tasks/latest"),
    "tasks_by_parent": ("workspace_id parent_id id", "tasks/filter?parent_id"),
    "tasks_by_priority": ("workspace_id priority id", "tasks/filter?priority"),
    "tasks_by_project": ("workspace_id project_id id", "tasks/filter?project_id"),
    "tasks_by_due_date": ("workspace_id status due_date", "dashboard/stats"),
    "tasks_by_status": ("workspace_id status id", "tasks/filter?status"),
    "tokens_by_user": ("user_id id", "tokens/revoke_own"),
}
# A search uses the first index only among many entries. Deleting a task or a user uses the next
# two, and the function first_version uses the last one.
SERVED_ELSEWHERE = {
    "knowledge_by_words",
    "suggestions_by_task",
    "former_members_by_user",
    "deleted_versions_by_id",
}


@pytest.fixture(scope="module")
def large(template):
    """Yield the URL of another database, because tables stay large after their rows are gone."""
    with copied_database(template) as url:
        yield url


@pytest.fixture(scope="module")
def conditions(large):
    """Return (statement, index, words of the index condition) from plans for many rows."""
    with psycopg.connect(large, row_factory=dict_row) as connection:
        workspace = insert(connection, "workspaces", name="Acme", slug="acme")
        user = insert(connection, "users", name="Alice", email="alice@example.com")
        insert_member(connection, workspace, user, "owner")
        connection.execute(ROWS)
        connection.execute("ANALYZE")
        configure(connection)
        return [
            (name, node["Index Name"], {*re.findall(r"\w+", node.get("Index Cond", ""))})
            for name, nodes in plans(connection, workspace, user)
            for node in nodes
            if "Index Name" in node
        ]


def plans(connection, workspace, user):
    """Yield the nodes of each statement's plan, and of tasks/filter's plan with each filter."""
    for name in {*NAMES} - DEFINITIONS:
        if not name.startswith("double/"):
            yield name, generic_plan(connection, name)
    caller = {"workspace_id": workspace, "user_id": user, "limit": 20}
    cursor = psycopg.ClientCursor(connection, row_factory=dict_row)
    filters = {"status": ["done"], "priority": ["low"], "project_id": "1", "assignee": "me"}
    filters["completed_by"] = "me"
    for name, value in {**filters, "parent_id": user, "unassigned": "none"}.items():
        values = {**dict.fromkeys(STATEMENTS["tasks/filter"].parameters), **caller}
        values["filters"] = filters_of({"assignee" if name == "unassigned" else name: value})
        explain = b"EXPLAIN (FORMAT json) " + STATEMENTS["tasks/filter"].source
        (tree,) = cursor.execute(explain, values).fetchone()["QUERY PLAN"]
        yield f"tasks/filter?{name}", flattened(tree)


@pytest.mark.slow
def test_each_statement_uses_all_columns_of_the_index_that_serves_it(conditions):
    for index, (columns, *names) in SERVED.items():
        for name in names:
            found = [words for *scan, words in conditions if scan == [name, index]]
            assert any({*columns.split()} <= words for words in found), (index, name, found)


def test_the_table_of_this_test_names_a_statement_for_each_index(connection):
    rows = connection.execute(
        "SELECT indexrelid::regclass::text AS name FROM pg_index"
        " JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE NOT indisunique AND relnamespace = 'public'::regnamespace"
    )
    found = {row["name"] for row in rows}
    assert found == {*SERVED} | SERVED_ELSEWHERE, f"{HERE}: SERVED has other indexes"


# Deleting a plan reads all workspaces. There are few of them, and no command deletes a plan.
UNINDEXED = {("workspaces", "plans")}


def test_an_index_begins_with_each_foreign_key_so_that_a_delete_reads_only_referring_rows(
    connection,
):
    """A partial index is enough if it leaves out only NULL.

    So is a unique index on only the first columns of the foreign key.
    """
    rows = connection.execute(
        """
        SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent
          FROM pg_constraint
         WHERE contype = 'f'
           AND NOT EXISTS (
                   SELECT
                     FROM pg_index,
                          trim_array(indkey::int2[], greatest(0, indnatts - cardinality(conkey)))
                              AS first_columns
                    WHERE indrelid = conrelid
                      AND (indpred IS NULL
                           OR pg_get_expr(indpred, indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$')
                      AND first_columns <@ conkey
                      AND (conkey <@ first_columns OR indisunique)
               )
        """
    )
    assert {(row["child"], row["parent"]) for row in rows} == UNINDEXED
