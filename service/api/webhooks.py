"""Webhooks of the active workspace; owners and admins only."""

from typing import NamedTuple

from flask import Blueprint, Response

from service.api.event_types import EVENT_TYPES
from service.api.webhook_checks import check_new_url, managed, outbound_call, role_or_none
from service.context import current_settings, current_state, db
from service.database.statements import to_json
from service.values import Values, schemas
from service.values.types import (
    MAX_NAME,
    MAX_REFERENCE,
    MAX_TITLE,
    URL,
    Boolean,
    Id,
    OneOf,
    ReadOnlyInteger,
    StringList,
    Text,
    Timestamp,
)
from service.web.errors import etag, http_error
from service.web.operation import operation
from service.web.responses import (
    One,
    headers_of_created,
    reply,
    reply_list,
    reply_one,
    reply_secret,
    require_match,
)
from service.web.safe_writes import expected_versions
from service.webhooks.delivery import Message, attempt
from service.webhooks.secrets import CreatedWebhook, RotatedWebhook, derive_secret, fingerprint

# The reasons of a webhook that a person has disabled. All other reasons come from failures of its
# receiver.
BY_OPERATOR, BY_MANAGER = "by an operator", "by an owner or an admin"


SHOWN_ONCE = "The key that signs the events, shown once; null if you repeat an Idempotency-Key"

blueprint = Blueprint("webhooks", __name__)


class Webhook(schemas.Resource):
    id = Id("The id of the webhook", dump_only=True)
    url = URL("Where the service posts the events", required=True)
    events = StringList(
        OneOf(*EVENT_TYPES),
        100,
        "The types of events that the webhook gets; null means all, including future types",
        min=1,
        unique=True,
        load_default=None,
    )
    state = OneOf(
        "enabled",
        "failing",
        "disabled",
        dump_only=True,
        description="The state is failing from a failed attempt until the next successful one",
    )
    disabled_reason = Text(
        MAX_TITLE, "Why the webhook is disabled, or null", dump_only=True, allow_none=True
    )
    failing_since = Timestamp(
        "When the webhook began to fail, or null", dump_only=True, allow_none=True
    )
    gap_since = Timestamp(
        "When the webhook was last disabled, or null. Events from then until it was enabled again"
        " are not delivered",
        dump_only=True,
        allow_none=True,
    )
    waiting = ReadOnlyInteger("The number of waiting deliveries")
    next_attempt_at = Timestamp(
        "When the next delivery is due; null if no delivery is waiting, or if the webhook is"
        " disabled",
        dump_only=True,
        allow_none=True,
    )
    created_at = Timestamp("When the webhook was created", dump_only=True)
    version = ReadOnlyInteger(
        "Increases when url or events change, and when the webhook is enabled or disabled. To avoid"
        " overwriting a newer version, send this version in If-Match"
    )


class WebhookDetails(Webhook):
    """What a PATCH may contain: the fields of a webhook, and ``enabled``."""

    enabled = Boolean(
        "False disables the webhook; true enables it again", load_only=True, load_default=True
    )


class NewWebhook(Webhook):
    secret = Text(MAX_NAME, SHOWN_ONCE, dump_only=True, allow_none=True)


class WebhookSecret(schemas.Resource):
    secret = Text(MAX_NAME, SHOWN_ONCE, allow_none=True)


class Ping(schemas.Resource):
    status = ReadOnlyInteger("The status that the receiver returned, or null", allow_none=True)
    milliseconds = ReadOnlyInteger("How long the attempt took")
    error = Text(
        MAX_REFERENCE,
        "Why there is no status, such as timeout or blocked; null if there is a status",
        allow_none=True,
    )


class ListedWebhook(NamedTuple):
    # The webhook as the API shows it.
    body: bytes
    # Null unless the webhook is in a pause after failures.
    backoff_until: str | None
    last_attempt_at: str | None
    # A status, or the error of an attempt without one.
    last_status: str | None


class MatchedWebhook(NamedTuple):
    """The row of a change or a deletion of a webhook, which happens only if ``matched`` is true."""

    id: str
    version: int
    matched: bool
    # The webhook as the API shows it, if ``matched`` is false; otherwise null.
    body: bytes | None


@blueprint.get("/webhooks")
@operation(response=Webhook, kind="list", also=(403,))
def list_webhooks() -> Response:
    """List the webhooks of the active workspace, oldest first

    The list has no pages. A workspace can have 20 webhooks.
    """
    rows = db.rows(ListedWebhook, "webhooks/list")
    if not rows:
        role_or_none()
    return reply_list(row.body for row in rows)


@blueprint.post("/webhooks")
@operation(
    NewWebhook(),
    NewWebhook,
    201,
    kind="live",
    idempotent="workspace",
    has_dry_run=False,
    before=check_new_url,
)
def create_webhook(webhook: Values) -> Response:
    """Create a webhook for the active workspace; the response shows the secret

    The host of ``url`` must have public addresses only. Without ``events``, the webhook gets all
    types of events, including future types. A workspace can have 20 webhooks.
    """
    key = current_settings().require_webhook_key()
    created = db.row_or_none(
        CreatedWebhook, "webhooks/create", key_fingerprint=fingerprint(key), **webhook
    )
    if created is None:
        raise http_error("too_many_webhooks" if role_or_none() else "no_workspace")
    secret = derive_secret(key, created.id, created.secret_number)
    headers = {**headers_of_created(created.id), "ETag": etag(created.version)}
    return reply_secret(created.body, "secret", secret, 201, headers)


@blueprint.get("/webhooks/<id:id>")
@operation(response=Webhook, kind="live", also=(403,))
def get_webhook(id: str) -> Response:
    """Return a webhook and the state of its deliveries

    The ``ETag`` changes only with what you can change. Attempts and waiting deliveries do not
    change it.
    """
    return reply_one(managed(One, "webhooks/get", id=id), live=True)


@blueprint.patch("/webhooks/<id:id>")
@operation(
    WebhookDetails(partial=True),
    Webhook,
    kind="live",
    idempotent="workspace",
    has_dry_run=False,
    before=check_new_url,
)
def update_webhook(changes: Values, id: str) -> Response:
    """Change the URL or the events of a webhook, or enable or disable it

    Null for ``events`` means all types. Waiting deliveries of a type that ``events`` no longer
    contains become failed. A disabled webhook gets no new events, but keeps its waiting
    deliveries. With ``enabled: true`` or a new URL, the waiting deliveries become due immediately.
    The service ignores read-only fields.
    """
    enabled = changes.pop("enabled", None)
    with db.transaction():
        webhook = managed(
            MatchedWebhook,
            "webhooks/update",
            id=id,
            changes=to_json(changes),
            enabled=enabled,
            reason=BY_MANAGER,
            versions=expected_versions(),
        )
        require_match(webhook)
        if "events" in changes:
            db.run("deliveries/give_up", id=id)
    # Read the webhook again: the snapshot of the UPDATE does not contain the deliveries that it
    # made due.
    updated: Response = get_webhook(id=id)
    return updated


@blueprint.delete("/webhooks/<id:id>")
@operation(status=204, idempotent="workspace", has_dry_run=False, kind="versioned")
def delete_webhook(id: str) -> Response:
    """Delete a webhook and all its deliveries, including waiting ones

    This takes effect immediately: the receiver gets no more requests.
    """
    require_match(managed(MatchedWebhook, "webhooks/delete", id=id, versions=expected_versions()))
    return reply(None, 204)


@blueprint.post("/webhooks/<id:id>/rotate")
@operation(response=WebhookSecret, idempotent="workspace", has_dry_run=False)
def rotate_secret(id: str) -> Response:
    """Replace the secret of a webhook

    ``X-Service-Signature`` is made with the new secret immediately. For 24 hours,
    ``webhook-signature`` has a signature with the old secret as well.
    """
    # 403 and 404 take precedence over 503.
    role_or_none(id)
    key = current_settings().require_webhook_key()
    row = managed(RotatedWebhook, "webhooks/rotate", id=id, key_fingerprint=fingerprint(key))
    return reply_secret(b"{}", "secret", derive_secret(key, *row))


@blueprint.post("/webhooks/<id:id>/ping")
@operation(response=Ping)
def ping_webhook(id: str) -> Response:
    """Post a signed ping event to a webhook now, and return the outcome

    ``status`` is the status that the receiver returned. If it returned none, ``error`` says why.
    The service does not record pings. If the ping succeeds, the waiting deliveries become due
    immediately, unless the webhook is disabled. If the ping fails, nothing changes.
    """
    target = managed(Message, "webhooks/ping", id=id)
    settings = current_settings()
    with outbound_call():
        outcome = attempt(target, settings, settings.webhook_timeout, current_state().traceparent)
    if outcome.success:
        db.run("webhooks/resume", id=id)
    # The text after the colon is for operators only, because it can name an address inside their
    # network.
    error = outcome.error and outcome.error.partition(":")[0]
    shown = {"status": outcome.status, "milliseconds": outcome.milliseconds, "error": error}
    return reply(to_json(shown))
