"""Deliveries of a webhook, with their last attempts."""

from typing import NamedTuple

from flask import Blueprint, Response

from service.api.event_types import EVENT_TYPES
from service.api.webhook_checks import managed, role_or_none
from service.context import db
from service.values import Values, schemas
from service.values.types import (
    MAX_REFERENCE,
    Id,
    List,
    Nested,
    OneOf,
    ReadOnlyInteger,
    Text,
    Timestamp,
)
from service.web.operation import operation
from service.web.responses import Body, reply, reply_page

STATES = "waiting", "delivered", "failed"

blueprint = Blueprint("deliveries", __name__)


class Attempt(schemas.Resource):
    at = Timestamp("When the attempt ended")
    status = ReadOnlyInteger("The status that the receiver returned, or null", allow_none=True)
    milliseconds = ReadOnlyInteger("How long the attempt took")
    error = Text(
        MAX_REFERENCE,
        "Why there is no status, such as timeout or blocked; null if there is a status",
        allow_none=True,
    )
    answer = Text(
        200, "The beginning of the body that the receiver returned, or null", allow_none=True
    )


class Delivery(schemas.Resource):
    id = Id("The id of the delivery")
    event_id = Text(MAX_REFERENCE, "The id of the event, as in the header webhook-id")
    type = OneOf(*EVENT_TYPES, description="The type of the event")
    timestamp = Timestamp("When the event occurred")
    state = OneOf(
        *STATES,
        description="waiting (for an attempt), delivered, or failed (the service has given up)",
    )
    next_attempt_at = Timestamp(
        "When the next attempt is due; null if none is planned", allow_none=True
    )
    attempts = List(Nested(Attempt), "The last 20 attempts, oldest first")


class DeliveryDetails(Delivery):
    body = Text(10_000_000, "The body that the service signs and sends")


class DeliveryFilter(schemas.PageQuery):
    state = OneOf(
        *STATES,
        schema_name="DeliveryState",
        description="Only deliveries in this state",
    )


class Redelivered(NamedTuple):
    id: str
    body: bytes


@blueprint.get("/webhooks/<id:id>/deliveries")
@operation(DeliveryFilter(), Delivery, kind="page", also=(403,))
def list_deliveries(query: Values, id: str) -> Response:
    """List the deliveries of a webhook with their attempts, newest first

    The service deletes finished deliveries after a time that the operator sets.
    """
    page = db.page("deliveries/list", webhook_id=id, **query)
    if not page.bodies:
        role_or_none(id)
    return reply_page(page)


@blueprint.get("/webhooks/<id:id>/deliveries/<id:delivery>")
@operation(response=DeliveryDetails, also=(403,))
def get_delivery(id: str, delivery: str) -> Response:
    """Return a delivery with its body

    Every attempt and every redelivery sends these bytes.
    """
    return reply(managed(Body, "deliveries/get", webhook_id=id, id=delivery).body)


@blueprint.post("/webhooks/<id:id>/deliveries/<id:delivery>/redeliver")
@operation(response=Delivery, idempotent="workspace", has_dry_run=False)
def redeliver(id: str, delivery: str) -> Response:
    """Send a delivery again, with the same bytes

    The delivery is due immediately, and the worker sends it. If the webhook is disabled, the worker
    sends the delivery once the webhook is enabled.
    """
    return reply(managed(Redelivered, "deliveries/redeliver", webhook_id=id, id=delivery).body)
