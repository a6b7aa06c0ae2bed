"""Six operations through the client that openapi-python-client generates.

mypy checks this file and the generated package, which has every operation; test_clients.py runs it.
"""

import os
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar

from task_meeting_and_workspace_service_client import AuthenticatedClient
from task_meeting_and_workspace_service_client.api.events import list_events
from task_meeting_and_workspace_service_client.api.me import get_me
from task_meeting_and_workspace_service_client.api.tasks import (
    create_task,
    delete_task,
    get_task,
    list_tasks,
    update_task,
)
from task_meeting_and_workspace_service_client.models import (
    ErrorResponse,
    ErrorResponseCurrent,
    EventPage,
    ListTasksMetadata,
    Me,
    OtherEvent,
    Role,
    Task,
    TaskChanges,
    TaskInput,
    TaskInputMetadataType0,
    TaskPage,
    TaskPriority,
    TaskStatus,
    TaskUpdatedEvent,
)
from task_meeting_and_workspace_service_client.types import Response

NOON = datetime(2036, 5, 5, 12, tzinfo=UTC)

T = TypeVar("T")


def client(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(os.environ["URL"], token, raise_on_unexpected_status=True)


def parsed(kind: type[T], response: Response[Any], status: int = 200) -> T:
    assert response.status_code == status, response
    assert isinstance(response.parsed, kind), response
    return response.parsed


def error(response: Response[Any], status: int) -> ErrorResponse:
    body = parsed(ErrorResponse, response, status)
    assert body.status == status
    assert body.request_id == response.headers["X-Request-Id"]
    return body


def tasks(alice: AuthenticatedClient, caller: Me) -> None:
    new = TaskInput(title="Parent", due_date=NOON, assignee_id=caller.user.id)
    created = create_task.sync_detailed(client=alice, body=new, idempotency_key="once")
    task = parsed(Task, created, 201)
    assert created.headers["Location"] == f"tasks/{task.id}"
    assert (task.status, task.priority) == (TaskStatus.TODO, TaskPriority.MEDIUM)
    assert (task.due_date, task.due_day, task.completed_at) == (NOON, None, None)
    assert isinstance(task.created_at, datetime)
    repeated = create_task.sync_detailed(client=alice, body=new, idempotency_key="once")
    assert parsed(Task, repeated, 201) == task
    pair = TaskInputMetadataType0.from_dict({"ticket": "42"})
    other = TaskInput(title="Other", parent_id=task.id, status=TaskStatus.DONE, metadata=pair)
    error(create_task.sync_detailed(client=alice, body=other, idempotency_key="once"), 422)

    subtask = parsed(Task, create_task.sync_detailed(client=alice, body=other), 201)
    assert isinstance(subtask.completed_at, datetime)
    page = parsed(TaskPage, list_tasks.sync_detailed(client=alice, limit=1))
    assert [item.id for item in page.data] == [subtask.id]
    assert page.next_cursor is not None
    rest = list_tasks.sync_detailed(client=alice, limit=1, cursor=page.next_cursor)
    assert [item.id for item in parsed(TaskPage, rest).data] == [task.id]
    status, assignee = [task.status, TaskStatus.IN_PROGRESS], str(caller.user.id)
    found = list_tasks.sync_detailed(client=alice, status=status, assignee=assignee)
    assert parsed(TaskPage, found).data == [task]
    children = list_tasks.sync_detailed(client=alice, parent_id=str(task.id))
    assert parsed(TaskPage, children).data == [subtask]
    ticket = ListTasksMetadata.from_dict({"metadata[ticket]": "42"})
    filed = list_tasks.sync_detailed(client=alice, metadata=ticket)
    assert parsed(TaskPage, filed).data == [subtask]

    read = get_task.sync_detailed(task.id, client=alice)
    assert parsed(Task, read) == task
    tag = read.headers["ETag"]
    same = get_task.sync_detailed(task.id, client=alice, if_none_match=tag)
    assert (same.status_code, same.parsed) == (HTTPStatus.NOT_MODIFIED, None)
    error(get_task.sync_detailed(task.id, client=client("tmw_api_nobody")), 401)

    after = parsed(EventPage, list_events.sync_detailed(client=alice)).next_cursor
    changes = TaskChanges(status=TaskStatus.IN_PROGRESS, due_date=None)
    changed = update_task.sync_detailed(task.id, client=alice, body=changes, if_match=tag)
    assert parsed(Task, changed).due_date is None
    (event,) = parsed(EventPage, list_events.sync_detailed(client=alice, after=after)).data
    assert isinstance(event, TaskUpdatedEvent)
    assert (event.data, event.actor_id) == (parsed(Task, changed), caller.user.id)
    assert event.changed == ["status", "dueDate"]
    later = {"data": [{"id": "1", "type": "note.created"}], "nextCursor": "1", "hasMore": False}
    assert isinstance(EventPage.from_dict(later).data[0], OtherEvent)
    back = TaskChanges.from_dict(parsed(Task, changed).to_dict())
    assert parsed(Task, update_task.sync_detailed(task.id, client=alice, body=back)).version == 2
    stale = update_task.sync_detailed(task.id, client=alice, body=changes, if_match=tag)
    current = error(stale, 412).current
    assert isinstance(current, ErrorResponseCurrent)
    assert Task.from_dict(current.to_dict()) == parsed(Task, changed)
    invalid = update_task.sync_detailed(task.id, client=alice, body=TaskChanges(title=""))
    faults = error(invalid, 400).errors
    assert isinstance(faults, list)
    assert [fault.field for fault in faults] == ["title"]
    assert delete_task.sync_detailed(task.id, client=alice).status_code == HTTPStatus.NO_CONTENT
    error(delete_task.sync_detailed(subtask.id, client=alice), 404)


def me(alice: AuthenticatedClient) -> Me:
    caller = parsed(Me, get_me.sync_detailed(client=alice))
    assert (caller.scope, caller.credential) == ("write", "api")
    assert caller.workspace is not None
    assert caller.workspace.role is Role.OWNER
    assert caller.limits.minute.remaining > 0
    assert isinstance(caller.limits.minute.resets_at, datetime)
    assert caller.limits.day is None
    return caller


if __name__ == "__main__":
    alice = client(os.environ["TOKEN"])
    caller = me(alice)
    assert caller.workspace is not None
    elsewhere = alice.with_headers({"Workspace-Id": str(caller.user.id)})
    error(list_tasks.sync_detailed(client=elsewhere), 404)
    tasks(alice.with_headers({"Workspace-Id": str(caller.workspace.id)}), caller)
