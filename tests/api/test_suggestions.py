"""Suggestions: the list has pending suggestions only."""

import pytest
from support.http import ids, read_all

PATH = "/ai/suggestions"


@pytest.mark.parametrize("status", ["accepted", "dismissed"])
def test_an_accepted_or_dismissed_suggestion_leaves_the_list_and_cursors_still_work(
    alice, connection, insert_into, status
):
    made = [insert_into("suggestions") for _ in range(4)]
    cursor = alice.get(f"{PATH}?limit=2").get_json()["nextCursor"]
    connection.execute(
        "UPDATE suggestions SET status = %s WHERE id = ANY (%s::uuid[])", (status, made[2:])
    )
    assert ids(read_all(alice, PATH)) == ids(read_all(alice, PATH, cursor=cursor)) == made[1::-1]


def test_a_suggestion_stays_after_its_task_is_deleted(alice, insert_into):
    task = alice.post("/tasks", {"title": "Plain"}).get_json()
    id = insert_into("suggestions", task_id=task["id"])
    assert alice.delete(f"/tasks/{task['id']}").status_code == 204
    (left,) = read_all(alice, PATH)
    assert (left["id"], left["taskId"]) == (id, None)
