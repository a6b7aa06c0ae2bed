"""E-mail addresses: every way in applies the same rule, and says what is wrong with an address."""

import json

import pytest
from support.commands import CommandRunner, assert_failed
from support.derived import settable, views
from support.http import Client, invalid_field
from support.openapi_check import LOGIN_KEY
from support.rows import TOKENS, count

from service.api.sessions import Session
from service.commands.load.lines import TYPES
from service.values.types import Email, StringList

# Addresses, and the message about each.
WRONG = {
    "ümit@example.com": "must be in ASCII: ",
    "用户@例え.jp": "must be in ASCII: ",
    "info@münchen.de": "must be in ASCII: ",
    "ada..b@example.com": "must have 1 to 64 characters before the @",
    "ada@localhost": "must have a domain like example.com after the @",
    "ada@[127.0.0.1]": "must have a domain like example.com after the @",
    "Ada <ada@example.com>": "must be an e-mail address, like ada@example.com",
}
# An address that release 1.1.0 could store, but that is accepted no longer.
STORED = "ada@example.12"
NOON = {"startTime": "2099-01-01T12:00:00Z", "endTime": "2099-01-01T13:00:00Z"}


def addresses(schema):
    """Return the names of the fields that take an address or a list of addresses."""
    fields = settable(schema) if schema else []
    return {
        field.data_key
        for field in fields
        if isinstance(field.inner if isinstance(field, StringList) else field, Email)
    }


# By operation that takes addresses: the path, the field, the rest of the body, and the credential.
OPERATIONS = {
    "POST /api/meetings": ("/meetings", "attendees", {"title": "x", **NOON}, TOKENS["alice"]),
    "PATCH /api/meetings/<id:id>": ("/meetings/{meeting}", "attendees", {}, TOKENS["alice"]),
    "POST /api/session": ("/session", "email", {}, LOGIN_KEY),
    "POST /api/workspaces/<id:id>/members": (
        "/workspaces/{acme}/members", "email", {}, TOKENS["alice"],
    ),
}  # fmt: skip
MAIL = {"workspace": "acme", "user": "alice@example.com", "receivedAt": "2026-01-01T00:00:00Z"}
SENDER = {"from": "ada@example.com"}
# By type of line and field that takes addresses: the other members of the line.
LINES = {
    ("user", "email"): {"name": "Ada"},
    ("meeting", "attendees"): {"workspace": "acme", "title": "x", **NOON},
    ("mail", "from"): MAIL,
    ("mail", "to"): {**MAIL, **SENDER},
}


def test_only_the_listed_operations_and_lines_take_addresses():
    taking = {view.name for view in views() if view.takes_body and addresses(view.arguments)}
    # This operation exists only with the setting LOGIN_KEY.
    assert taking | {"POST /api/session"} == OPERATIONS.keys()
    assert addresses(Session())
    assert {(kind, name) for kind, line in TYPES.items() for name in addresses(line)} == set(LINES)


@pytest.fixture
def cli(app):
    return lambda *words: CommandRunner(app).invoke(args=words)


@pytest.fixture
def load(cli, tmp_path):
    """Return a function that loads one line."""
    path = tmp_path / "line"

    def load(line):
        path.write_text(json.dumps(line))
        return cli("load", str(path))

    return load


@pytest.fixture
def everything(connection):
    """Return a function that returns the rows which hold addresses."""
    tables = "users", "members", "meetings", "mail"
    return lambda: [
        connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_requests_reject_malformed_addresses_and_say_what_is_allowed(
    app, cast, insert_into, everything, operation
):
    path, field, others, token = OPERATIONS[operation]
    path = path.format(**cast, meeting=insert_into("meetings"))
    before = everything()
    for address, expected in WRONG.items():
        value = [address] if field == "attendees" else address
        method = operation.partition(" ")[0]
        response = Client(app, token).send(method, path, json={**others, field: value})
        assert invalid_field(response, field).startswith(expected)
    assert everything() == before


def test_commands_and_load_reject_the_addresses_that_requests_reject(cli, load, cast, everything):
    before = everything()
    for address, expected in WRONG.items():
        assert_failed(cli("user", "create", address, "Ada"), f"EMAIL: {expected}")
        assert_failed(cli("member", "add", "acme", address), f"EMAIL: {expected}")
        for (kind, field), others in LINES.items():
            many = isinstance(TYPES[kind].fields[named(kind, field)], StringList)
            line = {"type": kind, **others, field: [address] if many else address}
            assert_failed(load(line), expected)
    assert everything() == before


def named(kind, key):
    return next(name for name, field in TYPES[kind].fields.items() if field.data_key == key)


def test_an_address_that_a_release_stored_is_exported_loaded_and_found_but_not_accepted_again(
    app, alice, cli, load, cast, connection, insert_into
):
    for (kind, field), others in LINES.items():
        many = isinstance(TYPES[kind].fields[named(kind, field)], StringList)
        assert load({"type": kind, **others, field: [STORED] if many else STORED}).exit_code == 0
    assert count(connection, "users", f"email = '{STORED}'") == 1
    assert cli("member", "add", "acme", STORED).exit_code == 0
    exported = cli("workspace", "export", "acme").stdout
    assert exported.count(STORED) >= 4
    assert Client(app, LOGIN_KEY).post("/session", {"email": STORED}).status_code == 201
    # Charlie's workspace has no member with this address.
    owner = Client(app, TOKENS["charlie"])
    body = {"email": STORED.replace("ada", "bea")}
    refused = owner.post(f"/workspaces/{cast['globex']}/members", body)
    assert invalid_field(refused, "email").startswith("must have a domain like example.com")
    meeting = {"title": "x", **NOON, "attendees": [STORED]}
    assert invalid_field(alice.post("/meetings", meeting), "attendees")
    assert_failed(cli("user", "create", STORED.upper(), "Ada"), "must have a domain")
