"""The bodies of requests to the control URL."""

from marshmallow import fields, validate

from service.api.event_types import EVENT_TYPES
from service.callers import CREDENTIALS, SCOPES
from service.values.schemas import StrictSchema
from service.values.types import MAX_EMAIL, MAX_TEXT, OneOf, Text, Timestamp
from task_service_double.faults import KINDS
from task_service_double.initial_state import USERS
from task_service_double.receiver import BEHAVIORS


def number(default: int | None = None, *, min: int = 1, max: int = 10**9) -> fields.Integer:
    """Return a field for an integer from ``min`` to ``max``."""
    return fields.Integer(strict=True, validate=validate.Range(min, max), load_default=default)


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


class NextFault(StrictSchema):
    """A fault: the next ``skip`` requests pass, and the ``times`` requests after them meet it.

    ``seconds`` is the delay, or the Retry-After of the response. The fault ``latency`` delays all
    requests.
    """

    kind = OneOf(*KINDS, schema_name="FaultKind", required=True)
    times = number(1)
    skip = number(0, min=0)
    seconds = fields.Float(validate=validate.Range(0, 60), load_default=1)
    method = OneOf("GET", "POST", "PATCH", "DELETE", schema_name="Method", load_default=None)
    path = APIPath(MAX_TEXT, load_default=None)


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
