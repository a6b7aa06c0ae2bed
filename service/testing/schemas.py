"""What the requests to the control URL have in their bodies."""

from marshmallow import fields, validate

from service.fields import MAX_TEXT, Enum, StrictSchema, Text
from service.testing.faults import KINDS
from service.testing.receiver import BEHAVIORS
from service.webhooks import EVENTS


def Count(default: int | None = None) -> fields.Integer:  # noqa: N802
    """An integer from 1."""
    in_range = validate.Range(1, 1_000_000_000)
    return fields.Integer(strict=True, validate=in_range, load_default=default)


def Seconds(default: float) -> fields.Float:  # noqa: N802
    """At most a minute."""
    return fields.Float(validate=validate.Range(0, 60), load_default=default)


class PlanChange(StrictSchema):
    """The plan of the cast's workspace, and its limits; what is absent stays."""

    name = Enum("Plan", "Starter", "Pro", "Team", load_default=None)
    per_minute = Count()
    per_day = Count()


class TimePassed(StrictSchema):
    """The time to let pass."""

    days = fields.Float(load_default=0)
    hours = fields.Float(load_default=0)
    minutes = fields.Float(load_default=0)
    seconds = fields.Float(load_default=0)


class NextFault(StrictSchema):
    """What the next ``times`` requests meet; ``seconds`` are a delay, or those of Retry-After."""

    kind = Enum("FaultKind", *KINDS, required=True)
    times = Count(1)
    seconds = Seconds(1)
    method = Enum("Method", "GET", "POST", "PATCH", "DELETE", load_default=None)
    path = Text(MAX_TEXT, min=1, load_default=None)


class Behavior(StrictSchema):
    """How the receiver treats the next ``times`` posts; without ``times`` all from now on."""

    behavior = Enum("ReceiverBehavior", *BEHAVIORS, required=True)
    times = Count()
    status = fields.Integer(strict=True, validate=validate.Range(300, 599), load_default=500)


class NewToken(StrictSchema):
    """A credential for a user of the cast; it expires after ``expiresIn`` days, if given."""

    user = Enum("CastMember", "user", "member", "stranger", load_default="user")
    kind = Enum("CredentialKind", "api", "session", load_default="api")
    scope = Enum("Scope", "read", "write", load_default="write")
    expires_in = Count()


class NewWebhook(StrictSchema):
    """A receiver of the test's own; no events mean all."""

    url = Text(2048, min=1, required=True)
    events = fields.List(Enum("EventType", *EVENTS), load_default=list)


class Objects(StrictSchema):
    """What to load, in the form of the command load; the workspace is the cast's by default."""

    objects = fields.List(fields.Dict(keys=fields.String()), required=True)
