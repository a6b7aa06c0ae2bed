"""Base classes for the schemas of requests and resources, and the errors of an invalid request."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from marshmallow import RAISE, Schema, ValidationError, fields, missing, post_load, pre_load

from service.values.types import MAX_ERRORS, Cursor, Field, Limit, Pairs, SomeOf, camel_case

# Of the errors that a response lists, at most MAX_HINTS have a hint. Of a name that the client
# sent, it repeats at most MAX_ECHO characters.
MAX_HINTS, MAX_ECHO = 20, 100
# Suggest a known name from this similarity (0 to 1) on. At 0.6, "sort" would suggest "cursor".
NEAR = 0.65


class FieldError(NamedTuple):
    field: str
    message: str
    # The JSON of the object in its current version, if a batch expects another version.
    current: bytes | None = None


class StrictSchema(Schema):
    """Rejects unknown names and suggests the nearest known one."""

    unknown_message = "unknown field"
    # The fields that a response may lack.
    optional: tuple[str, ...] = ()
    # Further keywords of the JSON Schema of a request.
    json_schema: Mapping[str, object] = {}
    # What an absent field is loaded as, unless the field has another default.
    default: object = missing

    class Meta:
        unknown = RAISE

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        field_obj.data_key = field_obj.data_key or camel_case(field_name)
        if field_obj.load_default is missing:
            field_obj.load_default = self.default

    @cached_property
    def read_only(self) -> set[str | None]:
        return {field.data_key for field in self.fields.values() if field.dump_only}

    @cached_property
    def required_names(self) -> set[str]:
        """The fields that a request must have: with ``partial`` none, or those not in its list."""
        optional = self.load_fields if self.partial is True else self.partial or ()
        required = {name for name, field in self.load_fields.items() if field.required}
        return required.difference(optional)

    def handle_error(self, error: ValidationError, data: Any, *, many: bool, **kwargs: Any) -> None:  # noqa: ARG002
        """Add a hint to the message for each unknown name: the nearest known name, or all names."""
        found: Any = error.messages
        names = [str(field.data_key) for field in self.load_fields.values()]
        for name, messages in list(found.items())[:MAX_HINTS]:
            if name in self.read_only:
                found[name] = [Field.default_error_messages["read_only"]]
            elif messages == [self.error_messages["unknown"]]:
                near = get_close_matches(str(name)[:MAX_ECHO], names, cutoff=NEAR)
                hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(names)}"
                found[name] = [f"{self.unknown_message}; {hint}"]


# Read-only members that a later release may add. Responses can contain them even now: after a
# rollback, the functions of the newer release still write the JSON. If a release is to add another
# read-only member, the release before it must list its name here.
RESERVED = {"updatedBy"}


class Resource(StrictSchema):
    """A resource of the API.

    ``Task()`` loads the body of a POST, and ``Task(partial=True)`` the body of a PATCH. Only the
    service sets the fields with ``dump_only``. A response has all fields without ``load_only``, but
    the fields in ``optional`` may be absent.
    """

    @pre_load
    def ignore_read_only(self, members: dict[str, Any], **_: object) -> dict[str, Any]:
        """Drop the read-only members of a PATCH.

        Therefore a client can send an object back as it has read it (Google AIP-203, output-only
        fields). POST rejects read-only members, because the client cannot have read an object that
        does not exist yet.
        """
        if not self.partial:
            return members
        ignored = self.read_only | RESERVED
        return {name: value for name, value in members.items() if name not in ignored}


class Query(StrictSchema):
    unknown_message = "unknown query parameter"
    default = None

    @cached_property
    def lists(self) -> set[str | None]:
        """The parameters that take a list, and so may be repeated."""
        return {field.data_key for field in self.fields.values() if isinstance(field, SomeOf)}

    @cached_property
    def objects(self) -> set[str | None]:
        """The parameters that take an object, whose names are in brackets: ``metadata[name]``."""
        return {field.data_key for field in self.fields.values() if isinstance(field, Pairs)}

    def handle_error(self, error: ValidationError, data: Any, **options: Any) -> None:
        """Name the parameters of an object as the query does."""
        super().handle_error(error, data, **options)
        found: Any = error.messages
        for name in self.objects & found.keys():
            if isinstance(found[name], dict):
                pairs = found.pop(name)
                found |= {f"{name}[{inner}]": messages for inner, messages in pairs.items()}


class PageQuery(Query):
    """The parameters of every paged list; ``cursor`` loads as ``after`` and ``after_id``."""

    limit = Limit(50, 200)
    cursor = Cursor()

    @post_load
    def split_cursor(self, values: dict[str, Any], **_: object) -> dict[str, Any]:
        values["after"], values["after_id"], values["after_workspace_id"] = values.pop("cursor")
        return values


def flatten(error: ValidationError) -> list[FieldError]:
    """List the errors that marshmallow found, with names like ``title`` or ``attendees[2]``.

    The list has at most MAX_ERRORS errors. Longer names are cut after MAX_ECHO characters.
    """

    def walk(path: str, messages: Any) -> Iterator[FieldError]:
        if isinstance(messages, dict):
            for key, inner in messages.items():
                step = f"[{key}]" if isinstance(key, int) else f".{key}"
                yield from walk(path + step if path else str(key), inner)
        else:
            # A client's name may contain an unpaired surrogate, which UTF-8 cannot encode.
            name = path[:MAX_ECHO].encode("utf-8", "replace").decode()
            yield from (FieldError(name, message) for message in messages)

    return list(islice(walk("", error.messages), MAX_ERRORS))
