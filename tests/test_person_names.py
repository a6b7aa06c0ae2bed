"""The name of a person: who may change it, and which characters it may have everywhere."""

import json
import re
import unicodedata

import pytest
from support.commands import CommandRunner, assert_failed, value
from support.derived import settable, views
from support.http import Client, error_message, invalid_field
from support.openapi_check import LOGIN_KEY, violations
from support.rows import TOKENS, count, insert_member, insert_token

from service.api.me import Me
from service.api.sessions import Session
from service.commands.load.lines import TYPES
from service.openapi.json_schema import Schemas
from service.values.types import PersonName

# Names whose characters turn the text around, end a line, or steer a terminal.
FOUL = (
    "Fool \u202e",
    "Fo\u2066ol",
    "\u200fFool",
    "Fo\nol",
    "Fo\tol",
    "Fo\x1b[31mol",
    "Fo\x85ol",
    "\x7f",
)
DIRECTIONS = "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
MESSAGE = "must not contain control characters or characters that change the direction of text"
# Names with joiners, combining marks, right-to-left letters, and an emoji of several characters.
FAIR = (
    "Dr. Mia Chen", "Zoë", "Zoe\u0308", "\u05d3\u05d5\u05d3", "\u0646\u06cc\u200c\u06a9",
    "\U0001f469\u200d\U0001f4bb", "梅", "O'Neil <3", "x" * 120,
)  # fmt: skip


def names(schema):
    return [field for field in settable(schema) if isinstance(field, PersonName)] if schema else []


@pytest.fixture
def cli(app):
    return lambda *words: CommandRunner(app).invoke(args=words)


@pytest.fixture
def named(connection):
    """Return the names of all users."""
    return lambda: {
        row["email"]: row["name"]
        for row in connection.execute("SELECT email, name FROM users").fetchall()
    }


# By operation that takes a name: the path, the rest of the body, and the credential.
OPERATIONS = {
    "PATCH /api/me": ("/me", {}, TOKENS["alice"]),
    "POST /api/session": ("/session", {"email": "alice@example.com"}, LOGIN_KEY),
    "POST /api/workspaces/<id:id>/members": (
        "/workspaces/{acme}/members",
        {"email": "{number}@example.com"},
        TOKENS["alice"],
    ),
}


def test_only_the_listed_operations_and_one_kind_of_line_take_the_name_of_a_person():
    taking = {view.name for view in views() if view.takes_body and names(view.arguments)}
    # This operation exists only with the setting LOGIN_KEY.
    assert taking | {"POST /api/session"} == OPERATIONS.keys()
    assert names(Session())
    assert [kind for kind, line in TYPES.items() if names(line)] == ["user"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_requests_reject_names_that_would_steer_a_terminal_or_the_direction_of_text(
    app, cast, connection, named, operation
):
    path, others, token = OPERATIONS[operation]
    client, before, tokens = Client(app, token), named(), count(connection, "tokens")

    def sent(name, number=0):
        body = {key: text.format(number=number) for key, text in others.items()}
        method = operation.partition(" ")[0]
        return client.send(method, path.format(**cast), json={**body, "name": name})

    for name in FOUL:
        assert invalid_field(sent(name), "name") == MESSAGE
    assert (named(), count(connection, "tokens")) == (before, tokens)
    for number, name in enumerate(FAIR):
        response = sent(f" {name}\n", number)
        assert response.status_code in (200, 201), name
        shown = response.get_json()
        assert shown.get("user", shown)["name"] == name
        assert name in named().values()


def test_commands_and_load_reject_the_names_that_requests_reject(cli, named, tmp_path):
    before = named()
    for name in FOUL:
        assert_failed(cli("user", "create", "new@example.com", name), f"NAME: {MESSAGE}")
        assert_failed(cli("user", "rename", "bob@example.com", name), f"NAME: {MESSAGE}")
        line = {"type": "user", "email": "new@example.com", "name": name}
        path = tmp_path / "line"
        path.write_text(json.dumps(line))
        assert_failed(cli("load", str(path)), f"name: {MESSAGE}")
    assert named() == before


def test_an_operator_can_rename_a_user(cli, cast, named, alice):
    assert value(cli("user", "rename", "BOB@example.com", " Robert ")) == cast["bob"]
    assert named()["bob@example.com"] == "Robert"
    members = alice.get(f"/workspaces/{cast['acme']}/members").get_json()
    assert [member["name"] for member in members] == ["Alice", "Robert"]
    absent = cli("user", "rename", "nobody@example.com", "X")
    assert_failed(absent, "there is no user nobody@example.com")


def test_a_user_can_change_their_own_name_and_every_workspace_shows_it(
    alice, bob, cast, connection, named
):
    before = named()
    insert_member(connection, cast["globex"], cast["bob"])
    changed = bob.patch("/me", {"name": "Robert"})
    assert changed.get_json()["user"]["name"] == "Robert"
    assert bob.get("/me").get_json()["user"]["name"] == "Robert"
    assert alice.get(f"/workspaces/{cast['acme']}/members").get_json()[1]["name"] == "Robert"
    assert named() == {**before, "bob@example.com": "Robert"}
    assert count(connection, "events") == 0
    # A client can send back the whole object that it has read.
    shown = bob.get("/me").get_json()
    assert bob.patch("/me", {**shown, "name": "Bob"}).get_json()["user"]["name"] == "Bob"
    assert invalid_field(bob.patch("/me", {"name": None}), "name") == "must not be null"


def test_one_patch_changes_the_name_and_the_active_workspace_or_neither(
    alice, cast, initech, named
):
    body = {"name": "Alicia", "workspaceId": cast["globex"]}
    assert invalid_field(alice.patch("/me", body), "workspaceId")
    assert named()["alice@example.com"] == "Alice"
    changed = alice.patch("/me", {**body, "workspaceId": initech}).get_json()
    assert (changed["user"]["name"], changed["workspace"]["id"]) == ("Alicia", initech)


def test_a_user_without_a_workspace_can_change_their_name(bob, connection, named):
    connection.execute("DELETE FROM members")
    changed = bob.patch("/me", {"name": "Robert"}).get_json()
    assert (changed["user"]["name"], changed["workspace"]) == ("Robert", None)
    assert named()["bob@example.com"] == "Robert"


def test_a_token_for_one_workspace_and_a_read_token_cannot_change_the_name(
    app, connection, cast, initech, named
):
    before = named()
    insert_token(connection, cast["alice"], "of-acme", workspace_id=cast["acme"])
    insert_token(connection, cast["alice"], "reader", scope="read")
    for body in ({"name": "Fool"}, {"name": "Fool", "workspaceId": initech}):
        refused = Client(app, "of-acme").patch("/me", body)
        assert "works in one workspace only" in error_message(refused, 409)
        error_message(Client(app, "reader").patch("/me", body), 403)
    assert named() == before
    # An empty change is allowed, because it changes nothing.
    assert Client(app, "of-acme").patch("/me", {}).status_code == 200


def test_a_user_cannot_change_the_name_of_another_user(alice, cast, path_of, named):
    before = named()
    for member, status in (("bob", 200), ("charlie", 404)):
        body = {"name": "Fool", "role": "member"}
        assert alice.patch(path_of(cast[member]), body).status_code == status
    body = {"email": "Charlie@example.com", "name": "Fool"}
    assert alice.post(path_of()[:-1], body).get_json()["name"] == "Charlie"
    assert named() == before


@pytest.fixture
def path_of(cast):
    return lambda id="": f"/workspaces/{cast['acme']}/members/{id}"


def test_a_name_that_the_login_page_sends_replaces_the_stored_name(app, cast, connection, named):
    page, email = Client(app, LOGIN_KEY), {"email": "alice@example.com"}
    signed_in = page.post("/session", {**email, "name": "Dr. Alice"})
    assert signed_in.get_json()["user"]["name"] == "Dr. Alice"
    assert named() == {
        "alice@example.com": "Dr. Alice",
        "bob@example.com": "Bob",
        "charlie@example.com": "Charlie",
    }
    for body in ({}, {"name": None}):
        kept = page.post("/session", {**email, **body})
        assert kept.get_json()["user"]["name"] == "Dr. Alice"
    # A request that creates no session changes no name: one with a past expiry, with a key that was
    # used for another request, with a wrong credential, or for a deactivated user.
    key = {"Idempotency-Key": "sign-in"}
    page.post("/session", email, headers=key)
    past = {"name": "Fool", "expiresAt": "2020-01-01T00:00:00Z"}
    assert invalid_field(page.post("/session", {**email, **past}), "expiresAt")
    error_message(page.post("/session", {**email, "name": "Fool"}, headers=key), 422)
    for token in (TOKENS["alice"], LOGIN_KEY[:-1]):
        error_message(Client(app, token).post("/session", {**email, "name": "Fool"}), 401)
    connection.execute("UPDATE users SET deactivated_at = now() WHERE name = 'Bob'")
    error_message(page.post("/session", {"email": "bob@example.com", "name": "Fool"}), 404)
    assert named()["alice@example.com"] == "Dr. Alice"
    assert named()["bob@example.com"] == "Bob"


def test_sign_ins_of_the_same_user_at_the_same_time_wait_for_each_other(
    app, together, cast, connection, named
):
    sign_ins = [
        lambda name=name: Client(app, LOGIN_KEY).post(
            "/session", {"email": "alice@example.com", "name": name}
        )
        for name in ("One", "Two", "Three")
    ]
    responses = together("users", cast["alice"], *sign_ins)
    assert [response.status_code for response in responses] == [201] * 3
    assert named()["alice@example.com"] in ("One", "Two", "Three")
    assert count(connection, "tokens", "kind = 'session'") == 3


@pytest.mark.slow
def test_the_field_the_document_and_the_column_reject_the_same_characters_in_names(connection):
    """All characters are tried, except surrogates and NUL, which PostgreSQL cannot store."""
    characters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    foul = {
        char
        for char in characters
        if unicodedata.category(char) == "Cc"
        # Unicode's property Bidi_Control has the characters in DIRECTIONS, and three marks.
        or unicodedata.bidirectional(char) in DIRECTIONS
        or char in "\u061c\u200e\u200f"
    }
    assert len(foul) == 64 + 12
    allowed = PersonName.well_formed
    assert {char for char in characters if not allowed.fullmatch(f"a{char}b")} == foul
    pattern = re.compile(PersonName.json_schema["pattern"])
    assert {char for char in characters if not pattern.search(f"a{char}b")} == foul
    (check,) = connection.execute(
        "SELECT pg_get_expr(conbin, conrelid) AS text FROM pg_constraint"
        " WHERE conrelid = 'users'::regclass AND conname LIKE '%bidirectional%'"
    ).fetchall()
    rejected = connection.execute(
        "SELECT code FROM generate_series(1, 1114111) AS code"
        " CROSS JOIN LATERAL (SELECT 'a' || chr(code) || 'b' AS name OFFSET 0) AS named"
        f" WHERE code NOT BETWEEN 55296 AND 57343 AND NOT ({check['text']})"
    ).fetchall()
    assert {chr(row["code"]) for row in rejected} == foul


@pytest.mark.nodatabase
def test_the_document_allows_the_names_that_the_service_accepts_and_no_others():
    schema = Schemas({}).of_request(Me().fields["name"])
    for name in (*FAIR, " Mia\n", "\u3000Mia\u2028"):
        assert violations(schema, name) == [], name
    for name in (*FOUL, "", " ", "\n", "x" * 121, "a\0b"):
        assert violations(schema, name), name
