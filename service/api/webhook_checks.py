"""Checks of requests about webhooks: the caller's role, the URL, a free slot."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from marshmallow import ValidationError

from service.context import current_application, current_settings, current_state, db
from service.database.statements import NotFound, Row
from service.values import Values
from service.values.types import URL
from service.web.errors import http_error
from service.webhooks import NoSlot, OutboundSlots
from service.webhooks.outbound import BlockedURL, resolve

# The host of a new URL must be resolved within LOOK_UP seconds. The request needs a slot only after
# QUICK_LOOK_UP seconds.
LOOK_UP, QUICK_LOOK_UP = 2, 0.1
# How many seconds a request waits for a slot. With a slot, it may wait for a receiver or a name
# server.
SLOT_TIMEOUT = 0.25


class Manager(NamedTuple):
    """The URL of a webhook, and whether the caller may manage the webhooks of the workspace."""

    permitted: bool
    # The URL of the webhook with the ``id``; null if there is none.
    url: str | None


def role_or_none(id: str | None = None) -> Manager | None:
    """Check the role of the caller, and that the webhook ``id`` exists if an id is given.

    Raises 403 unless the caller is an owner or an admin, and NotFound without such a webhook.
    Returns None for a caller without a workspace.
    """
    member = db.row_or_none(Manager, "webhooks/role", id=id)
    if member is not None and not member.permitted:
        raise http_error("webhook_role")
    if id is not None and (member is None or member.url is None):
        raise NotFound("webhook")
    return member


def managed(kind: type[Row], name: str, /, **values: object) -> Row:
    """Return the row of a statement about a webhook or a delivery; without one, 403 or NotFound.

    Each statement about a webhook also checks the role of the caller. Only if it returns no row, a
    second statement finds out why.
    """
    try:
        return db.row(kind, name, **values)
    except NotFound:
        role_or_none()
        raise


@contextmanager
def outbound_call() -> Iterator[None]:
    """Let this request wait for a receiver or a name server, and extend its deadline by the wait.

    The request first returns its connection to the pool. Raises 503 if too many threads already
    wait, or if another request of the same workspace does.
    """
    slots: OutboundSlots = current_application().extensions["outbound_slots"]
    current_state().release()
    try:
        with slots.for_call(current_state().caller["workspace_id"], SLOT_TIMEOUT):
            began = monotonic()
            try:
                yield
            finally:
                current_state().deadline += monotonic() - began
    except NoSlot as error:
        raise http_error(str(error), retry_after=1) from None


def check_new_url(values: Values, id: str | None = None) -> None:
    """Raise an error unless the caller may send events to a new URL; a webhook may keep its URL.

    As ``Operation.before`` this runs before the transaction, so that no connection waits for DNS.
    ``id`` is the id of the webhook that gets the URL, or None for a new webhook.
    """
    if "url" not in values:
        return
    url, member = values["url"], role_or_none(id)
    if member and member.url == url:
        return
    settings = current_settings()
    try:
        try:
            # Most look-ups end within QUICK_LOOK_UP seconds, so they need no slot.
            current_state().release()
            resolve(url, settings.webhook_allow, QUICK_LOOK_UP)
        except TimeoutError:
            with outbound_call():
                resolve(url, settings.webhook_allow, LOOK_UP)
    except (BlockedURL, TimeoutError) as error:
        reason = error.reason if isinstance(error, BlockedURL) else "unresolved"
        raise ValidationError({"url": [URL.default_error_messages[reason]]}) from None
