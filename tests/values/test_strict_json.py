"""Strict JSON: an object by RFC 8259 loads; every other text is rejected with a reason."""

import re

import pytest

from service.values.strict_json import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_MEMBERS,
    MESSAGES,
    StrictJSONError,
    parse_object,
)

pytestmark = pytest.mark.nodatabase

# Far beyond the limit, and one level beyond it; the object around a value is a level too.
DEEP, TOO_DEEP = 10_000, MAX_DEPTH


def titled(text):
    """An object whose member title has this JSON text as its value."""
    return b'{"title": ' + text + b"}"


def members(count):
    return b"{" + b",".join(b'"%d": 0' % number for number in range(count)) + b"}"


SYNTAX = "must be a JSON object: "
ENCODING, DEPTH = MESSAGES["encoding"], MESSAGES["depth"].format(max=MAX_DEPTH)

# Texts and how their messages begin.
INVALID = {
    "empty": (b"", SYNTAX),
    "white space": (b" \n", SYNTAX),
    "words": (b"title=x", SYNTAX),
    "form": (b"title=x&description=y", SYNTAX),
    "array": (b'[{"title": "x"}]', "must be a JSON object"),
    "number": (b"1", "must be a JSON object"),
    "string": (b'"title"', "must be a JSON object"),
    "null": (b"null", "must be a JSON object"),
    "true": (b"true", "must be a JSON object"),
    "truncated": (b'{"title": "x"', SYNTAX),
    "truncated string": (b'{"title": "x', SYNTAX),
    "two objects": (b'{"title": "x"} {"title": "y"}', SYNTAX),
    "trailing comma": (b'{"title": "x",}', SYNTAX),
    "single quotes": (b"{'title': 'x'}", SYNTAX),
    "comment": (b'{"title": "x" /* y */}', SYNTAX),
    "control character": (titled(b'"a\tb"'), SYNTAX),
    "raw NUL": (titled(b'"a\0b"'), SYNTAX),
    "trailing NUL": (titled(b'"x"') + b"\0", SYNTAX),
    "invalid escape": (titled(rb'"\x41"'), SYNTAX),
    "byte order mark": (b"\xef\xbb\xbf" + titled(b'"x"'), f"{SYNTAX}Unexpected UTF-8 BOM"),
    "NaN": (titled(b"NaN"), "must not contain NaN, which is not JSON"),
    "Infinity": (titled(b"Infinity"), "must not contain Infinity, which"),
    "minus Infinity": (titled(b"-Infinity"), "must not contain -Infinity, which"),
    "too large a float": (titled(b"1e999"), "must not contain the number 1e999, which"),
    "too small a float": (titled(b"-1e999"), "must not contain the number -1e999, which"),
    "hidden too large": (b'{"a": [[1e400]]}', "must not contain the number 1e400, which"),
    "huge integer": (titled(b"9" * 5000), "must not contain an integer of more than 100 digits"),
    "integer over the limit": (titled(b"9" * 101), "must not contain an integer of more than 100"),
    "huge float": (titled(b"9" * 5000 + b".0"), f"must not contain the number {'9' * 20}, which"),
    "repeated name": (b'{"title": "x", "title": "y"}', 'must not repeat the name "title"'),
    "repeated, escaped": (rb'{"a": "x", "\u0061": "y"}', 'must not repeat the name "a"'),
    "repeated, not the first": (b'{"b": 0, "a": 1, "a": 2}', 'must not repeat the name "a"'),
    "repeated, long": (
        b'{"a%b": 1, "a%b": 1}' % (b"b" * 100, b"b" * 100),
        f'must not repeat the name "a{"b" * 99}"',
    ),
    "repeated, deeper": (b'{"title": {"a": 1, "a": 1}}', 'must not repeat the name "a"'),
    "too many members": (members(257), "must not contain an object with more than 256 members"),
    "too many strings": (titled(b"[" + b'"x",' * 20_000 + b"0]"), "must not contain more than"),
    "too many numbers": (titled(b"[" + b"0," * 40_000 + b"0]"), "must not contain more than 16384"),
    "deep arrays": (titled(b"[" * DEEP + b"]" * DEEP), DEPTH),
    "deep objects": (titled(b'{"a":' * DEEP + b"1" + b"}" * DEEP), DEPTH),
    "one array too deep": (titled(b"[" * TOO_DEEP + b"]" * TOO_DEEP), DEPTH),
    "one object too deep": (titled(b'{"a":' * TOO_DEEP + b"1" + b"}" * TOO_DEEP), DEPTH),
    "deep behind brackets in strings": (
        b'{"a": "]]]]\\"]]]]", "b": ' + b"[" * TOO_DEEP + b"]" * TOO_DEEP + b"}",
        DEPTH,
    ),
    "deep in a string that does not end": (b'{"a": "' + b"[" * DEEP, SYNTAX),
    "deep between strings that do not end": (b'"' + b"[" * DEEP, SYNTAX),
    "deep, in a large text": (titled(b"[" * 200 + b" " * 70_000 + b"]" * 200), DEPTH),
    "very deep, in a large text": (titled(b"[" * 90_000), "must not contain more than 16384"),
    "many pairs without a comma": (titled(b"[]" * 90_000), "must not contain more than 16384"),
    "deep, never closed": (b"[" * DEEP, DEPTH),
    "invalid UTF-8": (titled(b'"\xff"'), ENCODING),
    "truncated UTF-8": (titled(b'"\xe2\x82"'), ENCODING),
    "overlong UTF-8": (titled(b'"\xc0\xaf"'), ENCODING),
    "surrogate in UTF-8": (titled(b'"\xed\xa0\x80"'), ENCODING),
    "Latin-1": ('{"title": "Café"}'.encode("latin-1"), ENCODING),
    "UTF-16": ('{"title": "x"}'.encode("utf-16"), ENCODING),
    "UTF-16 without mark": ('{"title": "x"}'.encode("utf-16-le"), SYNTAX),
    "UTF-32": ('{"title": "x"}'.encode("utf-32-be"), SYNTAX),
}  # fmt: skip


def test_text_that_is_not_a_strict_json_object_is_rejected_with_a_short_reason():
    for name, (content, reason) in INVALID.items():
        with pytest.raises(StrictJSONError, match=f"^{re.escape(reason)}") as caught:
            parse_object(content)
        assert len(str(caught.value)) < 280, name


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"{}", {}),
        (b' \r\n\t{ "a" :1 , "b":null } \n', {"a": 1, "b": None}),
        (titled(b'"\\u00e9\xc3\xa9\\ud83d\\ude00\\/"'), {"title": "éé\U0001f600/"}),
        (titled(b"9" * MAX_DIGITS), {"title": int("9" * MAX_DIGITS)}),
        (titled(b"[-1.5e3, 1e308, true]"), {"title": [-1500.0, 1e308, True]}),
        # These two load, because the fields reject them with a message that names the field.
        (titled(rb'"\u0000"'), {"title": "\0"}),
        (titled(rb'"\ud800"'), {"title": "\ud800"}),
        # Brackets inside strings, and brackets of neighbours, do not count as nested.
        (titled(b'"' + b"[{" * DEEP + b'"'), {"title": "[{" * DEEP}),
        (titled(b"[" + b"[]," * 4000 + b"{}]"), {"title": [*([[]] * 4000), {}]}),
        (members(MAX_MEMBERS), {str(number): 0 for number in range(MAX_MEMBERS)}),
        (b'{"a": {"x": 1}, "b": {"x": 1}}', {"a": {"x": 1}, "b": {"x": 1}}),
    ],
)
def test_a_json_object_loads_as_a_dict(content, value):
    assert parse_object(content) == value


def test_an_object_as_deep_as_allowed_loads_even_deep_in_the_call_stack():
    def load(frames):
        text = titled(b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1))
        return load(frames - 1) if frames else parse_object(text)

    assert load(500).keys() == {"title"}


@pytest.mark.parametrize("echo", [b"\\\\", b'\\"', b'\\\\\\"', b"\\\\,", b'\\",'])
def test_backslashes_and_quotes_inside_strings_are_not_counted_as_values(echo):
    """Values are counted before parsing; strings may have any number of these characters."""
    text = titled(b'"' + echo * 30_000 + b'"')
    assert set(parse_object(text)) == {"title"}
    # The last value is outside of the string, however the string ends.
    many = titled(b'["' + echo + b'"' + b",0" * 40_000 + b"]")
    with pytest.raises(StrictJSONError, match="more than 16384 values"):
        parse_object(many)


# The count is the commas outside strings, plus the strings, names of members included.
@pytest.mark.parametrize(("item", "most"), [(b"0", 16_385), (b'"x"', 16_383)])
def test_a_large_text_may_contain_16384_values_at_most(item, most):
    def list_of(number):
        return b'{"a": [' + b",".join([item] * number) + b"]" + b" " * 70_000 + b"}"

    assert len(parse_object(list_of(most))["a"]) == most
    with pytest.raises(StrictJSONError, match="more than 16384 values"):
        parse_object(list_of(most + 1))


def test_numbers_count_even_after_the_largest_number_of_strings():
    text = b'{"a": [' + b'"x",' * 16_383 + b"0," * 17_000 + b"0]" + b" " * 70_000 + b"}"
    with pytest.raises(StrictJSONError, match="more than 16384 values"):
        parse_object(text)


def test_the_limit_of_16384_values_applies_only_to_a_long_json_text():
    text = b"[" + b"0," * 20_000 + b"0]"
    assert len(titled(text)) < 65_536
    assert len(parse_object(titled(text))["title"]) == 20_001
    padding = b" " * (65_536 - len(titled(text)))
    assert len(parse_object(titled(text + padding))["title"]) == 20_001
    with pytest.raises(StrictJSONError, match="more than 16384 values"):
        parse_object(titled(text + padding + b" "))
