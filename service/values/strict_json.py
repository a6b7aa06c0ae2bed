"""A strict, bounded parser of JSON objects (RFC 8259): UTF-8, unique names, finite numbers."""

import json
import re
from collections import Counter
from math import isinf
from typing import Any

MAX_MEMBERS, MAX_DIGITS, MAX_ECHO = 256, 100, 100
# If a text has more than MAX_UNCOUNTED bytes, count its values before parsing it, because each
# parsed value takes memory. A batch of 100 tasks with all fields and 50 pairs of metadata each has
# 13 500 values.
MAX_UNCOUNTED, MAX_VALUES = 65_536, 16_384
# How deep arrays and objects may be nested; Python's own limit differs from version to version.
MAX_DEPTH = 100

# The messages of StrictJSONError.
MESSAGES = {
    "encoding": "must be JSON in UTF-8",
    "syntax": "must be a JSON object: {error}",
    "object": "must be a JSON object",
    "depth": "must not be nested more than {max} levels deep",
    "duplicate": "must not repeat the name {name}",
    "values": "must not contain more than {max} values",
    "members": "must not contain an object with more than {max} members",
    "constant": "must not contain {name}, which is not JSON",
    "integer": "must not contain an integer of more than {max} digits",
    "number": "must not contain the number {number}, which is out of range",
}


class StrictJSONError(ValueError):
    """The text is not allowed. The message is the end of a sentence that begins with "The body"."""

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
    if content.count(b"[") + content.count(b"{") > MAX_DEPTH and _is_too_deep(content):
        raise StrictJSONError("depth", max=MAX_DEPTH)
    try:
        document = DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise StrictJSONError("syntax", error=error) from None
    if not isinstance(document, dict):
        raise StrictJSONError("object")
    return document


def _values(content: bytes) -> int:
    """Estimate the number of values, as the number of strings, or of commas or brackets.

    Only commas and brackets outside of strings count.
    """
    unescaped = _unescaped(content)
    strings = unescaped.count(b'"') // 2
    if strings > MAX_VALUES:
        return strings
    outside = b"".join(unescaped.split(b'"')[::2])
    return max(outside.count(b","), outside.count(b"[") + outside.count(b"{"))


def _is_too_deep(content: bytes) -> bool:
    """Return whether lists or objects are nested too deep; brackets inside strings do not count."""
    depth = 0
    outside = b"".join(_unescaped(content).split(b'"')[::2])
    for bracket in re.finditer(rb"[][{}]", outside):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _unescaped(content: bytes) -> bytes:
    """Remove escaped backslashes and quotes, so that each quote begins or ends a string."""
    return content.replace(b"\\\\", b"").replace(b'\\"', b"")


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
    if isinf(number):
        raise StrictJSONError("number", number=text[:20])
    return number


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_integer
)
