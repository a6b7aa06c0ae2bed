"""Tasks: the checklist of every endpoint, then what is special about tasks."""


def test_alice_creates_a_task_and_reads_it_back(alice, cast, connection):
    created = alice.post(
        "/tasks", {"title": "  Write the report ", "dueDate": "2027-03-01T09:00:00+01:00"}
    )
    assert created.status_code == 201
    task = created.get_json()
    assert created.headers["Location"] == f"/api/tasks/{task['id']}"
    assert task["title"] == "Write the report"
    assert task["dueDate"] == "2027-03-01T08:00:00.000Z"
    assert task["workspaceId"] == cast["acme"]
    assert task["createdBy"] == cast["alice"]
    assert alice.get(f"/tasks/{task['id']}").get_json() == task
    assert connection.execute("SELECT count(*) FROM tasks").fetchone()["count"] == 1
