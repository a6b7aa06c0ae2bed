"""The fields alone: the values that each accepts, loads and rejects."""

import re
import time
from datetime import UTC, datetime

import pytest
from marshmallow import ValidationError

from service.values.fields import (
    EMAIL,
    MAX_REFERENCE,
    MAX_URL,
    NIL_UUID,
    URL,
    Boolean,
    Choice,
    Cursor,
    Email,
    Enum,
    Id,
    Limit,
    StringList,
    Text,
    Timestamp,
    Timezone,
    uuid_or_nil,
)
from service.values.schemas import MAX_ECHO, MAX_ERRORS, PageQuery, Resource, flatten

pytestmark = pytest.mark.nodatabase

UUID = "0199d0b4-0b5e-7cc3-98c4-dc0c0c07398f"
CURSOR_ID = "0123456789abcdef" * 2


def message(field, value):
    """Return the message of the field for an invalid value."""
    with pytest.raises(ValidationError) as caught:
        field.deserialize(value)
    return " ".join(map(str, caught.value.messages))


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-20T11:02:43Z", "2026-11-20 11:02:43"),
        ("2026-11-20T11:02:43", "2026-11-20 11:02:43"),
        ("2026-11-20T11:02", "2026-11-20 11:02:00"),
        ("2026-11-20T11:02Z", "2026-11-20 11:02:00"),
        ("2026-11-20T11:02:43.7439Z", "2026-11-20 11:02:43.743000"),
        ("2026-11-20T11:02:43,5Z", "2026-11-20 11:02:43.500000"),
        ("2026-11-20T11:02:43.123456789Z", "2026-11-20 11:02:43.123000"),
        ("2026-11-20T11:02:43+05:30", "2026-11-20 05:32:43"),
        ("2026-11-20T00:00:00-0800", "2026-11-20 08:00:00"),
        ("2026-11-20T11:02:43+00:00", "2026-11-20 11:02:43"),
        ("2026-11-20T11:02:43+23:59", "2026-11-19 11:03:43"),
        ("2024-02-29T00:00:00Z", "2024-02-29 00:00:00"),
        ("1900-01-01T00:00:00Z", "1900-01-01 00:00:00"),
        ("9998-12-31T23:59:59.999Z", "9998-12-31 23:59:59.999000"),
        ("1899-12-31T23:00:00-01:00", "1900-01-01 00:00:00"),
        ("9999-01-01T00:30:00+01:00", "9998-12-31 23:30:00"),
        ("2026-11-20T11:02:43+05", "2026-11-20 06:02:43"),
        ("2026-11-20t11:02:43z", "2026-11-20 11:02:43"),
        (f"2026-11-20T11:02:43.{'7' * 40}-00:00", "2026-11-20 11:02:43.777000"),
    ],
)
def test_a_timestamp_loads_in_utc_cut_to_milliseconds(text, utc):
    assert Timestamp().deserialize(text) == datetime.fromisoformat(utc).replace(tzinfo=UTC)


def test_a_timestamp_without_an_offset_is_utc_in_a_process_of_another_timezone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        loaded = Timestamp().deserialize("2026-11-20T11:02:43")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert loaded == datetime(2026, 11, 20, 11, 2, 43, tzinfo=UTC)


NO_TIMESTAMPS = [
    "", "now", "today", "epoch", "infinity", "2026-11-20", "20261120T110243Z", "2026-W01-1T00:00Z",
    "2026-324T00:00:00Z", "2026-11-20 11:02:43Z", "2026-11-20T11Z", "2026-11-20T24:00:00Z",
    "2026-11-20T23:59:60Z", "2026-11-20T11:60:00Z",
    "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-1-1T00:00:00Z", "2026-11-20T11:02:43Z\0",
    "2026-11-20T11:02:43Z\n", " 2026-11-20T11:02:43Z", "2026-11-20T11:02:43 Z",
    "2026-11-20T11:02:43.Z",
    "\uff12\uff1026-11-20T11:02:43Z", "2026-11-20T11:02:43+24:00", "2026-11-20T11:02:43+5:30",
    "2026-11-20T11:02:43[Europe/Berlin]", "+2026-11-20T11:02:43Z", "-2026-11-20T11:02:43Z",
    "2026-11-20T11:02:43UTC", "1700000000", 1700000000, 1.5, True, [], {},
]  # fmt: skip
NO_DAYS = ["2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "0000-01-01T00:00:00Z"]
OUT_OF_RANGE = [
    "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "1899-12-31T23:59:59Z",
    "1900-01-01T00:00:00+01:00", "9998-12-31T23:59:59-01:00", "9999-01-01T00:00:00Z",
    "9999-12-31T23:59:59-01:00",
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *((value, "must be an ISO 8601 timestamp with a time, like ") for value in NO_TIMESTAMPS),
        *((value, f"must be a day that exists, unlike {value[:10]}") for value in NO_DAYS),
        *((value, "must be in the years 1900 to 9998 (UTC)") for value in OUT_OF_RANGE),
    ],
)
def test_text_in_another_form_is_no_timestamp(value, reason):
    assert message(Timestamp(), value).startswith(reason)


def test_a_text_loads_unchanged_and_has_a_length():
    assert Text(3).deserialize(" a ") == " a "
    assert Text(1, min=1, trim=True).deserialize(" \t\na\u2003") == "a"
    assert Text(2).deserialize("\U0001f600" * 2) == "\U0001f600" * 2
    assert message(Text(3), "aaaa") == "must have 0 to 3 characters, not 4"
    assert message(Text(3, min=1, trim=True), " \u00a0 ") == "must have 1 to 3 characters, not 0"


REASONS = {
    "must be a string": (1, 1.0, True, [], {}),
    "must not be null": (None,),
    "must not contain the character NUL": ("\0", "a\0"),
    "must not contain an unpaired surrogate": ("\ud800", "a\udfff"),
}


@pytest.mark.parametrize(
    ("value", "reason"), [(value, reason) for reason in REASONS for value in REASONS[reason]]
)
def test_a_text_is_a_string_that_postgres_can_store(value, reason):
    assert message(Text(10), value) == reason


def test_an_enum_has_a_few_values():
    assert Enum("a", "b", schema_name="Letter").deserialize("b") == "b"
    for value in ("A", "", "a ", "c", 1, True, ["a"], {"a": 1}):
        assert message(Enum("a", "b", schema_name="Letter"), value) == "must be one of: a, b"
    assert message(Enum("a", schema_name="Letter"), None) == "must not be null"


NO_UUIDS = (
    "", UUID[1:], UUID + "\n", UUID.replace("-", ""), f"{{{UUID}}}", "x", None, 1, "é", "\0",
)  # fmt: skip


def test_a_malformed_id_is_the_nil_uuid():
    assert uuid_or_nil(UUID) == UUID
    assert uuid_or_nil(UUID.upper()) == UUID
    assert {uuid_or_nil(text) for text in NO_UUIDS} == {NIL_UUID}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "must be an id, like 0190163d-8694-739b-aea5-966c26f8ad91"),
        (("me", "none"), "must be an id, or one of: me, none"),
    ],
)
def test_an_id_is_a_uuid_or_a_word(words, reason):
    assert Id(words=words).deserialize(UUID) == Id(words=words).deserialize(UUID.upper()) == UUID
    assert [Id(words=words).deserialize(word) for word in words] == [*words]
    for value in (*NO_UUIDS, "null", "Me", "x" * 10_000, "\ud800"):
        if isinstance(value, str):
            assert message(Id(words=words), value) == reason
    for value in (1, [], True):
        assert message(Id(words=words), value) == "must be a string"


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+12"]
)
def test_a_timezone_is_an_iana_name(name):
    assert Timezone().deserialize(name) == name


@pytest.mark.parametrize(
    "name",
    ["europe/berlin", "Berlin", "posixrules", "localtime", "Factory", "right/UTC", "posix/UTC",
     "+01:00", "UTC+1", "../../etc/passwd", "/etc/localtime", "Europe/", "Europe"],
)  # fmt: skip
def test_a_name_outside_iana_is_no_timezone(name):
    assert message(Timezone(), name) == "must be an IANA timezone name, like Europe/Berlin"


NO_EMAILS = (
    "ada", "@example.com", "ada@", "a b@example.com", "a@b@c.de", "a@example.com\n",
    "Ada <ada@example.com>", "ada@localhost", "ada@[127.0.0.1]", "ü@example.com", "ada@exämple.com",
    '"a"@example.com', "ada@example." + "c" * 64,
)  # fmt: skip


def test_an_email_is_one_address():
    for email in ("ada@example.com", "a.b+c@sub.example.org", "ADA@EXAMPLE.COM"):
        assert Email().deserialize(email) == email
    for email in NO_EMAILS:
        assert message(Email(), email) == "must be an e-mail address, like ada@example.com"
        # The document forbids this address; the service must not store it or return it.
        assert not re.fullmatch(EMAIL, email)
    # RFC 5321: the part before the @ has at most 64 octets.
    assert Email().deserialize("a" * 64 + "@example.com")
    assert message(Email(), "a" * 65 + "@example.com").startswith("must be an e-mail address")
    assert message(Email(), "a" * 250 + "@b.de") == "must have 3 to 254 characters, not 255"


def test_a_text_of_a_known_form_has_at_least_one_character():
    for field, longest in (
        (Timezone(), MAX_REFERENCE),
        (URL(), MAX_URL),
        (Choice("a", "b"), MAX_REFERENCE),
    ):
        assert message(field, "") == f"must have 1 to {longest} characters, not 0"
        assert field.metadata["minLength"] == 1
    too_long = "https://example.com/".ljust(2049, "x")
    assert URL().deserialize(too_long[:-1])
    assert message(URL(), too_long) == "must have 1 to 2048 characters, not 2049"
    assert Choice("a", "b").deserialize("b") == "b"
    assert message(Choice("a", "b"), "c") == "must be one of: a, b"


def test_a_list_of_strings_has_an_order_a_length_and_no_duplicates():
    texts = StringList(Text(5, min=1), 3, unique=True)
    assert texts.deserialize(["b", "a"]) == ["b", "a"]
    assert texts.deserialize([]) == []
    assert texts.deserialize(["a", "b", "c"]) == ["a", "b", "c"]
    assert message(texts, ["a", "b", "c", "d"]) == "must have at most 3 entries, not 4"
    assert message(texts, ["a", "A"]) == "must not contain duplicates: A"
    for value in ("a", {}, {"0": "a"}, 1):
        assert message(texts, value) == "must be a list"
    for value in (None, ["a", None], [["a"]], [1], [""], ["\0"]):
        assert message(texts, value)
    assert StringList(Text(5), 3).deserialize(["a", "a"]) == ["a", "a"]


@pytest.mark.parametrize("query", [False, True])
def test_a_boolean_is_true_or_false(query):
    values = ("true", "false") if query else (True, False)
    assert [Boolean(query=query).deserialize(value) for value in values] == [True, False]
    other = (True, False, 1) if query else ("true", "false", 1, 0)
    for value in (*other, "", "True", "TRUE", "1", "0", "yes", "on", "null", " true"):
        assert message(Boolean(query=query), value) == "must be true or false"


NO_LIMITS = (
    "", "0", "000", "007", "-1", "+1", "1.0", "1e2", "1_0", "\uff15", "\u0663", " 1", "1 ", "1\n",
    "0x1", "x",
)  # fmt: skip


def test_a_limit_is_an_integer_lowered_to_the_maximum():
    limits = {"1": 1, "200": 200, "201": 200, "9" * 400: 200, "1000000001": 200}
    assert {text: Limit(50, 200).deserialize(text) for text in limits} == limits
    for text in NO_LIMITS:
        assert message(Limit(50, 200), text) == "must be an integer from 1 to 200"


NO_CURSORS = {
    False: ("", "=" * 4, "%%%", CURSOR_ID[1:], CURSOR_ID + "0", CURSOR_ID.upper(),
            f"1.{CURSOR_ID}", CURSOR_ID + "\n", "é", "\0"),
    True: ("", CURSOR_ID, f".{CURSOR_ID}", f"1,{CURSOR_ID}", f"1.5.{CURSOR_ID}",
           f"{'9' * 16}.{CURSOR_ID}", f"\u0663.{CURSOR_ID}", f"+1.{CURSOR_ID}"),
}  # fmt: skip


@pytest.mark.parametrize("keyed", [False, True])
def test_a_cursor_is_an_id_or_a_key_and_an_id(keyed):
    text, loaded = (f"-12.{CURSOR_ID}", "-12") if keyed else (CURSOR_ID, None)
    assert Cursor(keyed=keyed).deserialize(text) == (loaded, CURSOR_ID)
    for text in NO_CURSORS[keyed]:
        error = message(Cursor(keyed=keyed), text)
        assert error == "must be the nextCursor of an earlier response"


class Example(Resource):
    due_date = Timestamp()
    only_title = Text(5, data_key="title")


def test_names_are_camel_case_in_json_and_snake_case_in_python():
    assert Example().load({"dueDate": "2026-01-01T00:00Z", "title": "x"}) == {
        "due_date": datetime(2026, 1, 1, tzinfo=UTC),
        "only_title": "x",
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("due_date", "did you mean dueDate?"),
        ("Title", "did you mean title?"),
        ("zzz", "allowed: dueDate, title"),
    ],
)
def test_an_unknown_name_is_rejected_with_the_nearest(name, hint):
    with pytest.raises(ValidationError) as caught:
        Example().load({name: "x"})
    assert caught.value.messages == {name: [f"unknown field; {hint}"]}


def test_errors_are_flat_and_bounded():
    with pytest.raises(ValidationError) as caught:
        Example().load({"x" * 2 * MAX_ECHO + str(number): 1 for number in range(2 * MAX_ERRORS)})
    errors = flatten(caught.value)
    assert len(errors) == MAX_ERRORS == 20
    assert {len(error.field) for error in errors} == {MAX_ECHO} == {100}
    nested = ValidationError({"attendees": {2: ["x"]}, "a": {"b": ["y"]}, "\ud800": ["z"]})
    assert flatten(nested) == [("attendees[2]", "x"), ("a.b", "y"), ("?", "z")]


def test_a_page_has_its_defaults():
    assert PageQuery().load({}) == {"limit": 50, "after": None, "after_id": None}
