"""Shapes of answers, for the published document and the tests that hold replies against it.

Nothing is dumped by these at run time: Postgres writes the answers (``task_json`` and its siblings),
and the shapes name the same fields in the same order.
"""

from marshmallow import fields

from service.fields import Strict

MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"


def answers(shape=None, status=200, *, form="one", also=()):
    """Say what a view answers when all goes well; the view stays as it is, with nothing around it.

    ``form`` is ``one`` object with an ETag, ``figures`` without, a whole ``list``, or a ``page``;
    ``also`` are statuses that cannot be told from method and path.
    """

    def decorator(view):
        view.answers = {"shape": shape, "status": status, "form": form, "also": also}
        return view

    return decorator


class Shape(Strict):
    """An object whose fields are all there, but for those that are there ``sometimes``."""

    sometimes = ()

    def on_bind_field(self, field_name, field_obj):
        super().on_bind_field(field_name, field_obj)
        field_obj.required = field_name not in self.sometimes


def value(type, *, null=False, **schema):
    return fields.Field(allow_none=null, metadata={"type": type, **schema})


def uuid(**options):
    return value("string", format="uuid", **options)


def text(maximum, minimum=0, **options):
    return value("string", minLength=minimum, maxLength=maximum, **options)


def word(*words, null=False):
    return value("string", null=null, enum=[*words, None] if null else list(words))


def moment(**options):
    return value("string", format="date-time", pattern=MOMENT, **options)


def whole(minimum=0, **options):
    return value("integer", minimum=minimum, **options)


def truth():
    return value("boolean")


def texts(maximum, length):
    return fields.List(text(length), metadata={"maxItems": maximum})


class Fault(Shape):
    field = value("string", description="Its name; with an index inside a list: attendees[2]")
    message = value("string")


class Error(Shape):
    sometimes = ("errors",)

    message = value("string", description="What is wrong, and what to do about it")
    status = whole(400, maximum=599, description="The HTTP status again")
    errors = fields.List(fields.Nested(Fault), metadata={"minItems": 1})
    request_id = value("string", pattern="^[A-Za-z0-9._-]{1,64}$")


class Health(Shape):
    status = word("ok")
