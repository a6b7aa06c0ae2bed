"""The bodies of requests to the control URL."""

from marshmallow import ValidationError, fields, validate, validates_schema

from service.api.event_types import EVENT_TYPES
from service.callers import CREDENTIALS, SCOPES
from service.values import Values
from service.values.schemas import StrictSchema
from service.values.types import MAX_EMAIL, MAX_TEXT, OneOf, Text, Timestamp
from task_service_double.faults import DELAYS, KINDS
from task_service_double.initial_state import USERS
from task_service_double.receiver import BEHAVIORS


def number(default: int | None = None, *, min: int = 1, max: int = 10**9) -> fields.Integer:
    """Return a field for an integer from ``min`` to ``max``."""
    return fields.Integer(strict=True, validate=within(min, max), load_default=default)


def decimal(default: float | None, *, max: float) -> fields.Float:
    """Return a field for a number from 0 to ``max``."""
    return fields.Float(validate=within(0, max), load_default=default)


def within(least: float, most: float) -> validate.Range:
    return validate.Range(least, most, error="must be from {min} to {max}")


class APIPath(Text):
    """The path of a request to the API, without the query; ``*`` stands for any text."""

    default_error_messages = {"path": "must begin with /api/ and have no query"}

    def _convert(self, value: object) -> str:
        path = super()._convert(value)
        if not path.startswith("/api/") or "?" in path:
            raise self.make_error("path")
        return path


class PlanChange(StrictSchema):
    """The plan of the owner's workspace, and the plan's limits; an absent value stays as it is."""

    name = OneOf("Starter", "Pro", "Team", schema_name="Plan", load_default=None)
    per_minute = number()
    per_day = number()


class UserName(Text):
    """A user: one of the names in the initial state, or the e-mail address of any user."""

    default_error_messages = {"user": "must be one of: {users}; or the e-mail address of a user"}

    def __init__(self) -> None:
        super().__init__(MAX_EMAIL, load_default="user")

    def _convert(self, value: object) -> str:
        name = super()._convert(value)
        if name not in USERS and "@" not in name:
            raise self.make_error("user", users=", ".join(USERS))
        return name


class TimeToSet(StrictSchema):
    """The time to which the service's clock is set; the clock goes on from there."""

    now = Timestamp(required=True)


class SnapshotName(StrictSchema):
    """The name of a snapshot; without one, the snapshot that each reset restores."""

    name = Text(MAX_TEXT, min=1, load_default="")


class NextFault(StrictSchema):
    """A fault: the next ``skip`` requests pass, and the ``times`` requests after them meet it.

    With ``rate``, each request after them meets it with this probability, and ``times`` limits how
    many do. ``seconds`` is the delay, to which up to ``jitter`` seconds are added, or the
    Retry-After of the response. The fault ``latency`` delays all requests.
    """

    kind = OneOf(*KINDS, schema_name="FaultKind", required=True)
    times = number()
    skip = number(0, min=0)
    rate = decimal(None, max=1)
    seed = number(min=0)
    seconds = decimal(1, max=60)
    jitter = decimal(None, max=60)
    method = OneOf("GET", "POST", "PATCH", "DELETE", schema_name="Method", load_default=None)
    path = APIPath(MAX_TEXT, load_default=None)

    @validates_schema
    def check(self, fault: Values, **_: object) -> None:
        """Reject values that would have no effect."""
        if fault["jitter"] and fault["kind"] not in DELAYS:
            raise ValidationError(f"only with kind {' or '.join(DELAYS)}", "jitter")
        if fault["seed"] is not None and fault["rate"] is None and not fault["jitter"]:
            raise ValidationError("only with rate or jitter", "seed")


class Behavior(StrictSchema):
    """How the receiver treats the next ``times`` posts; without it, all posts from now on."""

    behavior = OneOf(*BEHAVIORS, schema_name="ReceiverBehavior", required=True)
    times = number()
    status = number(500, min=300, max=599)


class NewCredential(StrictSchema):
    """A credential for a user, which expires after ``expiresIn`` days.

    Without ``expiresIn``, an API token never expires, and a session expires after 30 days.
    """

    user = UserName()
    kind = OneOf(*CREDENTIALS, load_default="api")
    scope = OneOf(*SCOPES, load_default="write")
    expires_in = number(max=36_500)


class NewReceiver(StrictSchema):
    """A receiver that the test itself runs; without events, it gets all types."""

    url = Text(2048, min=1, required=True)
    events = fields.List(OneOf(*EVENT_TYPES, schema_name="EventType"), load_default=list)
