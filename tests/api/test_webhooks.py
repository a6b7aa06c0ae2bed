"""Webhooks over HTTP: for owners and admins of the active workspace; secrets are stored nowhere."""

import json
import logging
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from threading import Event

import pytest
from support.commands import CommandRunner
from support.derived import views
from support.http import Client, error_message, ids, invalid_field, location, names
from support.openapi_check import document, resolve, violations
from support.receivers import (
    KEY,
    announce,
    answer,
    deliveries,
    hang,
    is_genuine,
    reset,
    secret_of,
    subscribe,
    verified,
    webhook_row,
)
from support.rows import TOKENS, UNKNOWN, count, insert_token
from support.statements import run

from service import logs
from service.api.webhook_checks import LOOK_UP
from service.api.webhooks import NewWebhook
from service.values import types
from service.webhooks.worker import Worker


@pytest.fixture
def app(webhooks_app):
    return webhooks_app


@pytest.fixture
def webhook(connection, cast, receiver):
    return subscribe(connection, cast["acme"], receiver.url)


@pytest.fixture
def work(app):
    """Return a function that attempts the due deliveries and returns the number of attempts."""
    return lambda: Worker(app.config["SETTINGS"]).run_once()


def about(webhook, delivery=UNKNOWN):
    found = [view for view in views() if view.rule.startswith("/api/webhooks/<")]
    assert len(found) >= 8
    return [(view.method, view.path(webhook, delivery)) for view in found]


# Create


def test_a_new_webhook_receives_events_whose_signature_its_secret_verifies(
    alice, cast, connection, receiver
):
    response = alice.post("/webhooks", {"url": receiver.url})
    assert response.status_code == 201
    webhook = response.get_json()
    assert list(webhook) == names(NewWebhook)
    assert webhook == {
        "id": webhook["id"],
        "url": receiver.url,
        "events": None,
        "state": "enabled",
        "disabledReason": None,
        "failingSince": None,
        "gapSince": None,
        "waiting": 0,
        "nextAttemptAt": None,
        "createdAt": webhook["createdAt"],
        "version": 1,
        "secret": secret_of(webhook["id"]),
    }
    assert location(response) == f"/webhooks/{webhook['id']}"
    assert response.headers["ETag"] == '"1"'
    row = webhook_row(connection, webhook["id"])
    assert (str(row["workspace_id"]), row["url"], row["events"]) == (cast["acme"], receiver.url, [])
    alice.post("/tasks", {"title": "Signed"})
    received = receiver.take()
    assert is_genuine(webhook["secret"], received.body, received.headers["X-Service-Signature"])
    assert json.loads(received.body)["type"] == "task.created"


def test_a_webhook_may_list_only_known_types_of_events_and_each_of_them_once(alice, webhook):
    for events in (["task.moved"], ["task.created"] * 2):
        assert invalid_field(alice.patch(f"/webhooks/{webhook}", {"events": events}), "events")


UNUSABLE = {
    "must be an http or https URL in ASCII, with a host, without user name and password": [
        "ftp://127.0.0.1/", "127.0.0.1", "http://", "http://127.0.0.1/ä", "http://127.0.0.1/a b",
        "http://ada:secret@127.0.0.1/", "http://127.0.0.1:99999/", "http://[::1/",
        "http://127.0.0.1:0/", "https://127.0.0.1:0/",
    ],
    "must have a host that can be resolved within 2 s": ["http://a..b/"],
    "must have a host with public addresses only": ["http://10.0.0.1/", "http://[::ffff:a00:1]/"],
    "must have 1 to 2048 characters, not": ["", "http://127.0.0.1/" + "x" * 2048],
}  # fmt: skip


@pytest.mark.parametrize("message", UNUSABLE)
def test_a_webhook_gets_400_if_the_service_may_not_send_events_to_its_url(
    alice, connection, receiver, webhook, message
):
    for url in UNUSABLE[message]:
        for response in (
            alice.post("/webhooks", {"url": url}),
            alice.patch(f"/webhooks/{webhook}", {"url": url}),
        ):
            assert invalid_field(response, "url").startswith(message), url
            # The message reveals nothing of the service's network: no address that a name leads to.
            assert "10.0.0.1, which" not in response.text
    assert count(connection, "webhooks") == 1
    assert webhook_row(connection, webhook)["url"] == receiver.url


def test_creating_the_21st_webhook_gets_409_even_if_several_requests_run_at_the_same_time(
    alice, cast, connection, receiver
):
    for _ in range(17):
        subscribe(connection, cast["acme"], receiver.url)
        subscribe(connection, cast["globex"], receiver.url)
    with ThreadPoolExecutor(8) as threads:
        sent = threads.map(lambda _: alice.post("/webhooks", {"url": receiver.url}), range(8))
        assert {response.status_code for response in sent} <= {201, 409, 503}
    while len(listed := alice.get("/webhooks").get_json()) < 20:
        assert alice.post("/webhooks", {"url": receiver.url}).status_code == 201
    assert len(listed) == 20
    assert "20 webhooks" in error_message(alice.post("/webhooks", {"url": receiver.url}), 409)


def test_a_user_without_an_active_workspace_has_no_webhooks_and_can_create_none(
    alice, cast, connection, receiver, webhook
):
    connection.execute("DELETE FROM members WHERE user_id = %s", (cast["alice"],))
    assert alice.get("/webhooks").get_json() == []
    created = alice.post("/webhooks", {"url": receiver.url})
    assert "no active workspace" in error_message(created, 409)
    for method, path in about(webhook):
        error_message(alice.send(method, path, json={}), 404)


# Secrets


def test_a_repeat_creates_no_second_webhook_and_no_table_stores_its_secret(
    alice, connection, receiver
):
    key = {"Idempotency-Key": "once"}
    first = alice.post("/webhooks", {"url": receiver.url}, headers=key)
    repeat = alice.post("/webhooks", {"url": receiver.url}, headers=key)
    assert repeat.headers["Idempotent-Replayed"] == "true"
    assert (repeat.status_code, repeat.headers["ETag"]) == (201, '"1"')
    assert repeat.get_json() == {**first.get_json(), "secret": None}
    assert count(connection, "webhooks") == 1
    path = f"/webhooks/{first.get_json()['id']}/rotate"
    rotated = alice.post(path, headers={"Idempotency-Key": "again"})
    assert alice.post(path, headers={"Idempotency-Key": "again"}).get_json() == {"secret": None}
    secrets = [first.get_json()["secret"], rotated.get_json()["secret"]]
    assert len(set(secrets)) == 2
    assert webhook_row(connection, first.get_json()["id"])["secret_number"] == 2
    for table in ("idempotency_keys", "webhooks", "previous_secrets"):
        for secret in secrets:
            sql = f"SELECT count(*) FROM {table} AS t WHERE t::text LIKE %s"
            found = connection.execute(sql, (f"%{secret.removeprefix('whsec_')}%",))
            assert found.fetchone()["count"] == 0


def test_a_repeat_gets_the_first_response_even_if_the_url_would_be_refused_by_now(
    with_webhooks, webhooks_app, receiver
):
    key, body = {"Idempotency-Key": "once"}, {"url": receiver.url}
    first = Client(webhooks_app, TOKENS["alice"]).post("/webhooks", body, headers=key)
    later = Client(with_webhooks(WEBHOOK_ALLOW=""), TOKENS["alice"])
    invalid_field(later.post("/webhooks", body), "url")
    repeat = later.post("/webhooks", body, headers=key)
    assert (repeat.status_code, repeat.get_json()["id"]) == (201, first.get_json()["id"])


def test_a_new_secret_signs_immediately_and_older_secrets_still_sign_for_24_hours(
    alice, connection, receiver
):
    created = alice.post("/webhooks", {"url": receiver.url}).get_json()
    path = f"/webhooks/{created['id']}"
    rotations = [alice.post(f"{path}/rotate") for _ in range(2)]
    assert [response.status_code for response in rotations] == [200, 200]
    older, new = (response.get_json()["secret"] for response in rotations)
    assert [older, new] == [secret_of(created["id"], number) for number in (2, 3)]
    assert alice.get(path).headers["ETag"] == '"1"'
    alice.post("/tasks", {"title": "Signed three times"})
    received = receiver.take()
    signature = received.headers["X-Service-Signature"]
    signed = [is_genuine(secret, received.body, signature) for secret in (new, older)]
    assert signed == [True, False]
    assert len(received.headers["webhook-signature"].split(" ")) == 3
    for secret in (new, older, created["secret"]):
        assert verified(secret, received)
    connection.execute("UPDATE previous_secrets SET expires_at = now() WHERE number = 1")
    alice.post("/tasks", {"title": "Signed twice"})
    assert len(receiver.take().headers["webhook-signature"].split(" ")) == 2


def test_at_most_five_older_secrets_sign_however_often_the_secret_was_replaced(alice, receiver):
    """Many servers reject headers of more than 8 KB."""
    created = alice.post("/webhooks", {"url": receiver.url}).get_json()
    path = f"/webhooks/{created['id']}/rotate"
    secrets = [created["secret"], *(alice.post(path).get_json()["secret"] for _ in range(7))]
    alice.post("/tasks", {"title": "Signed six times"})
    received = receiver.take()
    assert len(received.headers["webhook-signature"].split(" ")) == 6
    for secret in secrets[-6:]:
        assert verified(secret, received)
    assert is_genuine(secrets[-1], received.body, received.headers["X-Service-Signature"])


def test_no_log_line_has_a_secret_of_a_webhook_or_webhook_key(alice, receiver, caplog):
    caplog.set_level(logging.DEBUG)
    handler, stream = logs.configure("json"), StringIO()
    previous = handler.setStream(stream)
    try:
        webhook = alice.post("/webhooks", {"url": receiver.url}).get_json()
        rotated = alice.post(f"/webhooks/{webhook['id']}/rotate").get_json()
        alice.post(f"/webhooks/{webhook['id']}/ping")
    finally:
        handler.setStream(previous)
    written = stream.getvalue() + caplog.text
    assert written.count(webhook["id"]) >= 3
    for secret in (webhook["secret"], rotated["secret"], KEY):
        assert secret not in written


def test_without_webhook_key_operations_that_need_the_key_get_503_and_the_log_says_so(
    with_webhooks, connection, receiver, caplog, webhook
):
    alice = Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"])
    for path, body in (
        ("/webhooks", {"url": receiver.url}),
        (f"/webhooks/{webhook}/rotate", None),
        (f"/webhooks/{webhook}/ping", None),
    ):
        response = alice.post(path, body)
        message = error_message(response, 503)
        assert "not set up" in message
        assert "WEBHOOK_KEY" not in message
        assert response.headers["Retry-After"] == "60"
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [message.partition(":")[0] for message in errors] == ["WEBHOOK_KEY is not set"] * 3
    assert (count(connection, "webhooks"), receiver.connections) == (1, 0)
    assert alice.get(f"/webhooks/{webhook}").status_code == 200


def test_a_ping_gets_503_if_the_service_lacks_the_key_of_the_webhook(
    webhooks_app, cast, connection, receiver, caplog
):
    alice = Client(webhooks_app, TOKENS["alice"])
    webhook = subscribe(connection, cast["acme"], receiver.url, key_fingerprint="0" * 16)
    error_message(alice.post(f"/webhooks/{webhook}/ping"), 503)
    assert "0" * 16 in caplog.text
    # The new secret derives from a key that the service has.
    assert alice.post(f"/webhooks/{webhook}/rotate").status_code == 200
    assert alice.post(f"/webhooks/{webhook}/ping").get_json()["status"] == 200


# Roles


def everything(connection):
    tables = "webhooks", "deliveries", "previous_secrets", "attempts"
    return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_a_plain_member_gets_403_for_every_webhook_and_changes_nothing(
    bob, cast, connection, receiver
):
    def refused(method, path, body):
        response = bob.send(method, path, json=body)
        assert "Only owners and admins may see" in error_message(response, 403), path

    for _ in range(2):
        before = everything(connection)
        refused("GET", "/webhooks", None)
        # The refusal comes before the look-up, so a member learns nothing about the host.
        for url in (receiver.url, "http://10.0.0.1/"):
            refused("POST", "/webhooks", {"url": url})
        assert everything(connection) == before
        webhook = subscribe(connection, cast["acme"], receiver.url)
    announce(connection, cast["acme"])
    before = everything(connection)
    for method, path in (*about(webhook), *about(UNKNOWN)):
        refused(method, path, {"events": None})
    refused("PATCH", f"/webhooks/{webhook}", {"url": "http://10.0.0.1/"})
    assert everything(connection) == before
    assert receiver.connections == 0


def test_a_user_who_loses_the_role_during_the_check_of_the_url_creates_no_webhook(
    cast, connection, receiver
):
    """The statement itself checks the role."""
    values = {"url": receiver.url, "events": None, "key_fingerprint": "x"}
    for name, made in (("bob", 0), ("charlie", 0), ("alice", 1)):
        caller = {
            "workspace_id": cast["acme"],
            "token_id": insert_token(connection, cast[name], f"tmw_api_of_{name}"),
        }
        assert len(run(connection, "webhooks/create", **caller, **values)) == made


# List and read


def test_the_api_and_the_command_list_the_same_webhooks_oldest_first(
    webhooks_app, alice, cast, connection, receiver
):
    long_ago = "2026-01-02T03:04:05Z"
    ended = {"disabled_at": long_ago, "disabled_reason": "a reason"}
    acme = connection, cast["acme"], receiver.url
    hooks = [
        subscribe(*acme, "task.created"),
        subscribe(*acme, failing_since=long_ago),
        subscribe(*acme, **ended),
    ]
    announce(connection, cast["acme"], 2)
    listed = alice.get("/webhooks").get_json()
    assert ids(listed) == hooks
    shown = [[one[name] for name in ("state", "events", "waiting")] for one in listed]
    assert shown == [["enabled", ["task.created"], 2], ["failing", None, 2], ["disabled", None, 0]]
    assert listed[1]["failingSince"] == "2026-01-02T03:04:05.000Z"
    assert listed[2]["disabledReason"] == "a reason"
    assert [webhook["nextAttemptAt"] is None for webhook in listed] == [False, False, True]
    for webhook in listed:
        assert alice.get(f"/webhooks/{webhook['id']}").get_json() == webhook
    ran = CommandRunner(webhooks_app).invoke(args=["webhook", "list", "acme", "--json"])
    for shown, printed in zip(listed, json.loads(ran.stdout), strict=True):
        same = shown.keys() & printed.keys()
        assert len(same) == 8
        assert {name: shown[name] for name in same} == {name: printed[name] for name in same}


def test_a_webhook_is_never_304_because_its_figures_change_without_a_new_version(
    alice, cast, connection, webhook
):
    path = f"/webhooks/{webhook}"
    read = alice.get(path)
    announce(connection, cast["acme"])
    again = alice.get(path, headers={"If-None-Match": read.headers["ETag"]})
    assert (again.status_code, again.headers["ETag"]) == (200, read.headers["ETag"])
    assert (read.get_json()["waiting"], again.get_json()["waiting"]) == (0, 1)


# Change


def test_a_change_that_keeps_the_url_does_not_check_the_url_again(with_webhooks, alice, receiver):
    webhook = alice.post("/webhooks", {"url": receiver.url}).get_json()
    later = Client(with_webhooks(WEBHOOK_ALLOW=""), TOKENS["alice"])
    sent = {**alice.get(f"/webhooks/{webhook['id']}").get_json(), "events": ["task.created"]}
    response = later.patch(f"/webhooks/{webhook['id']}", sent)
    assert (response.status_code, response.get_json()["events"]) == (200, ["task.created"])


def test_the_deliveries_of_a_disabled_webhook_wait_until_it_is_enabled(
    alice, cast, connection, receiver, webhook, work
):
    announce(connection, cast["acme"])
    path = f"/webhooks/{webhook}"
    disabled = alice.patch(path, {"enabled": False}).get_json()
    assert (disabled["state"], disabled["waiting"]) == ("disabled", 1)
    assert disabled["disabledReason"] == "by an owner or an admin"
    assert disabled["nextAttemptAt"] is None
    alice.post("/tasks", {"title": "Never sent"})
    assert work() == 0
    enabled = alice.patch(path, {"enabled": True}).get_json()
    assert (enabled["state"], enabled["disabledReason"]) == ("enabled", None)
    assert (enabled["waiting"], enabled["version"]) == (1, 3)
    assert work() == 1
    assert len(receiver.take_all()) == 1


@pytest.mark.parametrize("change", ["enabled", "url"])
def test_enabling_or_moving_a_failing_webhook_makes_its_waiting_deliveries_due_immediately(
    with_webhooks, alice, cast, connection, receiver, change, webhook
):
    receiver.behaves(answer(500))
    announce(connection, cast["acme"], 2)
    settings = with_webhooks(WEBHOOK_SCHEDULE="3600").config["SETTINGS"]
    Worker(settings).run_once()
    path = f"/webhooks/{webhook}"
    failing = alice.get(path).get_json()
    assert (failing["state"], failing["waiting"]) == ("failing", 2)
    receiver.behaves(answer(200))
    body = {"enabled": True} if change == "enabled" else {"url": f"{receiver.url}/moved"}
    mended = alice.patch(path, body).get_json()
    assert (mended["state"], mended["failingSince"]) == ("enabled", None)
    assert mended["nextAttemptAt"] < failing["nextAttemptAt"]
    assert Worker(settings).run_once() == 2
    assert alice.get(path).get_json()["waiting"] == 0


def test_an_attempt_makes_no_new_version_of_a_webhook_unless_it_disables_the_webhook(
    with_webhooks, alice, cast, connection, receiver, webhook
):
    path = f"/webhooks/{webhook}"
    receiver.behaves(answer(500), answer(410))
    settings = with_webhooks(WEBHOOK_SCHEDULE="3600").config["SETTINGS"]
    announce(connection, cast["acme"])
    Worker(settings).run_once()
    assert alice.get(path).headers["ETag"] == '"1"'
    alice.patch(path, {"enabled": True}, headers={"If-Match": '"1"'})
    Worker(settings).run_once()
    gone = alice.get(path)
    assert (gone.get_json()["state"], gone.headers["ETag"]) == ("disabled", '"2"')
    assert gone.get_json()["disabledReason"] == "the receiver answered 410 Gone"


# Remove


def test_a_deleted_webhook_gets_404_immediately_and_the_worker_deletes_its_deliveries(
    alice, cast, connection, receiver, work
):
    gone, stays = (subscribe(connection, cast["acme"], receiver.url) for _ in range(2))
    for _ in range(18):
        subscribe(connection, cast["acme"], receiver.url, "task.deleted")
    announce(connection, cast["acme"])
    (delivery,) = (row["id"] for row in deliveries(connection) if str(row["webhook_id"]) == gone)
    response = alice.delete(f"/webhooks/{gone}")
    assert (response.status_code, response.data) == (204, b"")
    webhooks = alice.get("/webhooks").get_json()
    assert webhooks[0]["id"] == stays
    assert len(webhooks) == 19
    for method, path in about(gone, str(delivery)):
        error_message(alice.send(method, path, json={}), 404)
    # A deleted webhook does not count. The request deletes no deliveries, however many there are.
    assert alice.post("/webhooks", {"url": receiver.url}).status_code == 201
    assert len(deliveries(connection)) == 2
    assert work() == 1
    assert receiver.connections == 1
    assert {str(row["webhook_id"]) for row in deliveries(connection)} == {stays}
    assert webhook_row(connection, gone) is None


# Disabled


def test_a_webhook_that_is_disabled_twice_keeps_the_first_reason(
    alice, cast, connection, receiver, work
):
    """The second reason comes from an attempt in flight, or from a manager's second request."""
    webhook = subscribe(connection, cast["acme"], receiver.url)
    path = f"/webhooks/{webhook}"

    def disable(handler):
        disabled.append(alice.patch(path, {"enabled": False}).get_json())
        answer(410)(handler)

    disabled = []
    receiver.behaves(disable)
    announce(connection, cast["acme"])
    assert alice.get(path).get_json()["gapSince"] is None
    assert work() == 1
    by_manager = alice.get(path).get_json()
    assert by_manager["gapSince"] == disabled[0]["gapSince"]
    assert by_manager["disabledReason"] == "by an owner or an admin"
    receiver.behaves(answer(410))
    enabled = alice.patch(path, {"enabled": True}).get_json()
    assert enabled["gapSince"] == by_manager["gapSince"]
    assert work() == 1
    by_receiver = alice.get(path).get_json()
    assert "410" in by_receiver["disabledReason"]
    again = alice.patch(path, {"enabled": False, "events": ["task.created"]}).get_json()
    assert again["disabledReason"] == by_receiver["disabledReason"]
    assert again["gapSince"] == by_receiver["gapSince"] > by_manager["gapSince"]


# Ping


def test_a_ping_sends_a_signed_event_and_stores_nothing(alice, cast, connection, receiver):
    webhook = subscribe(connection, cast["acme"], receiver.url, "task.created")
    before = everything(connection)
    response = alice.post(f"/webhooks/{webhook}/ping")
    assert response.status_code == 200
    outcome = response.get_json()
    assert list(outcome) == ["status", "milliseconds", "error"]
    assert (outcome["status"], outcome["error"]) == (200, None)
    received = receiver.take()
    event = json.loads(received.body)
    assert (event["type"], event["workspaceId"]) == ("ping", cast["acme"])
    assert (event["actorId"], event["changed"]) == (cast["alice"], [])
    assert (event["data"], event["previous"]) == ({}, {})
    assert event["id"] == received.headers["webhook-id"]
    assert verified(secret_of(webhook), received) == event
    documented = document()["webhooks"]["ping"]["post"]
    (content,) = documented["requestBody"]["content"].values()
    assert violations(content["schema"], event) == []
    for header in map(resolve, documented["parameters"]):
        assert violations(header["schema"], received.headers[header["name"]]) == []
    assert everything(connection) == before


def test_a_successful_ping_makes_the_waiting_deliveries_due_immediately(
    alice, cast, connection, receiver, work
):
    """``enabled: true`` does the same. A ping that fails changes nothing."""
    webhook = subscribe(connection, cast["acme"], receiver.url)
    receiver.behaves(answer(503, Retry_After="3600"))
    announce(connection, cast["acme"], 3)
    assert work() == 1
    connection.execute("UPDATE deliveries SET due_at = now() + interval '1 h'")
    before = alice.get(f"/webhooks/{webhook}").get_json()
    assert alice.post(f"/webhooks/{webhook}/ping").get_json()["status"] == 503
    assert alice.get(f"/webhooks/{webhook}").get_json() == before
    receiver.behaves(answer(200))
    assert alice.post(f"/webhooks/{webhook}/ping").get_json()["status"] == 200
    assert alice.get(f"/webhooks/{webhook}").get_json()["state"] == "enabled"
    assert work() >= 1
    # A ping of a disabled webhook changes nothing.
    connection.execute("UPDATE webhooks SET disabled_at = now(), failing_since = now()")
    before = alice.get(f"/webhooks/{webhook}").get_json()
    assert alice.post(f"/webhooks/{webhook}/ping").get_json()["status"] == 200
    assert alice.get(f"/webhooks/{webhook}").get_json() == before


@pytest.mark.parametrize(
    ("behaviour", "status", "error"),
    [
        (answer(500), 500, None), (answer(302), 302, None), (reset, None, "ConnectionResetError"),
        (hang, None, "timeout"), (None, None, "blocked"),
    ],
)  # fmt: skip
def test_a_ping_says_how_the_receiver_failed_without_naming_an_address(
    with_webhooks, connection, receiver, behaviour, status, error, webhook
):
    changes = {"WEBHOOK_TIMEOUT": "0.2"} if behaviour else {"WEBHOOK_ALLOW": ""}
    receiver.behaves(behaviour)
    alice = Client(with_webhooks(**changes), TOKENS["alice"])
    outcome = alice.post(f"/webhooks/{webhook}/ping").get_json()
    assert (outcome["status"], outcome["error"]) == (status, error)
    assert (200 if behaviour is hang else 0) <= outcome["milliseconds"] < 2000
    assert webhook_row(connection, webhook)["failing_since"] is None


# Waiting without a database connection


@contextmanager
def hanging(client, webhook, receiver):
    """Yield the Future of a ping whose receiver answers only at the end of the context."""
    receiver.behaves(hang)
    with ThreadPoolExecutor(1) as threads:
        pinged = threads.submit(client.post, f"/webhooks/{webhook}/ping")
        try:
            receiver.take()
            yield pinged
        finally:
            receiver.released.set()
        assert pinged.result().get_json()["status"] == 200


def test_a_request_that_waits_for_a_receiver_holds_no_database_connection(
    with_webhooks, receiver, webhook
):
    """The pool has one connection. Another request gets it while the receiver hangs."""
    alice = Client(with_webhooks(WEB_THREADS="1", WEBHOOK_TIMEOUT="30"), TOKENS["alice"])
    with hanging(alice, webhook, receiver) as pinged:
        assert alice.get("/tasks").status_code == 200
        busy = alice.post(f"/webhooks/{webhook}/ping")
        assert "of this workspace is still running" in error_message(busy, 503)
        assert busy.headers["Retry-After"] == "1"
        assert not pinged.done()


def test_only_the_workspace_whose_receiver_hangs_is_refused_further_pings(
    with_webhooks, cast, connection, receiver, other_receiver, webhook
):
    """Two of eight threads may wait for receivers."""
    app = with_webhooks(WEB_THREADS="8", WEBHOOK_TIMEOUT="30")
    alice, charlie = (Client(app, TOKENS[name]) for name in ("alice", "charlie"))
    sound = subscribe(connection, cast["globex"], other_receiver.url)
    with hanging(alice, webhook, receiver):
        for _ in range(3):
            error_message(alice.post(f"/webhooks/{webhook}/ping"), 503)
            assert charlie.post(f"/webhooks/{sound}/ping").get_json()["status"] == 200
    assert alice.post(f"/webhooks/{webhook}/ping").status_code == 200


def test_urls_can_be_checked_while_receivers_occupy_all_threads_that_may_wait_for_them(
    with_webhooks, receiver, webhook
):
    app = with_webhooks(WEB_THREADS="4", WEBHOOK_TIMEOUT="30")
    alice, charlie = (Client(app, TOKENS[name]) for name in ("alice", "charlie"))
    with hanging(alice, webhook, receiver):
        for client in (alice, charlie) * 5:
            assert client.post("/webhooks", {"url": receiver.url}).status_code == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers", [{}, {"Idempotency-Key": "once"}], ids=["without a key", "with a key"]
)
def test_a_request_that_waits_for_a_slow_name_server_holds_no_database_connection(
    with_webhooks, connection, monkeypatch, headers
):
    """The look-up never ends by itself. The replaced getaddrinfo is the system's, not ours."""
    monkeypatch.setattr(sys.modules["service.api.webhook_checks"], "LOOK_UP", 1)
    alice = Client(with_webhooks(WEB_THREADS="1"), TOKENS["alice"])
    asked, end, look_up = Event(), Event(), socket.getaddrinfo

    def hang(host, *arguments, **options):
        if host == "silent.example.com" and not options.get("flags"):
            asked.set()
            end.wait(60)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with ThreadPoolExecutor(1) as threads:
        body = {"url": "http://silent.example.com/"}
        created = threads.submit(alice.post, "/webhooks", body, headers=headers)
        assert asked.wait(60)
        assert alice.get("/tasks").status_code == 200
        assert not created.done()
        assert "must have a host that can be resolved" in invalid_field(created.result(), "url")
        end.set()
    assert count(connection, "webhooks") == count(connection, "idempotency_keys") == 0
    assert f"within {LOOK_UP} s" in types.URL.default_error_messages["unresolved"]


def test_without_webhook_key_rotating_a_secret_gets_403_for_a_member_and_404_for_an_unknown_id(
    with_webhooks, webhook
):
    app = with_webhooks(WEBHOOK_KEY="")
    error_message(Client(app, TOKENS["bob"]).post(f"/webhooks/{webhook}/rotate"), 403)
    error_message(Client(app, TOKENS["alice"]).post(f"/webhooks/{UNKNOWN}/rotate"), 404)
