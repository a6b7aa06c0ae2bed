"""Calls every operation through the client that openapi-python-client generates.

mypy checks this file and the generated package; test_clients.py runs it. Prints what was sent.
"""

import json
import os
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

import httpx
from task_meeting_and_workspace_service_client import AuthenticatedClient, Client
from task_meeting_and_workspace_service_client.api.dashboard import get_stats
from task_meeting_and_workspace_service_client.api.deliveries import (
    get_delivery,
    list_deliveries,
    redeliver,
)
from task_meeting_and_workspace_service_client.api.knowledge import list_knowledge
from task_meeting_and_workspace_service_client.api.mail import list_mail
from task_meeting_and_workspace_service_client.api.me import get_me, update_me
from task_meeting_and_workspace_service_client.api.meetings import (
    create_meeting,
    get_meeting,
    list_meetings,
    update_meeting,
)
from task_meeting_and_workspace_service_client.api.service import (
    check_health,
    get_index,
    get_openapi,
)
from task_meeting_and_workspace_service_client.api.suggestions import list_suggestions
from task_meeting_and_workspace_service_client.api.tasks import (
    create_task,
    delete_task,
    get_task,
    list_tasks,
    update_task,
)
from task_meeting_and_workspace_service_client.api.tokens import (
    create_token,
    end_session,
    list_tokens,
    revoke_token,
)
from task_meeting_and_workspace_service_client.api.webhooks import (
    create_webhook,
    delete_webhook,
    get_webhook,
    list_webhooks,
    ping_webhook,
    rotate_secret,
    update_webhook,
)
from task_meeting_and_workspace_service_client.api.workspaces import (
    get_workspace,
    list_members,
    list_workspaces,
    update_workspace,
)
from task_meeting_and_workspace_service_client.models import (
    CredentialKind,
    DashboardStats,
    DeliveryDetails,
    DeliveryPage,
    DeliveryState,
    ErrorResponse,
    Health,
    KnowledgePage,
    MailPage,
    Me,
    MeChanges,
    MeetingChanges,
    MeetingDetails,
    MeetingInput,
    MeetingPage,
    MeetingStatus,
    Member,
    NewToken,
    NewWebhook,
    OpenAPIDocument,
    Ping,
    Platform,
    Role,
    Scope,
    ServiceIndex,
    SuggestionPage,
    SuggestionStatus,
    Task,
    TaskChanges,
    TaskInput,
    TaskPage,
    TaskPriority,
    TaskStatus,
    TaskUpdatedEvent,
    Token,
    TokenInput,
    Webhook,
    WebhookChanges,
    WebhookInput,
    WebhookSecret,
    WebhookState,
    Workspace,
    WorkspaceChanges,
    WorkspaceDetails,
)
from task_meeting_and_workspace_service_client.types import Response

UNKNOWN = UUID("01890000-0000-7000-8000-000000000000")
NOON = datetime(2036, 5, 5, 12, tzinfo=UTC)

T = TypeVar("T")

sent: list[tuple[str, str, int]] = []


def record(response: httpx.Response) -> None:
    sent.append((response.request.method, response.request.url.path, response.status_code))


def client(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(
        base_url=os.environ["URL"],
        token=token,
        raise_on_unexpected_status=True,
        httpx_args={"event_hooks": {"response": [record]}},
    )


def browser() -> AuthenticatedClient:
    """A client with the cookie of a session, whose writes must declare JSON."""
    return AuthenticatedClient(
        base_url=os.environ["URL"],
        token=f"session={os.environ['COOKIE']}",
        prefix="",
        auth_header_name="Cookie",
        headers={"Content-Type": "application/json"},
        raise_on_unexpected_status=True,
        httpx_args={"event_hooks": {"response": [record]}},
    )


def parsed(kind: type[T], response: Response[Any], status: int = 200) -> T:
    assert response.status_code == status, response
    assert isinstance(response.parsed, kind), response
    return response.parsed


def error(response: Response[Any], status: int) -> ErrorResponse:
    body = parsed(ErrorResponse, response, status)
    assert body.status == status
    assert body.request_id == response.headers["X-Request-Id"]
    return body


def tasks(alice: AuthenticatedClient, member: Member) -> None:
    new = TaskInput(
        title="Parent",
        due_date=NOON,
        assignee_id=member.user_id,
        project_id="website",
    )
    created = create_task.sync_detailed(client=alice, body=new, idempotency_key="once")
    task = parsed(Task, created, 201)
    assert created.headers["Location"] == f"/api/tasks/{task.id}"
    assert (task.status, task.priority) == (TaskStatus.TODO, TaskPriority.MEDIUM)
    assert (task.due_date, task.completed_at) == (NOON, None)
    assert isinstance(task.id, UUID)
    assert isinstance(task.created_at, datetime)
    repeated = create_task.sync_detailed(client=alice, body=new, idempotency_key="once")
    assert parsed(Task, repeated, 201) == task
    assert repeated.headers["Idempotent-Replayed"] == "true"
    other = TaskInput(title="Other")
    error(create_task.sync_detailed(client=alice, body=other, idempotency_key="once"), 422)

    child = TaskInput(title="Child", parent_id=task.id, status=TaskStatus.DONE)
    subtask = parsed(Task, create_task.sync_detailed(client=alice, body=child), 201)
    assert isinstance(subtask.completed_at, datetime)
    pages = list_tasks.sync_detailed(client=alice, limit=1)
    page = parsed(TaskPage, pages)
    assert [item.id for item in page.data] == [subtask.id]
    assert page.next_cursor is not None
    rest = list_tasks.sync_detailed(client=alice, limit=1, cursor=page.next_cursor)
    assert [item.id for item in parsed(TaskPage, rest).data] == [task.id]
    found = list_tasks.sync_detailed(
        client=alice,
        status=task.status,
        priority=task.priority,
        assignee=str(member.user_id),
        project_id="website",
    )
    assert parsed(TaskPage, found).data == [task]
    mine = list_tasks.sync_detailed(client=alice, assignee="me")
    assert parsed(TaskPage, mine).data == [task]
    children = list_tasks.sync_detailed(client=alice, parent_id=task.id)
    assert parsed(TaskPage, children).data == [subtask]

    read = get_task.sync_detailed(task.id, client=alice)
    assert parsed(Task, read) == task
    tag = read.headers["ETag"]
    same = get_task.sync_detailed(task.id, client=alice, if_none_match=tag)
    assert (same.status_code, same.parsed) == (HTTPStatus.NOT_MODIFIED, None)
    error(get_task.sync_detailed(UNKNOWN, client=alice), 404)
    error(get_task.sync_detailed(task.id, client=client("tmw_api_nobody")), 401)

    changes = TaskChanges(status=TaskStatus.IN_PROGRESS, due_date=None)
    changed = update_task.sync_detailed(task.id, client=alice, body=changes, if_match=tag)
    assert parsed(Task, changed).due_date is None
    assert parsed(Task, changed).status is TaskStatus.IN_PROGRESS
    back = TaskChanges.from_dict(parsed(Task, changed).to_dict())
    assert parsed(Task, update_task.sync_detailed(task.id, client=alice, body=back)).version == 2
    lost = update_task.sync_detailed(task.id, client=alice, body=changes, if_match=tag)
    error(lost, 412)
    assert lost.headers["ETag"] == changed.headers["ETag"]
    invalid = update_task.sync_detailed(task.id, client=alice, body=TaskChanges(title=""))
    faults = error(invalid, 400).errors
    assert isinstance(faults, list)
    named = [(fault.field, fault.message) for fault in faults]
    assert named == [("title", "must have 1 to 500 characters, not 0")]
    error(delete_task.sync_detailed(task.id, client=alice, if_match=tag), 412)
    assert delete_task.sync_detailed(task.id, client=alice).status_code == HTTPStatus.NO_CONTENT
    error(delete_task.sync_detailed(subtask.id, client=alice), 404)


def meetings(alice: AuthenticatedClient) -> None:
    new = MeetingInput(
        title="Planning",
        start_time=NOON,
        end_time=NOON + timedelta(minutes=45),
        platform=Platform.IN_PERSON,
        attendees=["ada@example.com"],
    )
    created = create_meeting.sync_detailed(client=alice, body=new)
    meeting = parsed(MeetingDetails, created, 201)
    assert (meeting.start_time, meeting.platform) == (NOON, Platform.IN_PERSON)
    assert not meeting.summary
    open_platform = MeetingChanges(platform=None)
    updated = update_meeting.sync_detailed(meeting.id, client=alice, body=open_platform)
    assert parsed(MeetingDetails, updated).platform is None
    completion = MeetingChanges(
        status=MeetingStatus.COMPLETED, summary="Done", action_items=["Tell Ada"]
    )
    completed = update_meeting.sync_detailed(
        meeting.id, client=alice, body=completion, if_match=updated.headers["ETag"]
    )
    meeting = parsed(MeetingDetails, completed)
    assert meeting.status is MeetingStatus.COMPLETED
    assert (meeting.action_items, meeting.decisions) == (["Tell Ada"], [])
    read = get_meeting.sync_detailed(meeting.id, client=alice)
    assert parsed(MeetingDetails, read) == meeting
    same = get_meeting.sync_detailed(meeting.id, client=alice, if_none_match=read.headers["ETag"])
    assert same.status_code == HTTPStatus.NOT_MODIFIED
    listed = list_meetings.sync_detailed(
        client=alice, upcoming=True, workspace_id=meeting.workspace_id
    )
    assert [item.id for item in parsed(MeetingPage, listed).data] == [meeting.id]
    stale = update_meeting.sync_detailed(meeting.id, client=alice, body=completion, if_match='"1"')
    error(stale, 412)


def workspaces(alice: AuthenticatedClient) -> Member:
    (workspace,) = parsed(list, list_workspaces.sync_detailed(client=alice))
    assert isinstance(workspace, Workspace)
    read = get_workspace.sync_detailed(workspace.id, client=alice)
    details = parsed(WorkspaceDetails, read)
    same = get_workspace.sync_detailed(
        workspace.id, client=alice, if_none_match=read.headers["ETag"]
    )
    assert same.status_code == HTTPStatus.NOT_MODIFIED
    change = WorkspaceChanges(timezone="Europe/Lisbon")
    changed = update_workspace.sync_detailed(details.id, client=alice, body=change)
    assert parsed(WorkspaceDetails, changed).timezone == "Europe/Lisbon"
    members = parsed(list, list_members.sync_detailed(workspace.id, client=alice))
    owner = members[0]
    assert isinstance(owner, Member)
    assert owner.role is Role.OWNER
    return owner


def me(alice: AuthenticatedClient) -> None:
    caller = parsed(Me, get_me.sync_detailed(client=alice))
    assert (caller.scope, caller.credential) == (Scope.WRITE, CredentialKind.API)
    assert caller.workspace is not None
    assert caller.workspace.role is Role.OWNER
    assert caller.limits.minute.remaining > 0
    assert isinstance(caller.limits.minute.resets_at, datetime)
    assert caller.limits.day is None
    change = MeChanges(workspace_id=caller.workspace.id)
    chosen = parsed(Me, update_me.sync_detailed(client=alice, body=change))
    assert chosen.workspace == caller.workspace


def tokens(alice: AuthenticatedClient) -> None:
    new = TokenInput(name="Report", scope=Scope.READ, expires_at=NOON)
    made = parsed(NewToken, create_token.sync_detailed(client=alice, body=new), 201)
    assert (made.name, made.expires_at, made.last_used_at) == ("Report", NOON, None)
    reader = client(str(made.token))
    assert parsed(Me, get_me.sync_detailed(client=reader)).scope is Scope.READ
    newest = parsed(list, list_tokens.sync_detailed(client=alice))[0]
    assert isinstance(newest, Token)
    assert isinstance(newest.last_used_at, datetime)
    error(list_tokens.sync_detailed(client=reader), 403)
    revoked = revoke_token.sync_detailed(made.id, client=alice)
    assert revoked.status_code == HTTPStatus.NO_CONTENT
    error(get_me.sync_detailed(client=reader), 401)
    assert end_session.sync_detailed(client=alice).status_code == HTTPStatus.NO_CONTENT
    error(list_tokens.sync_detailed(client=alice), 401)


def webhooks(alice: AuthenticatedClient) -> None:
    new = WebhookInput(url=os.environ["HOOK"], events=["task.created"])
    webhook = parsed(NewWebhook, create_webhook.sync_detailed(client=alice, body=new), 201)
    assert str(webhook.secret).startswith("whsec_")
    assert webhook.state is WebhookState.ENABLED
    assert parsed(Ping, ping_webhook.sync_detailed(webhook.id, client=alice)).status == 200
    rotated = rotate_secret.sync_detailed(webhook.id, client=alice)
    assert parsed(WebhookSecret, rotated).secret != webhook.secret
    parsed(Task, create_task.sync_detailed(client=alice, body=TaskInput(title="Sent")), 201)
    pages = list_deliveries.sync_detailed(webhook.id, client=alice, state=DeliveryState.DELIVERED)
    (delivery,) = parsed(DeliveryPage, pages).data
    assert (delivery.type_, delivery.attempts[0].status) == ("task.created", 200)
    read = get_delivery.sync_detailed(webhook.id, delivery.id, client=alice)
    assert '"Sent"' in parsed(DeliveryDetails, read).body
    again = redeliver.sync_detailed(webhook.id, delivery.id, client=alice)
    assert again.status_code == HTTPStatus.OK
    seen = get_webhook.sync_detailed(webhook.id, client=alice)
    assert parsed(Webhook, seen).waiting == 1
    changed = update_webhook.sync_detailed(
        webhook.id,
        client=alice,
        body=WebhookChanges(enabled=False, events=None),
        if_match=seen.headers["ETag"],
    )
    disabled = parsed(Webhook, changed)
    assert (disabled.state, disabled.events) == (WebhookState.DISABLED, None)
    (listed,) = parsed(list, list_webhooks.sync_detailed(client=alice))
    assert listed == disabled
    error(delete_webhook.sync_detailed(webhook.id, client=alice, if_match='"1"'), 412)
    removed = delete_webhook.sync_detailed(webhook.id, client=alice)
    assert removed.status_code == HTTPStatus.NO_CONTENT


def reads(alice: AuthenticatedClient) -> None:
    stats = parsed(DashboardStats, get_stats.sync_detailed(client=alice))
    assert stats.suggestions.pending == 1
    assert stats.tasks.by_priority.high == 0
    (mail,) = parsed(MailPage, list_mail.sync_detailed(client=alice)).data
    assert mail.from_ == "ada@example.com"
    found = parsed(KnowledgePage, list_knowledge.sync_detailed(client=alice, q="tea"))
    assert [entry.title for entry in found.data] == ["Tea"]
    (suggestion,) = parsed(SuggestionPage, list_suggestions.sync_detailed(client=alice)).data
    assert (suggestion.status, suggestion.task_id) == (SuggestionStatus.PENDING, None)


def open_documents() -> None:
    anyone = Client(base_url=os.environ["URL"], httpx_args={"event_hooks": {"response": [record]}})
    assert parsed(ServiceIndex, get_index.sync_detailed(client=anyone)).openapi == "/openapi.json"
    assert parsed(Health, check_health.sync_detailed(client=anyone)).status == "ok"
    document = parsed(OpenAPIDocument, get_openapi.sync_detailed(client=anyone))
    assert document["openapi"] == "3.1.0"
    sent_event = document["webhooks"]["task.updated"]["post"]["requestBody"]["content"]
    event = TaskUpdatedEvent.from_dict(sent_event["application/json"]["example"])
    assert (event.type_, event.data.status) == ("task.updated", TaskStatus.DONE)


def rate_limit(charlie: AuthenticatedClient) -> None:
    parsed(TaskPage, list_tasks.sync_detailed(client=charlie))
    rejected = list_tasks.sync_detailed(client=charlie)
    assert "Rate limit exceeded" in error(rejected, 429).message
    assert int(rejected.headers["Retry-After"]) > 0


if __name__ == "__main__":
    alice = client(os.environ["TOKEN"])
    tasks(alice, workspaces(alice))
    meetings(alice)
    me(alice)
    reads(alice)
    webhooks(alice)
    tokens(browser())
    open_documents()
    rate_limit(client(os.environ["LIMITED_TOKEN"]))
    print(json.dumps(sent))
