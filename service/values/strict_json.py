"""A strict, bounded parser of JSON objects (RFC 8259): UTF-8, unique names, finite numbers."""

import json
from collections import Counter
from typing import Any

MAX_MEMBERS, MAX_DIGITS, MAX_ECHO = 256, 100, 100
# If a text has more than MAX_UNCOUNTED bytes, its values are counted before they are parsed,
# because each parsed value takes memory.
MAX_UNCOUNTED, MAX_VALUES = 65_536, 4096

# The messages of StrictJSONError.
MESSAGES = {
    "encoding": "must be JSON in UTF-8",
    "syntax": "must be a JSON object: {error}",
    "object": "must be a JSON object",
    "depth": "is nested too deeply",
    "duplicate": "must not repeat the name {name}",
    "values": "must not contain more than {max} values",
    "members": "must not contain an object with more than {max} members",
    "constant": "must not contain {name}, which is not JSON",
    "integer": "must not contain an integer of more than {max} digits",
    "number": "must not contain the number {number}, which is out of range",
}


class StrictJSONError(ValueError):
    """The text is rejected; the message continues a sentence that begins with "The body"."""

    def __init__(self, name: str, /, **values: object) -> None:
        super().__init__(MESSAGES[name].format(**values))


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse ``content``, which must be a JSON object; raises StrictJSONError."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise StrictJSONError("encoding") from None
    if text.startswith("\ufeff"):
        raise StrictJSONError("syntax", error="Unexpected UTF-8 BOM")
    if len(content) > MAX_UNCOUNTED and _values(content) > MAX_VALUES:
        raise StrictJSONError("values", max=MAX_VALUES)
    try:
        document = DECODER.decode(text)
    except RecursionError:
        raise StrictJSONError("depth") from None
    except json.JSONDecodeError as error:
        raise StrictJSONError("syntax", error=error) from None
    if not isinstance(document, dict):
        raise StrictJSONError("object")
    return document


def _values(content: bytes) -> int:
    """Estimate the number of values: the strings, or the commas outside of them."""
    unescaped = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = unescaped.count(b'"') // 2
    if strings > MAX_VALUES:
        return strings
    return sum(part.count(b",") for part in unescaped.split(b'"')[::2])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_MEMBERS:
        raise StrictJSONError("members", max=MAX_MEMBERS)
    members = dict(pairs)
    if len(members) < len(pairs):
        duplicate = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise StrictJSONError("duplicate", name=json.dumps(duplicate[:MAX_ECHO]))
    return members


def _constant(name: str) -> float:
    raise StrictJSONError("constant", name=name)


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise StrictJSONError("integer", max=MAX_DIGITS)
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise StrictJSONError("number", number=text[:20])
    return number


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_integer
)
