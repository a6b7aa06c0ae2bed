"""The fields and base schemas that several resources share: what may come in, or why it may not.

Wire names are camelCase, Python and SQL names snake_case; the base schemas translate.
"""

import re
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from zoneinfo import available_timezones

from marshmallow import RAISE, Schema, fields, validate

NAME, TITLE, TEXT, REFERENCE, ADDRESS = 120, 500, 65_536, 128, 254

# No row ever has this id: what is no UUID at all names nothing, just like an unknown one.
NOBODY = "00000000-0000-0000-0000-000000000000"

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

# ISO 8601 with a time, seconds and offset optional; Python alone would let week dates and more pass.
MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-5][0-9])?)?",
    re.ASCII,
)

# The rest are patterns for the published document, which has nothing but patterns to say exactly
# what the fields below check by other means.
NO_NUL = r"^[^\u0000]*$"
SPACES = "".join(f"\\u{ord(char):04x}" for char in map(chr, range(0x3001)) if char.isspace())
NOT_BLANK = rf"^[^\u0000]*[^\u0000{SPACES}][^\u0000]*$"
DAY = (
    # Months of 31, 30 and 28 days in the years 1900 to 9998; then the leap days.
    r"((19[0-9]{2}|[2-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
    r"-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|1[0-9]|2[0-8]))"
    r"|((19|[2-9][0-9])(0[48]|[2468][048]|[13579][26])|([2468][048]|[3579][26])00)-02-29)"
)
TIMESTAMP = (
    rf"^{DAY}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{{1,9}})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?$"
)
ATOM = r"[-!#$%&'*+/=?^`{}|~A-Za-z0-9_]+"
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
EMAIL = rf"^{ATOM}(\.{ATOM})*@({LABEL}\.)+[A-Za-z0-9-]{{2,63}}$"

COMMON = {"required": "is required", "null": "must not be null"}


def as_id(text):
    """The id as the database takes it; anything that is no id becomes one that nobody has."""
    return text if isinstance(text, str) and UUID.fullmatch(text) else NOBODY


class Text(fields.String):
    """A string of ``minimum`` to ``maximum`` characters; ``trim`` drops the white space around it."""

    default_error_messages = {
        **COMMON,
        "invalid": "must be a string",
        "nul": "must not contain the character NUL",
        "surrogate": "must not contain half of a surrogate pair",
        "length": "must have {minimum} to {maximum} characters, not {actual}",
    }

    def __init__(self, maximum, minimum=0, *, trim=False, **options):
        metadata = {
            "type": "string",
            "minLength": minimum,
            "maxLength": maximum,
            "pattern": NOT_BLANK if trim else NO_NUL,
        }
        options["metadata"] = {**metadata, **options.get("metadata", {})}
        super().__init__(**options)
        self.minimum, self.maximum, self.trim = minimum, maximum, trim

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if self.trim:
            text = text.strip()
        if not self.minimum <= len(text) <= self.maximum:
            raise self.make_error(
                "length", minimum=self.minimum, maximum=self.maximum, actual=len(text)
            )
        if "\0" in text:
            raise self.make_error("nul")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self.make_error("surrogate") from None
        return text


class Choice(fields.Field):
    """One of a few words."""

    default_error_messages = {**COMMON, "choice": "must be one of: {choices}"}

    def __init__(self, *choices, **options):
        words = [*choices, None] if options.get("allow_none") else list(choices)
        super().__init__(metadata={"type": "string", "enum": words}, **options)
        self.choices = choices

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, str) or value not in self.choices:
            raise self.make_error("choice", choices=", ".join(self.choices))
        return value


class Id(Text):
    """The id of something; one that is malformed names nothing, and is not a fault by itself."""

    def __init__(self, **options):
        super().__init__(REFERENCE, 1, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        return as_id(super()._deserialize(value, attr, data, **kwargs))


class Moment(fields.Field):
    """An ISO 8601 timestamp, converted to UTC and cut to the millisecond; without offset it means UTC."""

    default_error_messages = {
        **COMMON,
        "moment": "must be an ISO 8601 timestamp with a time, like 2026-11-20T11:02:43Z",
        "range": "must lie in the years 1900 to 9998 (UTC)",
    }

    def __init__(self, **options):
        metadata = {
            "type": "string",
            "pattern": TIMESTAMP,
            "description": "ISO 8601 with a time; without an offset it means UTC",
            "examples": ["2026-11-20T11:02:43.743Z"],
        }
        super().__init__(metadata=metadata, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, str) or not MOMENT.fullmatch(value):
            raise self.make_error("moment")
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise self.make_error("moment") from None
        try:
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except OverflowError:
            raise self.make_error("range") from None
        if not 1900 <= moment.year <= 9998:
            raise self.make_error("range")
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class Timezone(Text):
    """An IANA timezone name."""

    default_error_messages = {"timezone": "must be an IANA timezone name, like Europe/Berlin"}

    def __init__(self, **options):
        metadata = {"description": "An IANA timezone name", "examples": ["Europe/Berlin"]}
        super().__init__(REFERENCE, 1, metadata=metadata, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        name = super()._deserialize(value, attr, data, **kwargs)
        if name not in timezones():
            raise self.make_error("timezone")
        return name


class Address(Text):
    """An e-mail address."""

    default_error_messages = {"address": "must be an e-mail address, like ada@example.com"}
    well_formed = staticmethod(validate.Email(error="x"))

    def __init__(self, **options):
        metadata = {"format": "email", "pattern": EMAIL, "examples": ["ada@example.com"]}
        super().__init__(ADDRESS, 3, metadata=metadata, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        address = super()._deserialize(value, attr, data, **kwargs)
        try:
            return self.well_formed(address)
        except validate.ValidationError:
            raise self.make_error("address") from None


class Texts(fields.List):
    """At most ``maximum`` strings, in order; ``distinct`` refuses repeats whatever their case."""

    default_error_messages = {
        **COMMON,
        "invalid": "must be a list",
        "many": "must have at most {maximum} entries, not {actual}",
        "repeat": "must not name {value} twice",
    }

    def __init__(self, item, maximum, *, distinct=False, **options):
        metadata = {"maxItems": maximum, "uniqueItems": distinct}
        super().__init__(item, metadata=metadata, **options)
        self.maximum, self.distinct = maximum, distinct

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, list) and len(value) > self.maximum:
            raise self.make_error("many", maximum=self.maximum, actual=len(value))
        if not isinstance(value, list):
            raise self.make_error("invalid")
        items = super()._deserialize(value, attr, data, **kwargs)
        if self.distinct:
            seen = set()
            for item in items:
                if item.lower() in seen:
                    raise self.make_error("repeat", value=item)
                seen.add(item.lower())
        return items


class Flag(fields.Field):
    """A query value that is true or false, in these very words."""

    default_error_messages = {**COMMON, "flag": "must be true or false"}

    def __init__(self, **options):
        super().__init__(metadata={"type": "boolean"}, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        if value not in ("true", "false"):
            raise self.make_error("flag")
        return value == "true"


class Limit(fields.Field):
    """How many to list, 1 or more; above ``maximum`` it is lowered to it."""

    default_error_messages = {"limit": "must be a whole number from 1 to {maximum}"}

    def __init__(self, default, maximum):
        metadata = {
            "type": "integer",
            "minimum": 1,
            "default": default,
            "description": f"How many to list; above {maximum} it is lowered to {maximum}",
        }
        super().__init__(load_default=default, metadata=metadata)
        self.maximum = maximum

    def _deserialize(self, value, attr, data, **kwargs):
        if not re.fullmatch("0*[1-9][0-9]*", value, re.ASCII):
            raise self.make_error("limit", maximum=self.maximum)
        return min(int(value.lstrip("0")[:9]), self.maximum)


class Cursor(fields.Field):
    """Where the previous page ended: an id, and before it what the list is ordered by, if anything else."""

    default_error_messages = {"cursor": "must be the nextCursor of an earlier answer"}

    def __init__(self, *, keyed=False):
        # Milliseconds that Postgres has a timestamp for, or the rank of a match.
        key = "(-[0-9]{1,13}|[0-9]{1,15})" if keyed else ""
        point = r"\." if keyed else ""
        metadata = {
            "type": "string",
            "pattern": f"^{key}{point}[0-9a-f]{{32}}$",
            "description": "The nextCursor of an earlier answer; opaque, never expires",
        }
        super().__init__(load_default=(None, None), metadata=metadata)
        self.form = re.compile(f"(?P<key>{key}){point}(?P<id>[0-9a-f]{{32}})", re.ASCII)

    def _deserialize(self, value, attr, data, **kwargs):
        match = self.form.fullmatch(value)
        if match is None:
            raise self.make_error("cursor")
        return match["key"] or None, match["id"]


@cache
def timezones():
    """The names of the zones, without the ones that stand for this machine or count leap seconds."""
    return frozenset(
        name
        for name in available_timezones()
        if not name.startswith(("right/", "posix/")) and name not in ("posixrules", "localtime")
    )


class Strict(Schema):
    """Refuses what it does not know, and names the nearest name that it does."""

    unknown_message = "unknown field"

    class Meta:
        unknown = RAISE

    def on_bind_field(self, field_name, field_obj):
        head, *rest = field_name.split("_")
        field_obj.data_key = field_obj.data_key or head + "".join(map(str.title, rest))

    def handle_error(self, error, data, **kwargs):
        if not isinstance(error.messages, dict):
            return
        known = [field.data_key for field in self.load_fields.values()]
        for name, messages in error.messages.items():
            if name not in known and messages == [self.error_messages["unknown"]]:
                near = get_close_matches(str(name), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(known)}"
                error.messages[name] = [f"{self.unknown_message}; {hint}"]


class Body(Strict):
    """The object in the body of a request."""


class Query(Strict):
    """The parameters in the query of a request."""

    unknown_message = "unknown query parameter"


class Page(Query):
    """What every paged list takes. ``cursor`` loads as a pair: sort key or None, id or None."""

    limit = Limit(50, 200)
    cursor = Cursor()
