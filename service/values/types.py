"""Marshmallow fields: the values that each field accepts, and the messages for all others.

Each field carries its JSON Schema as metadata, so requests and the published document read one
declaration. PostgreSQL writes the responses; tests compare them with the document. Names are
camelCase in JSON and snake_case in Python and SQL.
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from marshmallow import ValidationError, fields

# A response lists at most this many invalid fields.
MAX_ERRORS = 100
MAX_NAME, MAX_TITLE, MAX_TEXT, MAX_REFERENCE, MAX_EMAIL, MAX_URL = 120, 500, 65_536, 128, 254, 2048

MILLISECOND = timedelta(milliseconds=1)

# No row has this id. It replaces a malformed id, so that the response is the same 404 as for an
# unknown id.
NIL_UUID = "00000000-0000-0000-0000-000000000000"
UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# The timestamps of RFC 3339 without leap seconds. In addition, three forms of ISO 8601 are allowed:
# without seconds, without an offset, and with an offset in hours. Without this pattern,
# fromisoformat() would also accept week dates.
DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
TIMESTAMP = (
    rf"{DAY}[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?"
)

# Patterns of the published document. URL_TEXT also checks values. Python code checks the values for
# the other patterns.
ATOM, LABEL = r"[-!#$%&'*+/=?^`{}|~A-Za-z0-9_]+", r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
MAILBOX, DOMAIN = rf"{ATOM}(\.{ATOM})*", rf"({LABEL}\.)+[A-Za-z][A-Za-z0-9-]{{0,61}}[A-Za-z0-9]"
# Release 1.1.0 also allowed hyphens and digits at the ends of the last part of a domain.
STORED_DOMAIN = rf"({LABEL}\.)+[A-Za-z0-9-]{{2,63}}"
EMAIL = rf"^{MAILBOX}@{STORED_DOMAIN}$"
URL_TEXT = r"^https?://[!-~]+$"
TIMEZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
NO_NUL = r"^[^\u0000]*$"
# The characters that str.strip() removes. JSON Schema uses the patterns of ECMA-262, in which \s
# means other characters.
BLANK = r"\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
NOT_BLANK = rf"^[^\u0000]*[^\u0000{BLANK}][^\u0000]*$"
WORD = rf"[{BLANK}]*[^\u0000{BLANK}]+"
# Unicode's control characters (Cc), and the characters that change the direction of text
# (Bidi_Control).
CONTROL = r"\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
INKED = rf"[^{CONTROL}{BLANK}]"
PERSON_NAME = rf"^[{BLANK}]*{INKED}([^{CONTROL}]*{INKED})?[{BLANK}]*$"

# The roles of the members of a workspace.
ROLES = "owner", "admin", "member"


def camel_case(name: str) -> str:
    """Return the JSON name of a Python or SQL name: ``createdAt`` for ``created_at``."""
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))


def singular(plural: str) -> str:
    """Return the word for one object of a collection: ``category`` for ``categories``."""
    return re.sub("ies$", "y", plural).removesuffix("s")


def uuid_or_nil(text: object) -> str:
    """Return a UUID in lower case, or the nil UUID, which no row has, for any other text."""
    return text.lower() if isinstance(text, str) and UUID.fullmatch(text) else NIL_UUID


NOTHING: Mapping[str, object] = {}


class Field(fields.Field[Any]):
    """A field that carries its JSON Schema, and loads a value with ``_convert``.

    ``description`` is for the published document. The schema is merged from three sources:
    ``known``, which a subclass passes, the ``json_schema`` of the class, and the option
    ``json_schema`` of the single field. Later sources win.
    ``request_note`` is a sentence that only the descriptions of requests contain. marshmallow
    takes all other options. With the ``load_default`` None, the field may also be null.
    """

    default_error_messages = {
        "required": "is required",
        "null": "must not be null",
        "read_only": "is read-only; the service sets it",
    }
    request_note = ""
    json_schema = NOTHING

    def __init__(
        self,
        description: str = "",
        *,
        known: Mapping[str, object] = NOTHING,
        json_schema: Mapping[str, object] = NOTHING,
        **options: Any,
    ) -> None:
        described = {"description": description} if description else {}
        metadata = {**known, **self.json_schema, **json_schema, **described}
        super().__init__(**options, metadata=metadata)

    def _convert(self, value: object) -> object:
        """Return the loaded value; raises ValidationError."""
        raise NotImplementedError

    def _deserialize(self, value: object, *_: Any, **__: Any) -> Any:
        return self._convert(value)


class Nested(Field):
    """An object in a response."""

    def __init__(self, schema: type[Any], description: str = "", **options: Any) -> None:
        super().__init__(description, **options)
        self.schema = schema


class List(Field):
    """A list. Loading ends with the item that has the ``MAX_ERRORS``-th error."""

    default_error_messages = {"invalid": "must be a list"}

    def __init__(self, inner: Field, description: str = "", **options: Any) -> None:
        super().__init__(description, **options)
        self.inner = inner

    def load_item(self, item: object) -> object:
        return self.inner.deserialize(item)

    def _convert(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        items: list[Any] = []
        errors: dict[int, Any] = {}
        for number, item in enumerate(value):
            try:
                items.append(self.load_item(item))
            except ValidationError as error:
                errors[number] = error.messages
                if sum(map(len, errors.values())) >= MAX_ERRORS:
                    break
        if errors:
            raise ValidationError(errors)
        return items


class Items(List):
    """A list of objects, each loaded with ``schema``. Errors name the number of the object."""

    default_error_messages = {"object": "must be an object"}

    def __init__(self, schema: Any, max: int, description: str = "", **options: Any) -> None:
        super().__init__(Nested(type(schema)), description, known={"maxItems": max}, **options)
        self.schema = schema
        self.load: Callable[[Any], Any] = schema.load

    def load_item(self, item: object) -> object:
        if not isinstance(item, dict):
            raise self.make_error("object")
        return self.load(item)


class String(Field):
    """A string of ``min`` to ``max`` characters; ``trim`` removes white space at both ends."""

    default_error_messages = {
        "invalid": "must be a string",
        "nul": "must not contain the character NUL",
        "surrogate": "must not contain an unpaired surrogate",
        "length": "must have {min} to {max} characters, not {actual}",
    }

    max, min, trim = MAX_TEXT, 0, False
    # A pattern that the whole text matches, or else has the error ``form``.
    well_formed: re.Pattern[str] | None = None

    def __init__(self, description: str = "", **options: Any) -> None:
        bounds = {"type": "string", "minLength": self.min, "maxLength": self.max}
        known = {**bounds, "pattern": NOT_BLANK if self.trim else NO_NUL}
        super().__init__(description, known=known, **options)

    def _convert(self, value: object) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        text = value.strip() if self.trim else value
        if not self.min <= len(text) <= self.max:
            raise self.make_error("length", min=self.min, max=self.max, actual=len(text))
        if "\0" in text:
            raise self.make_error("nul")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.make_error("surrogate") from None
        if self.well_formed and not self.well_formed.fullmatch(text):
            raise self.make_error("form")
        return text


class Text(String):
    """A string whose limits are arguments."""

    def __init__(
        self, max: int, description: str = "", *, min: int = 0, trim: bool = False, **options: Any
    ) -> None:
        self.max, self.min, self.trim = max, min, trim
        super().__init__(description, **options)


class PersonName(String):
    """The name of a user, which other people see.

    Control characters, and characters that change the direction of text, are rejected because they
    can make a name look like another name.
    """

    default_error_messages = {
        "form": "must not contain control characters or characters that change the direction"
        " of text"
    }
    json_schema = {"pattern": PERSON_NAME}
    max, min, trim = MAX_NAME, 1, True
    well_formed = re.compile(f"[^{CONTROL}]*")


class Words(String):
    """One to eight words. For each word, a pattern of LIKE for texts that contain it is loaded."""

    default_error_messages = {"words": "must have 1 to 8 words, not {actual}"}
    json_schema = {"pattern": rf"^{WORD}([{BLANK}]{WORD}){{0,7}}[{BLANK}]*$"}
    max, min = MAX_NAME, 1

    def _convert(self, value: object) -> list[str]:  # type: ignore[override]
        words = super()._convert(value).split()
        if not 1 <= len(words) <= 8:
            raise self.make_error("words", actual=len(words))
        return ["%" + re.sub(r"[%_\\]", r"\\\g<0>", word) + "%" for word in words]


class OneOf(Field):
    """One of a few strings.

    ``schema_name`` names the enum in the published document. A response must not get a string that
    is not in its enum, because typed clients reject it. Without ``schema_name`` the document shows
    the strings as examples, and in requests as a pattern; a later release may add strings.
    """

    default_error_messages = {"choice": "must be one of: {choices}"}

    def __init__(self, *choices: str, schema_name: str | None = None, **options: Any) -> None:
        pattern = f"^({'|'.join(map(re.escape, choices))})$"
        strings = {"pattern": pattern, "examples": [*choices]}
        values = {"enum": [*choices]} if schema_name else strings
        super().__init__(known={"type": "string", **values}, **options)
        self.schema_name, self.choices = schema_name, choices

    def _convert(self, value: object) -> str:
        if value not in self.choices:
            choices = ", ".join(self.choices)
            raise self.make_error("choice", choices=choices, value=repr(str(value)[:40]))
        return str(value)


class SomeOf(OneOf):
    """In a query: one or more strings of an enum, separated by commas."""

    default_error_messages = {"choice": "must be one or more of: {choices}; not {value}"}

    def _convert(self, value: object) -> list[str]:  # type: ignore[override]
        return sorted(set(map(super()._convert, str(value).split(","))))


class Id(Field):
    """An id, loaded in lower case, or one of ``words``."""

    # A malformed id in a filter, such as "null" or "true", is an error. An empty list would hide
    # this mistake of the client.
    default_error_messages = {
        "string": "must be a string",
        "uuid": "must be an id, like 0190163d-8694-739b-aea5-966c26f8ad91",
        "uuid_or_word": "must be an id, or one of: {words}",
    }

    def __init__(
        self, description: str = "", *, words: Collection[str] = (), **options: Any
    ) -> None:
        # A single pattern for ids and words, because an anyOf breaks generated clients in Java.
        pattern = {"pattern": f"^({'|'.join(words)}|{UUID.pattern})$"}
        known = {"type": "string", **(pattern if words else {"format": "uuid"})}
        super().__init__(description, known=known, **options)
        self.words = words

    def _convert(self, value: object) -> str:
        if not isinstance(value, str):
            raise self.make_error("string")
        if value in self.words:
            return value
        if not UUID.fullmatch(value):
            name = "uuid_or_word" if self.words else "uuid"
            raise self.make_error(name, words=", ".join(self.words))
        return value.lower()


class NewId(Id):
    """The id of a new object, which a client or a file may choose.

    Lists are ordered by id. So an id should be a UUIDv7 (RFC 9562), like the ids of the service:
    these begin with the time.
    """

    default_error_messages = {
        "uuid": "must be a UUID, like 0190163d-8694-739b-aea5-966c26f8ad91, but neither the nil nor"
        " the max UUID"
    }
    # No row may have these two ids. The service uses them as the limits of lists, and instead of
    # missing ids.
    reserved = NIL_UUID, NIL_UUID.replace("0", "f")
    request_note = "A UUID of your choice, best a UUIDv7. By default, the service makes one"

    def _convert(self, value: object) -> str:
        id = super()._convert(value)
        if id in self.reserved:
            raise self.make_error("uuid")
        return id


class Timestamp(Field):
    """An ISO 8601 timestamp, loaded in UTC and truncated to milliseconds; no offset means UTC."""

    default_error_messages = {
        "timestamp": "must be an ISO 8601 timestamp with a time, like 2026-11-20T11:02:43Z",
        "day": "must be a day that exists; {value} does not",
        "range": "must be in the years 1900 to 9998 (UTC)",
    }
    well_formed = re.compile(TIMESTAMP)
    request_note = "Years 1900 to 9998; seconds are optional; no offset means UTC"

    # There is no pattern. Generated clients turn this format into a date, and a pattern can only be
    # checked on a string.
    json_schema = {
        "type": "string",
        "format": "date-time",
        "examples": ["2026-11-20T11:02:43.743Z"],
    }

    def _convert(self, value: object) -> object:
        return self._moment(value)

    def _moment(self, value: object) -> datetime:
        if not isinstance(value, str) or not self.well_formed.fullmatch(value):
            raise self.make_error("timestamp")
        try:
            timestamp = datetime.fromisoformat(value.upper())
        except ValueError:
            raise self.make_error("day", value=value[:10]) from None
        # If the conversion to UTC overflows, check the local year, which is out of range as well.
        with suppress(OverflowError):
            timestamp = timestamp.replace(tzinfo=timestamp.tzinfo or UTC).astimezone(UTC)
        if not 1900 <= timestamp.year <= 9998:
            raise self.make_error("range")
        return timestamp.replace(microsecond=timestamp.microsecond // 1000 * 1000)


class Day(Timestamp):
    """A day without a time, loaded as text."""

    default_error_messages = {
        "timestamp": "must be a day, like 2026-11-20",
        "range": "must be in the years 1900 to 9998",
    }
    well_formed = re.compile(DAY)
    request_note = ""
    json_schema = {"type": "string", "format": "date", "examples": ["2026-11-20"]}

    @classmethod
    def matches(cls, value: object) -> bool:
        """Return whether the text is a day and not a timestamp."""
        return isinstance(value, str) and bool(cls.well_formed.fullmatch(value))

    def _convert(self, value: object) -> object:
        return self._moment(value).date().isoformat()


class DayOrTimestamp(Timestamp):
    """A timestamp or a day, loaded as text.

    PostgreSQL converts a day to a timestamp, because it knows the timezone of the workspace.
    """

    default_error_messages = {
        "timestamp": "must be a day or an ISO 8601 timestamp, like 2026-11-20 or"
        " 2026-11-20T11:02:43Z"
    }
    well_formed = re.compile(f"{DAY}|{TIMESTAMP}")
    request_note = (
        f"{Timestamp.request_note}. A day, like 2026-11-20, means its end in the workspace's"
        " timezone"
    )

    def _convert(self, value: object) -> object:
        timestamp = self._moment(value)
        return value if Day.matches(value) else timestamp.isoformat()


class Bound(DayOrTimestamp):
    """The bound of a filter in a query, loaded as text and rounded up to milliseconds.

    Stored timestamps have milliseconds. So the rounded bound selects the same rows as the exact
    one, whether or not the filter includes the bound itself.
    """

    default_error_messages = {
        "plus": "must not have a space before its offset; in a URL, write + as %2B"
    }
    beyond_milliseconds = re.compile(r"[.,][0-9]{3}[0-9]*[1-9]")

    def _moment(self, value: object) -> datetime:
        text = str(value)
        if " " in text and self.well_formed.fullmatch(text.replace(" ", "+")):
            raise self.make_error("plus")
        moment = super()._moment(value)
        # At the end of 9998, the result is in 9999: no stored timestamp is later.
        return moment + MILLISECOND if self.beyond_milliseconds.search(text) else moment


class Timezone(String):
    default_error_messages = {"timezone": "must be an IANA timezone name, like Europe/Berlin"}
    max, min = MAX_REFERENCE, 1
    json_schema = {
        "pattern": TIMEZONE,
        "description": "An IANA timezone name",
        "examples": ["Europe/Berlin", "America/New_York", "UTC"],
    }

    def _convert(self, value: object) -> str:
        name = super()._convert(value)
        if name not in timezones():
            raise self.make_error("timezone")
        return name


@cache
def timezones() -> frozenset[str]:
    """Return the IANA names, without ``localtime`` and ``Factory``, which are not places."""
    return frozenset(available_timezones() - {"localtime", "Factory"})


class Email(String):
    """An address in ASCII, whose domain has the form that the DNS requires (RFC 5321, RFC 1035)."""

    default_error_messages = {
        "email": "must be an e-mail address, like ada@example.com",
        "ascii": "must be in ASCII: write a domain in another alphabet in its xn-- form (Punycode),"
        " like xn--mnchen-3ya.de; the part before the @ has no such form",
        "mailbox": "must have 1 to 64 characters before the @, without quotes, brackets and commas,"
        " and with single dots only inside",
        "domain": "must have a domain like example.com after the @: at least two parts of 1 to 63"
        " letters, digits and inner hyphens, the last of which begins with a letter",
    }
    max, min = MAX_EMAIL, 3
    address = re.compile(f"{MAILBOX}@{DOMAIN}")
    json_schema = {"format": "email", "pattern": EMAIL, "examples": ["ada@example.com"]}

    def _convert(self, value: object) -> str:
        email = super()._convert(value)
        mailbox = email.partition("@")[0]
        # RFC 5321: the part before the @ has at most 64 octets.
        short = len(mailbox) <= 64
        if short and self.address.fullmatch(email):
            return email
        if not re.fullmatch(r"[^\s<>@]+@[^\s<>@]+", email):
            raise self.make_error("email")
        if not email.isascii():
            raise self.make_error("ascii")
        raise self.make_error("domain" if short and re.fullmatch(MAILBOX, mailbox) else "mailbox")


class StoredEmail(Email):
    """An address that the database may have: release 1.1.0 required less of its domain."""

    address = re.compile(f"{MAILBOX}@{STORED_DOMAIN}")


class URL(String):
    """An http or https URL. service/webhooks checks whether a webhook may use it."""

    default_error_messages = {
        "form": "must be an http or https URL in ASCII, with a host, without user name and"
        " password, with a port from 1 to 65535 if any",
        "unresolved": "must have a host that can be resolved within 2 s",
        "private": "must have a host with public addresses only",
    }
    max, min = MAX_URL, 1
    well_formed = re.compile(URL_TEXT)
    json_schema = {"pattern": URL_TEXT, "examples": ["https://hooks.example.com/tasks"]}


class StringList(List):
    """``min`` to ``max`` strings, in order; ``unique`` rejects duplicates and ignores case."""

    default_error_messages = {
        "length": "must have at most {max} entries, not {actual}",
        "empty": "must not be empty",
        "duplicate": "must not contain duplicates: {value}",
    }

    def __init__(
        self,
        item: Field,
        max: int,
        description: str = "",
        *,
        min: int = 0,
        unique: bool = False,
        **options: Any,
    ) -> None:
        bounds = {"minItems": min, "maxItems": max} if min else {"maxItems": max}
        super().__init__(item, description, known=bounds, **options)
        self.min, self.max, self.unique = min, max, unique
        # The keyword uniqueItems would make client generators use a set, which loses the order.
        self.request_note = "No duplicates; case does not matter" if unique else ""

    def _convert(self, value: object) -> list[str]:
        actual = len(value) if isinstance(value, list) else self.min
        if actual > self.max:
            raise self.make_error("length", max=self.max, actual=actual)
        if actual < self.min:
            raise self.make_error("empty")
        items = super()._convert(value)
        seen: set[str] = set()
        for item in items if self.unique else ():
            if item.lower() in seen:
                raise self.make_error("duplicate", value=item)
            seen.add(item.lower())
        return items


class Metadata(Field):
    """An object with strings of the client's own. Empty metadata of a new object loads as None.

    In the changes of an object, null removes a name (RFC 7396). In a new object there is nothing to
    remove, so names with null are dropped. PostgreSQL limits the bytes, and the pairs after a
    change, which may name up to 50 pairs that it removes and up to 50 others.
    """

    default_error_messages = {
        "invalid": "must be an object",
        "pairs": "must have at most {max} pairs",
        "name": "must be a name with 1 to 40 of the characters A-Z a-z 0-9 _ . : -",
    }
    max = 50
    well_formed = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
    inner = Text(500, min=1, allow_none=True)
    json_schema = {
        "type": "object",
        "propertyNames": {"pattern": f"^{well_formed.pattern}$"},
        "additionalProperties": {**inner.metadata, "type": ["string", "null"]},
    }
    # In responses neither the object nor a string is null.
    shown = {"type": "object", "additionalProperties": {"type": "string"}}
    # The limits of a new object; after a change they hold for the merged object.
    limits_of_new = {"maxProperties": max}
    request_note = (
        "Null removes a pair, or all pairs; absent names stay. Then the object has at most"
        f" {max} pairs, and 16 KiB of JSON"
    )

    def _convert(self, value: object) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        pairs: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, text in value.items():
            try:
                if not self.well_formed.fullmatch(name):
                    raise self.make_error("name")
                pairs[name] = self.inner.deserialize(text)
            except ValidationError as error:
                errors[name] = error.messages
        if errors:
            raise ValidationError(errors)
        if getattr(self.parent, "partial", None):
            return pairs
        stored = {name: text for name, text in pairs.items() if text is not None}
        if len(stored) > self.max:
            raise self.make_error("pairs", max=self.max)
        return stored or None


class Pairs(Metadata):
    """In a query: pairs that metadata must have, each a parameter like ``metadata[name]=value``."""

    default_error_messages = {
        "invalid": "must have the name of a pair in brackets, like metadata[ticket]=42",
    }
    inner = Text(500, min=1)
    json_schema = {
        **Metadata.json_schema,
        **Metadata.limits_of_new,
        "additionalProperties": inner.metadata,
    }


class Boolean(Field):
    """JSON's true or false."""

    default_error_messages = {"boolean": "must be true or false"}
    json_schema = {"type": "boolean"}

    def _convert(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("boolean")
        return value


class TrueOrFalse(Boolean):
    """In a query: the words true or false."""

    def _convert(self, value: object) -> bool:
        return super()._convert({"true": True, "false": False}.get(str(value)))


class ReadOnlyInteger(Field):
    """A 32-bit integer, which only the service sets."""

    json_schema = {"type": "integer", "format": "int32"}

    def __init__(self, description: str = "", **options: Any) -> None:
        super().__init__(description, dump_only=True, **options)


class CountingNumber(Field):
    """A version, or another number that counts from 1."""

    default_error_messages = {"number": "must be an integer from 1 to 999999999"}
    json_schema = {"type": "integer", "format": "int32", "minimum": 1}

    def _convert(self, value: object) -> int:
        if type(value) is not int or not 1 <= value <= 999_999_999:
            raise self.make_error("number")
        return value


class Limit(Field):
    """The number of items on a page, at least 1; numbers above ``max`` are lowered to ``max``."""

    default_error_messages = {"limit": "must be an integer from 1 to {max}"}
    # The schema has no maximum, because the service lowers larger values to ``max``. The format
    # int32 is large enough for clients.
    json_schema = CountingNumber.json_schema

    def __init__(self, default: int, max: int) -> None:
        description = f"The maximum number of items on the page; values above {max} count as {max}"
        super().__init__(description, load_default=default)
        self.max = max

    def _convert(self, value: object) -> int:
        text = str(value)
        if not re.fullmatch("[1-9][0-9]*", text):
            raise self.make_error("limit", max=self.max)
        return min(int(text[:9]), self.max)


# An id in a cursor.
HEX = "[0-9a-f]{32}"


class Cursor(Field):
    """The end of the previous page: an id, preceded by a sort key if the list has one.

    With ``keyed=None``, the query decides whether the list has a sort key. With
    ``across_workspaces``, the id of a workspace may follow, because rows of several workspaces can
    have the same key and id.
    """

    default_error_messages = {"cursor": "must be the nextCursor of an earlier response"}
    json_schema = {"type": "string"}

    def __init__(
        self,
        *,
        keyed: bool | None = False,
        across_workspaces: bool = False,
        description: str = "The nextCursor of an earlier response; opaque; never expires",
    ) -> None:
        # The sort key: a timestamp of PostgreSQL in milliseconds, or the rank of a match.
        key = "-[0-9]{1,13}|[0-9]{1,15}"
        key = rf"(?:(?P<key>{key})\.){{{int(keyed is True)},{int(keyed is not False)}}}"
        place = rf"(?:\.(?P<place>{HEX})){{0,{int(across_workspaces)}}}"
        super().__init__(description, load_default=(None, None, None))
        self.well_formed = re.compile(f"{key}(?P<id>{HEX}){place}")

    def _convert(self, value: object) -> tuple[str | None, str, str | None]:
        """Return the sort key, the id, and the id of the workspace."""
        cursor = self.well_formed.fullmatch(str(value))
        if not cursor:
            raise self.make_error("cursor")
        return cursor["key"], cursor["id"], cursor["place"]


# Fields that several resources have.
VERSION = ReadOnlyInteger(
    "Increases with each change. To avoid overwriting a newer version, send this version in"
    " If-Match. In a request body, the version is ignored"
)
UPDATED_BY = Id(
    "The user who made the last change; null if this user is not known. Events and repeated"
    " responses from before release 1.1.0 lack it",
    dump_only=True,
    allow_none=True,
)
METADATA = Metadata(
    "Strings of your own, by names of your own, such as ids in other systems. Events and repeated"
    " responses from before release 1.2.0 lack it",
    load_default=None,
)
