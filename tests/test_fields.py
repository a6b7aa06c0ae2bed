"""The fields by themselves: what each takes, as what, and what it refuses."""

from datetime import UTC, datetime

import pytest
from marshmallow import ValidationError

from service.fields import (
    NIL_UUID,
    Boolean,
    Cursor,
    Email,
    Enum,
    Id,
    Limit,
    Page,
    Resource,
    StringList,
    Text,
    Timestamp,
    Timezone,
    uuid_or_nil,
)

pytestmark = pytest.mark.nodatabase


def refuses(field, value):
    with pytest.raises(ValidationError) as caught:
        field.deserialize(value)
    return " ".join(map(str, caught.value.messages))


@pytest.mark.parametrize(
    ("text", "moment"),
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
    ],
)
def test_a_timestamp_is_taken_in_utc_to_the_millisecond(text, moment):
    assert Timestamp().deserialize(text) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "today", "epoch", "infinity", "2026-11-20", "20261120T110243Z", "2026-W01-1T00:00Z",
        "2026-324T00:00:00Z", "2026-11-20 11:02:43Z", "2026-11-20T11Z", "2026-11-20t11:02:43z",
        "2026-11-20T11:02:43z", "2026-11-20T24:00:00Z", "2026-11-20T23:59:60Z", "2026-11-20T11:60:00Z",
        "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
        "0000-01-01T00:00:00Z", "2026-1-1T00:00:00Z", "2026-11-20T11:02:43Z\0", "2026-11-20T11:02:43Z\n",
        " 2026-11-20T11:02:43Z", "2026-11-20T11:02:43 Z", "2026-11-20T11:02:43.Z",
        "\uff12\uff1026-11-20T11:02:43Z",
        "2026-11-20T11:02:43+24:00", "2026-11-20T11:02:43+5:30",
        "2026-11-20T11:02:43[Europe/Berlin]", "+2026-11-20T11:02:43Z", "-2026-11-20T11:02:43Z",
        "2026-11-20T11:02:43UTC", "1700000000", 1700000000, 1.5, None, True, [], {},
    ],
)  # fmt: skip
def test_anything_that_is_no_iso_8601_timestamp_with_a_time_is_refused(text):
    assert refuses(Timestamp(), text)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+01:00",
        "0001-01-01T00:00:00Z",
        "1899-12-31T23:59:59Z",
        "1900-01-01T00:00:00+01:00",
        "9998-12-31T23:59:59-01:00",
        "9999-01-01T00:00:00Z",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_a_timestamp_outside_the_years_1900_to_9998_is_refused(text):
    assert refuses(Timestamp(), text) == "must be in the years 1900 to 9998 (UTC)"


def test_a_text_keeps_what_it_is_and_has_a_length():
    assert Text(3).deserialize(" a ") == " a "
    assert Text(1, min=1, trim=True).deserialize(" \t\na\u2003") == "a"
    assert Text(2).deserialize("\U0001f600" * 2) == "\U0001f600" * 2
    assert refuses(Text(3), "aaaa") == "must have 0 to 3 characters, not 4"
    assert refuses(Text(3, min=1, trim=True), " \u00a0 ") == "must have 1 to 3 characters, not 0"


@pytest.mark.parametrize("value", ["\0", "a\0", "\ud800", "a\udfff", 1, 1.0, True, [], {}, None])
def test_a_text_is_a_string_that_can_be_stored(value):
    assert refuses(Text(10), value).startswith("must ")


def test_a_choice_is_one_of_its_words():
    assert Enum("a", "b").deserialize("b") == "b"
    for value in ("A", "", "a ", "c", 1, None, True, ["a"], {"a": 1}):
        assert refuses(Enum("a", "b"), value)
    assert refuses(Enum("a", "b"), "c") == "must be one of: a, b"


UUID = "0199d0b4-0b5e-7cc3-98c4-dc0c0c07398f"


def test_a_malformed_id_is_nobody():
    assert uuid_or_nil(UUID) == UUID
    assert uuid_or_nil(UUID.upper()).lower() == UUID
    for text in (
        "",
        UUID[1:],
        UUID + "\n",
        UUID.replace("-", ""),
        f"{{{UUID}}}",
        "x",
        None,
        1,
        "é",
        "\0",
    ):
        assert uuid_or_nil(text) == NIL_UUID


def test_an_id_is_a_string_of_at_most_128_characters():
    assert Id().deserialize(UUID) == UUID
    assert Id().deserialize("x" * 128) == NIL_UUID
    for value in ("", "x" * 129, 1, None, [], "\0", "\ud800"):
        assert refuses(Id(), value)


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+12"]
)
def test_a_timezone_is_an_iana_name(name):
    assert Timezone().deserialize(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "europe/berlin", "Berlin", "posixrules", "localtime", "Factory", "right/UTC", "posix/UTC", "+01:00",
     "UTC+1", "../../etc/passwd", "/etc/localtime", "Europe/", "Europe", "a\0", "x" * 129, 1, None],
)  # fmt: skip
def test_anything_else_is_no_timezone(name):
    assert refuses(Timezone(), name)


def test_an_address_is_one_e_mail_address():
    for address in ("ada@example.com", "a.b+c@sub.example.org", "ADA@EXAMPLE.COM"):
        assert Email().deserialize(address) == address
    for address in ("", "ada", "@example.com", "ada@", "a b@example.com", "a@b@c.de", "a@example.com\n",
                    "Ada <ada@example.com>", "a" * 250 + "@b.de", "a\0@example.com", 1, None):  # fmt: skip
        assert refuses(Email(), address)


def test_a_list_has_an_order_a_length_and_no_repeats():
    texts = StringList(Text(5, min=1), 3, unique=True)
    assert texts.deserialize(["b", "a"]) == ["b", "a"]
    assert texts.deserialize([]) == []
    assert refuses(texts, ["a", "b", "c", "d"]) == "must have at most 3 entries, not 4"
    assert refuses(texts, ["a", "A"]) == "must not contain duplicates: A"
    for value in ("a", {}, {"0": "a"}, 1, None, ["a", None], [["a"]], [1], [""], ["\0"]):
        assert refuses(texts, value)
    assert StringList(Text(5), 3).deserialize(["a", "a"]) == ["a", "a"]


def test_a_flag_is_true_or_false_in_these_words():
    assert Boolean(query=True).deserialize("true") is True
    assert Boolean(query=True).deserialize("false") is False
    for value in ("", "True", "TRUE", "1", "0", "yes", "on", "null", " true"):
        assert refuses(Boolean(query=True), value) == "must be true or false"


def test_a_limit_is_a_whole_number_lowered_to_the_maximum():
    limit = Limit(50, 200)
    taken = {"1": 1, "200": 200, "201": 200, "9" * 400: 200, "1000000001": 200}
    for text, number in taken.items():
        assert limit.deserialize(text) == number
    for text in (
        "",
        "0",
        "000",
        "007",
        "-1",
        "+1",
        "1.0",
        "1e2",
        "1_0",
        "\uff15",
        "\u0663",
        " 1",
        "1 ",
        "1\n",
        "0x1",
        "x",
    ):
        assert refuses(limit, text) == "must be an integer from 1 to 200"


ID = "0123456789abcdef" * 2


def test_a_cursor_is_an_id_or_a_key_and_an_id():
    assert Cursor().deserialize(ID) == (None, ID)
    assert Cursor(keyed=True).deserialize(f"-12.{ID}") == ("-12", ID)
    for text in ("", "=" * 4, "%%%", ID[1:], ID + "0", ID.upper(), f"1.{ID}", ID + "\n", "é", "\0"):
        assert refuses(Cursor(), text) == "must be the nextCursor of an earlier response"
    for text in (
        "",
        ID,
        f".{ID}",
        f"1,{ID}",
        f"1.5.{ID}",
        f"{'9' * 16}.{ID}",
        f"\u0663.{ID}",
        f"+1.{ID}",
    ):
        assert refuses(Cursor(keyed=True), text)


class Things(Resource):
    due_date = Timestamp()
    only_title = Text(5, data_key="title")


def test_names_are_camel_case_outside_and_snake_case_inside():
    assert Things().load({"dueDate": "2026-01-01T00:00Z", "title": "x"}) == {
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
def test_an_unknown_name_is_refused_with_the_nearest(name, hint):
    with pytest.raises(ValidationError) as caught:
        Things().load({name: "x"})
    assert caught.value.messages == {name: [f"unknown field; {hint}"]}


def test_a_page_has_its_defaults():
    assert Page().load({}) == {"limit": 50, "after": None, "after_id": None}
