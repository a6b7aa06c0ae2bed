"""Prepared statements that a migration has invalidated, or that the server or a pooler has lost."""

import pytest
from support.database import alice_at, open_pool, traced, unavailable
from support.rows import count

TASK = {"title": "Write the report"}


def prepared(connection):
    """Return the names of the statements that the server has prepared on a connection."""
    found = connection.pgconn.exec_(b"SELECT name FROM pg_prepared_statements")
    return {found.get_value(row, 0) for row in range(found.ntuples)}


@pytest.fixture
def changed(connection):
    """Yield a function that changes the type of a column; restore the type after the test."""
    old = []

    def change(table, column, old_type, new_type):
        connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE {new_type}")
        old.append((table, column, old_type))

    yield change
    for table, column, old_type in old:
        connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE {old_type}")


def test_all_requests_succeed_after_a_migration_changes_the_type_of_a_result(build, changed):
    app = build(web_threads=1)
    alice = alice_at(app)
    assert alice.get("/tasks").status_code == 200
    changed("tokens", "scope", "text", "varchar")
    assert [alice.get("/tasks").status_code for _ in range(2)] == [200] * 2
    # The statements are prepared again, so a request needs no more of them than before.
    assert traced(app, "GET", "/tasks") == {"statements": 2, "round trips": 2}


def test_in_a_transaction_a_changed_type_causes_one_503_that_writes_nothing(
    build, changed, connection
):
    alice = alice_at(build(web_threads=1))
    assert alice.post("/tasks", TASK, headers={"Idempotency-Key": "1"}).status_code == 201
    changed("idempotency_keys", "status", "integer", "bigint")
    assert unavailable(alice.post("/tasks", TASK, headers={"Idempotency-Key": "2"}))
    assert count(connection, "tasks") == 1
    assert alice.post("/tasks", TASK, headers={"Idempotency-Key": "2"}).status_code == 201
    assert count(connection, "tasks") == 2


def test_all_requests_succeed_after_the_server_has_forgotten_the_prepared_statements(build):
    app = build(web_threads=1)
    alice = alice_at(app)
    assert alice.get("/tasks").status_code == 200
    with app.extensions["pool"].connection() as connection:
        connection.execute("DEALLOCATE ALL")
    assert [alice.get("/tasks").status_code for _ in range(2)] == [200] * 2


def test_the_log_names_the_remedy_when_a_pooler_mixes_up_prepared_statements(build, logged):
    """Another client of the pooler has prepared other statements under the same names."""
    app, other = build(web_threads=1), build(web_threads=1)
    assert alice_at(other).get("/tasks").status_code == 200
    with open_pool(app).connection() as connection, open_pool(other).connection() as served:
        for name in prepared(served) - prepared(connection):
            connection.pgconn.prepare(name, b"SELECT 1")
    assert unavailable(alice_at(app).get("/tasks"))
    (record,) = logged()
    assert "already exists: set DATABASE_PREPARE=off: a connection pooler" in record.getMessage()


@pytest.fixture
def failing_once(connection):
    """Yield a function that lets ``task_json`` fail once, as while a migration replaces it."""
    (row,) = connection.execute(
        "SELECT pg_get_functiondef('task_json'::regproc) AS text"
    ).fetchall()
    connection.execute(row["text"].replace("task_json(", "old_task_json(", 1))
    connection.execute("CREATE SEQUENCE calls; GRANT USAGE ON SEQUENCE calls TO PUBLIC")

    def fail(sqlstate):
        # A rollback does not reset a sequence.
        connection.execute(
            "ALTER SEQUENCE calls RESTART;"
            "CREATE OR REPLACE FUNCTION task_json(task tasks) RETURNS json LANGUAGE plpgsql AS $$"
            f" BEGIN IF nextval('calls') = 1 THEN RAISE SQLSTATE '{sqlstate}'; END IF;"
            " RETURN old_task_json(task); END $$"
        )

    yield fail
    connection.execute(row["text"])
    connection.execute("DROP SEQUENCE calls; DROP FUNCTION old_task_json")


@pytest.mark.parametrize("sqlstate", ["42846", "42P13"])
@pytest.mark.parametrize(
    "path",
    ["/tasks", "/tasks?status=todo", "/tasks?sort=dueDate", "/tasks?sort=completedAt"],
)
def test_a_request_that_meets_the_old_text_of_a_replaced_function_runs_its_statement_again(
    build, failing_once, path, sqlstate
):
    alice = alice_at(build(web_threads=1))
    assert alice.post("/tasks", TASK).status_code == 201
    failing_once(sqlstate)
    assert alice.get(path).status_code == 200


@pytest.mark.parametrize("sqlstate", ["42846", "42P13"])
def test_in_a_transaction_the_old_text_of_a_replaced_function_causes_one_503_that_writes_nothing(
    build, failing_once, connection, sqlstate
):
    alice = alice_at(build(web_threads=1))
    failing_once(sqlstate)
    headers = {"Idempotency-Key": "1"}
    assert unavailable(alice.post("/tasks", TASK, headers=headers))
    assert count(connection, "tasks") == 0
    assert alice.post("/tasks", TASK, headers=headers).status_code == 201


@pytest.mark.parametrize("sqlstate", ["42846", "42P13"])
def test_without_prepared_statements_the_old_text_of_a_replaced_function_causes_one_503(
    build, failing_once, sqlstate
):
    alice = alice_at(build(web_threads=1, database_prepare=False))
    assert alice.post("/tasks", TASK).status_code == 201
    failing_once(sqlstate)
    assert unavailable(alice.get("/tasks"))
    assert alice.get("/tasks").status_code == 200


@pytest.mark.parametrize("query", ["status=todo", "q=x", "sort=dueDate", "sort=completedAt"])
def test_a_list_with_filters_is_planned_for_its_values_and_not_prepared(build, query):
    app = build(web_threads=1)
    alice = alice_at(app)
    assert alice.get(f"/tasks?{query}").status_code == 200
    with app.extensions["pool"].connection() as connection:
        found = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    texts = [text for (text,) in found]
    assert [text for text in texts if "authenticate_and_count" in text]
    assert not [text for text in texts if text.startswith("/* tasks/")]
