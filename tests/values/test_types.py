"""The fields alone: the values that each accepts, loads and rejects."""

import re
import time
from datetime import UTC, datetime

import pytest
from marshmallow import ValidationError

from service.values.types import (
    EMAIL,
    CountingNumber,
    Email,
    Id,
    StoredEmail,
    Text,
    Timestamp,
    Timezone,
    singular,
    uuid_or_nil,
)

pytestmark = pytest.mark.nodatabase


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


def test_text_in_any_other_form_is_rejected_as_a_timestamp():
    for values, reason in (
        (NO_TIMESTAMPS, "must be an ISO 8601 timestamp with a time, like "),
        (NO_DAYS, "must be a day that exists; {:.10} does not"),
        (OUT_OF_RANGE, "must be in the years 1900 to 9998 (UTC)"),
    ):
        for value in values:
            assert message(Timestamp(), value).startswith(reason.format(value)), value


def test_an_id_loads_in_lower_case():
    id = "0199d0b4-0b5e-7cc3-98c4-dc0c0c07398f"
    assert Id().deserialize(id.upper()) == uuid_or_nil(id.upper()) == id


def test_a_text_loads_unchanged_unless_its_field_trims_it():
    assert Text(3).deserialize(" a ") == " a "
    assert Text(1, min=1, trim=True).deserialize(" \t\na\u2003") == "a"
    assert Text(2).deserialize("\U0001f600" * 2) == "\U0001f600" * 2


def test_a_name_that_is_not_in_the_iana_database_is_rejected_as_a_timezone():
    for name in (
        "europe/berlin", "Berlin", "posixrules", "localtime", "Factory", "right/UTC", "posix/UTC",
        "+01:00", "UTC+1", "../../etc/passwd", "/etc/localtime", "Europe/", "Europe",
    ):  # fmt: skip
        assert message(Timezone(), name) == "must be an IANA timezone name, like Europe/Berlin"


LABEL = "x" * 63
EMAILS = (
    "ada@example.com", "a.b+c@sub.example.org", "ADA@EXAMPLE.COM", "a" * 64 + "@example.com",
    "ada@1.2-3.co", "ada@xn--mnchen-3ya.de", "ada@example.xn--p1ai", f"a@{LABEL}.{LABEL}",
    f"{'a' * 60}@{LABEL}.{LABEL}.{LABEL[:-1]}.c2",
)  # fmt: skip
# By the beginning of the message: the texts that are no addresses.
NO_EMAILS = {
    "must be an e-mail address, like ada@example.com": [
        "ada", "@example.com", "ada@", "a b@example.com", "a@b@c.de", "a@example.com\n",
        "Ada <ada@example.com>", "ada@exa mple.com", "ada@example.com,bob@example.com",
    ],
    "must be in ASCII: write a domain in another alphabet in its xn-- form": [
        "ümit@example.com", "用户@例え.jp", "info@münchen.de", "ada@example.c\u0430",
        "a\u0308da@example.com",
    ],
    "must have 1 to 64 characters before the @": [
        "a" * 65 + "@example.com", ".ada@example.com", "ada.@example.com", "a..b@example.com",
        '"ada"@example.com', "ada(x)@example.com", "a,b@example.com", "a:b@example.com",
    ],
    "must have a domain like example.com after the @": [
        "ada@localhost", "ada@[127.0.0.1]", "ada@[IPv6:::1]", "ada@127.0.0.11", "ada@-example.com",
        "ada@example-.com", "ada@example.-com", "ada@example.com-", "ada@exam_ple.com",
        "ada@example..com", "ada@.example.com", "ada@example.com.", "ada@example.c",
        "ada@example.12", f"ada@{LABEL}x.com", f"ada@example.{LABEL}x",
    ],
    "must have 3 to 254 characters, not ": ["a@", "", "a" * 250 + "@b.de"],
}  # fmt: skip
STORED = "ada@example.-com", "ada@example.com-", "ada@127.0.0.11", "ada@example.12"


def test_an_email_must_be_exactly_one_address_in_ascii_with_a_domain():
    for email in EMAILS:
        assert Email().deserialize(email) == StoredEmail().deserialize(email) == email
        # The document allows this address.
        assert re.fullmatch(EMAIL, email)
    for expected, texts in NO_EMAILS.items():
        for text in texts:
            assert message(Email(), text).startswith(expected), text


def test_an_address_that_a_released_version_has_stored_stays_valid_where_it_is_looked_up():
    for email in STORED:
        assert message(Email(), email).startswith("must have a domain like example.com")
        assert StoredEmail().deserialize(email) == email
    for texts in NO_EMAILS.values():
        # The document forbids all other addresses that the service rejects.
        for text in texts:
            allowed = re.fullmatch(EMAIL, text) and len(text.partition("@")[0]) <= 64
            assert bool(allowed and len(text) <= 254) == (text in STORED), text


def test_messages_and_paths_name_one_object_of_a_collection_in_the_singular():
    for plural, word in ("tasks", "task"), ("categories", "category"), ("me", "me"):
        assert singular(plural) == word


def test_a_version_is_an_integer_and_no_other_value_that_equals_one():
    field = CountingNumber()
    assert field.deserialize(1) == 1
    for value in (True, 1.0, "1", 0, 1_000_000_000):
        with pytest.raises(ValidationError):
            field.deserialize(value)
