"""Keys: which secrets sign, and what happens to webhooks whose key is missing."""

from support.http import Client
from support.processes import states, wait_until
from support.receivers import announce, subscribe
from support.rows import TOKENS

from service.devkit.signatures import is_genuine
from service.webhooks import secrets


def test_a_missing_key_is_logged_once_and_only_if_an_enabled_webhook_needs_it(
    worker, cast, connection, caplog
):
    values = {"key_fingerprint": "0123456789abcdef", "disabled_at": "now"}
    subscribe(connection, cast["acme"], "http://127.0.0.1/", **values)
    running = worker()
    running.check_keys()
    assert caplog.messages == []
    connection.execute("UPDATE webhooks SET disabled_at = NULL")
    for _ in range(2):
        running.check_keys()
    (line,) = caplog.messages
    assert "does not list the key 0123456789abcdef" in line
    running.pool.close()


OLD, NEW = "the first key that an operator made", "the second key that an operator made"
BOTH = f"{NEW},{OLD}"


def new_webhook(connection, workspace_id, url, key):
    return subscribe(connection, workspace_id, url, key_fingerprint=secrets.fingerprint(key))


def signs(received, key, webhook, number=1):
    """Return whether the post is signed with this secret of the webhook."""
    secret = secrets.derive_secret(key, webhook, number)
    return is_genuine(received.headers.get, received.body, secret)


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def wait_for_warning(caplog):
    """Return the warnings once there is one.

    The first connection of a process is checked, and a second one may already serve a request.
    """
    wait_until(lambda: warnings(caplog))
    return warnings(caplog)


def test_only_webhooks_made_after_a_key_was_added_sign_with_that_key(
    worker, cast, connection, receiver
):
    old = new_webhook(connection, cast["acme"], f"{receiver.url}/old", OLD)
    new = new_webhook(connection, cast["acme"], f"{receiver.url}/new", NEW)
    # A replaced secret whose key is missing does not sign. The delivery is posted all the same.
    connection.execute(
        "INSERT INTO previous_secrets SELECT workspace_id, id, 0, 'missing', now() + '1 hour'"
        " FROM webhooks WHERE id = %s",
        (new,),
    )
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_KEY=BOTH).run_once() == 2
    received = {one.path.rpartition("/")[2]: one for one in receiver.take_all()}
    assert signs(received["old"], OLD, old)
    assert signs(received["new"], NEW, new)


def test_deliveries_wait_and_the_log_names_the_webhook_while_its_key_is_missing(
    worker, cast, connection, receiver, caplog
):
    old = new_webhook(connection, cast["acme"], receiver.url, OLD)
    announce(connection, cast["acme"])
    assert worker(WEBHOOK_KEY=NEW).run_once() == 0
    assert states(connection) == [("waiting", 0)]
    assert caplog.messages == [
        f"WEBHOOK_KEY does not list the key {secrets.fingerprint(OLD)},"
        f" for which 1 webhook(s) wait, {old} among them"
    ]
    assert OLD not in caplog.text
    assert worker(WEBHOOK_KEY=BOTH).run_once() == 1
    assert signs(receiver.take(), OLD, old)


def test_a_request_leaves_an_event_to_the_worker_if_the_key_of_the_webhook_is_missing(
    with_webhooks, cast, connection, receiver, caplog
):
    old = new_webhook(connection, cast["acme"], receiver.url, OLD)
    client = Client(with_webhooks(WEBHOOK_KEY=NEW), TOKENS["alice"])
    assert client.post("/tasks", {"title": "New"}).status_code == 201
    assert states(connection) == [("waiting", 0)]
    assert receiver.connections == 0
    (message,) = wait_for_warning(caplog)
    assert old in message


def test_a_web_process_without_a_key_says_so_once_if_there_are_webhooks(
    with_webhooks, cast, connection, receiver, caplog
):
    Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"]).get("/tasks")
    assert warnings(caplog) == []
    subscribe(connection, cast["acme"], receiver.url)
    client = Client(with_webhooks(WEBHOOK_KEY=""), TOKENS["alice"])
    for _ in range(2):
        assert client.post("/tasks", {"title": "New"}).status_code == 201
    assert client.client.get("/healthz").status_code == 200
    assert (receiver.connections, states(connection)) == (0, [("waiting", 0)] * 2)
    message = "WEBHOOK_KEY is not set: this process sends no events to webhooks"
    assert wait_for_warning(caplog) == [message]


def test_after_a_key_was_lost_a_rotation_ends_the_warnings_and_events_are_sent_again(
    with_webhooks, worker, cast, connection, receiver, caplog
):
    """The replaced secret has not expired yet, and derives from the lost key."""
    webhook = new_webhook(connection, cast["acme"], receiver.url, OLD)
    app = with_webhooks(WEBHOOK_KEY=NEW)
    rotated = Client(app, TOKENS["alice"]).post(f"/webhooks/{webhook}/rotate")
    assert (rotated.status_code, len(wait_for_warning(caplog))) == (200, 1)
    caplog.clear()
    announce(connection, cast["acme"])
    Client(with_webhooks(WEBHOOK_KEY=NEW), TOKENS["alice"]).get("/tasks")
    assert worker(WEBHOOK_KEY=NEW).run_once() == 1
    assert signs(receiver.take(), NEW, webhook, number=2)
    assert warnings(caplog) == []
