"""The control URL, with which a test changes the state of the service: HTTP with JSON, on loopback.

The line that the command prints contains the URL.
"""

import io
import os
import re
import signal
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial, wraps
from ipaddress import ip_address
from threading import Lock
from typing import NamedTuple, ParamSpec
from urllib.parse import urlsplit

import click
from flask import Blueprint, Flask, Response, current_app, request
from marshmallow import Schema, ValidationError

from service.callers import OPERATOR, SESSION_DAYS, CreatedSession, create_credential
from service.commands.load import load_lines
from service.commands.load.insert import FoundUser
from service.commands.load.lines import TYPES, PastTimestamp
from service.context import current_request, current_state, db, init_app
from service.database.pool import Pool
from service.database.statements import IdRow, to_json
from service.settings import Settings
from service.values import Values
from service.values.schemas import StrictSchema
from service.values.strict_json import StrictJSONError, parse_object
from service.web import access_log, errors
from service.web.operation import View, operation
from service.web.requests import load_arguments, read_bytes
from service.web.responses import reply
from service.webhooks import OutboundSlots
from service.webhooks.delivery import Message, attempt
from service.webhooks.outbound import BlockedURL, resolve
from service.webhooks.secrets import CreatedWebhook, RotatedWebhook, derive_secret, fingerprint
from service.webhooks.worker import Worker
from task_service_double.bodies import (
    Behavior,
    NewCredential,
    NewReceiver,
    NextFault,
    PlanChange,
    SnapshotName,
    TimeToSet,
)
from task_service_double.faults import BreakResponses, Fault, Faults
from task_service_double.initial_state import InitialState
from task_service_double.journal import Journal
from task_service_double.receiver import Receiver

# The most bytes that the body of a request to the control URL may have.
MAX_BODY = 64 * 1024 * 1024
# The types of lines that get an id if they have none. A list, because a client may send any JSON
# as a type, and a set could not look up an object or an array.
WITH_ID = [
    kind
    for kind, line in TYPES.items()
    if "id" in line.load_fields and not line.load_fields["id"].required
]

control = Blueprint("control", __name__)


class Double:
    """The objects on which the control URL acts. ``pid`` is the process that runs everything."""

    def __init__(self, app: Flask, initial: InitialState, pid: int) -> None:
        self.app, self.initial, self.pid = app, initial, pid
        self.settings: Settings = app.config["SETTINGS"]
        self.faults, self.journal = Faults(), Journal()
        # Held by an operation of the control URL while it writes.
        self.turn = Lock()
        app.before_request(self.faults.meet)
        app.after_request(self.journal.record)
        app.wsgi_app = BreakResponses(app.wsgi_app)  # type: ignore[method-assign]
        self.receiver = Receiver(initial.webhook_secret)
        # The webhook's secret at the time of each snapshot, by the name of the snapshot. A reset
        # without a name restores the snapshot with the name "".
        self.snapshots: dict[str, str] = {}
        # One slot per thread, so that all requests of a test can post their events simultaneously.
        app.extensions["outbound_slots"] = OutboundSlots(self.settings.web_threads)
        self.hold_events(False)

    def hold_events(self, held: bool) -> None:
        """If ``held``, leave all events to ``deliver``; if not, let requests post their events."""
        self.newest_first = held
        self.app.extensions["outbound_slots"].posts = not held

    def deliver(self) -> int:
        """Attempt the due deliveries, and return the number of attempts.

        The double waits WEBHOOK_TIMEOUT for a silent receiver, as a request does; the worker of a
        deployment would wait longer.
        """
        worker = Worker(self.settings, max_attempt_seconds=self.settings.webhook_timeout)
        return worker.run_once(prune=False)

    def prune(self) -> None:
        """Delete what the worker of a deployment would delete in its next round."""
        Worker(self.settings).run_once(deliver=False)


def create_control(double: Double, host_names: Collection[str]) -> Flask:
    """Return the WSGI application of the control URL, which has its own pool of connections.

    Clients reach it by an address, by ``localhost``, or by one of these host names.
    """
    app = Flask(__name__, static_folder=None)
    # MAX_BODY of the service does not apply here: a test may load more than that, or lower MAX_BODY
    # in order to get a 413.
    app.config.update(SETTINGS=double.settings, MAX_CONTENT_LENGTH=MAX_BODY + 1)
    app.extensions["double"] = double
    app.before_request(access_log.set_id_and_times)
    app.before_request(partial(refuse_pages, {"localhost", *host_names}))
    init_app(app, Pool(double.settings, "web"))
    errors.init_app(app)
    app.register_error_handler(click.ClickException, reject)
    app.register_blueprint(control, url_prefix=urlsplit(double.initial.control_url).path)
    return app


def refuse_pages(host_names: Collection[str]) -> None:
    """Refuse a request that a page in a browser may have sent.

    A browser says where the page comes from, except if the host name of the page leads to this
    machine (DNS rebinding). Then this host name is in the header Host.
    """
    if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") != "none":
        raise errors.HTTPError(
            403, "pages in a browser must not control the double: send this from the test itself"
        )
    name = re.sub(r":\d*$", "", request.headers.get("Host", "")).lower()
    if name not in host_names and not is_address(name):
        raise errors.HTTPError(
            403,
            f"Host: {name[:100]!r} is neither an address nor localhost: to allow another name,"
            " start the double with --control-host-name NAME or TASK_SERVICE_CONTROL_HOST_NAME",
        )


def is_address(name: str) -> bool:
    try:
        ip_address(re.sub(r"^\[(.*)\]$", r"\1", name))
    except ValueError:
        return False
    return True


def reject(error: click.ClickException) -> Response:
    """Return 400 with the message that a command would print."""
    return errors.reply_error(errors.HTTPError(400, error.format_message()))


def double() -> Double:
    found: Double = current_app.extensions["double"]
    return found


def reply_json(**members: object) -> Response:
    return reply(to_json(members))


P = ParamSpec("P")


def alone(view: Callable[P, Response]) -> Callable[P, Response]:
    """Let the operation wait until no other one writes: two resets would both set the clock."""

    @wraps(view)
    def wait(*args: P.args, **values: P.kwargs) -> Response:
        with double().turn:
            return view(*args, **values)

    return wait


def with_optional_body(schema: StrictSchema) -> Callable[[View], View]:
    """Like ``operation``; a request without a body has the defaults of the schema."""

    def read(schema: Schema) -> Values:
        values: Values = load_arguments(schema) if request.get_data() else schema.load({})
        return values

    return partial(operation(schema), read=read)


@control.post("/reset")
@with_optional_body(SnapshotName())
@alone
def reset(snapshot: Values) -> Response:
    """Remove everything, and restore this snapshot. Without a name, restore the snapshot that has
    no name, or the initial state if there is none
    """
    secret = found_snapshot(snapshot["name"])
    double().faults.clear()
    double().initial.reset(db, snapshot["name"] if secret else None)
    # Cleared last, because a request of the previous test can post events until its rows are gone.
    double().receiver.clear(secret)
    double().journal.clear()
    double().hold_events(False)
    return reply_json(secret=double().receiver.secret)


def found_snapshot(name: str) -> str | None:
    """Return the webhook's secret of a snapshot; None if there is none without a name.

    Raises ClickException for an unknown name.
    """
    known = double().snapshots
    if name and name not in known:
        others = ", ".join(filter(None, known)) or "none"
        raise click.ClickException(f"name: there is no snapshot {name!r}; there are: {others}")
    return known.get(name)


@control.post("/snapshot")
@with_optional_body(SnapshotName())
@alone
def snapshot(snapshot: Values) -> Response:
    """Keep a copy of all rows. A reset with this name restores it; without a name, each reset"""
    db.run("double/save", **snapshot)
    double().snapshots[snapshot["name"]] = double().receiver.secret
    return reply_json()


@control.post("/forget-snapshot")
@with_optional_body(SnapshotName())
@alone
def forget_snapshot(snapshot: Values) -> Response:
    """Remove this snapshot. Without a name, let a reset restore the initial state again"""
    found_snapshot(snapshot["name"])
    double().snapshots.pop(snapshot["name"], None)
    db.run("double/forget", **snapshot)
    return reply_json()


@control.post("/stop")
def stop() -> Response:
    """End the test double, and remove everything that it has created"""
    response = reply_json()
    pid = double().pid
    response.call_on_close(lambda: os.kill(pid, signal.SIGTERM))
    return response


@control.post("/load")
@alone
def load() -> Response:
    """Load JSON Lines; a line without a workspace or a user gets the owner's"""
    lines = read_bytes(current_request()).split(b"\n")
    items = [complete(line) for line in lines]
    choose_ids([item for item in items if item is not None])
    completed = [
        line if item is None else to_json(item).encode()
        for line, item in zip(lines, items, strict=True)
    ]
    total = load_lines(double().settings, io.BytesIO(b"\n".join(completed)), "objects")
    return reply_json(loaded=total, ids=[item.get("id") for item in items if item is not None])


def complete(line: bytes) -> Values | None:
    """Return the object of a line, completed with the owner's workspace and address.

    Return None for an empty line, and for an invalid line, which the loader rejects.
    """
    try:
        return double().initial.complete(parse_object(line))
    except StrictJSONError:
        return None


def choose_ids(items: list[Values]) -> None:
    """Give each object without an id a new one, as the database would, to know it beforehand."""
    anew = [item for item in items if "id" not in item and item.get("type") in WITH_ID]
    created = [creation(item.get("createdAt")) for item in anew]
    ids = db.row(NewIds, "double/new_ids", created=created).ids
    for item, id in zip(anew, ids, strict=True):
        item["id"] = id


def creation(text: object) -> datetime | None:
    """Return a time of creation; None for an invalid one, which the loader rejects."""
    try:
        return PastTimestamp().deserialize(text)  # type: ignore[no-any-return]
    except ValidationError:
        return None


class Plan(NamedTuple):
    name: str
    per_minute: int
    per_day: int | None


@control.post("/plan")
@operation(PlanChange())
@alone
def change_plan(change: Values) -> Response:
    """Put the owner's workspace on a plan, and change the limits of that plan"""
    plan = db.row(Plan, "double/plan", workspace_id=double().initial.user.workspace.id, **change)
    return reply_json(name=plan.name, perMinute=plan.per_minute, perDay=plan.per_day)


class NewIds(NamedTuple):
    ids: list[str]


class Now(NamedTuple):
    now: str


@control.get("/clock")
def get_clock() -> Response:
    return reply_json(now=db.row(Now, "double/now").now)


@control.post("/clock")
@operation(TimeToSet())
@alone
def set_clock(clock: Values) -> Response:
    """Set the clock of the service, and delete what the worker would delete at that time"""
    now = db.row(Now, "double/set_clock", at=clock["now"]).now
    current_state().release()
    double().prune()
    return reply_json(now=now)


@control.get("/faults")
def list_unmet_faults() -> Response:
    return reply_json(data=double().faults.unmet())


@control.post("/clear-faults")
def clear_faults() -> Response:
    """Remove all faults; requests that are waiting go on waiting"""
    double().faults.remove()
    return reply_json()


@control.post("/faults")
@operation(NextFault())
def add_fault(fault: Values) -> Response:
    """Let the next matching requests meet a fault"""
    double().faults.add(Fault(**fault))
    return reply_json()


@control.post("/tokens")
@operation(NewCredential())
@alone
def create_token(token: Values) -> Response:
    known = double().initial.users.get(token["user"])
    email = known.email if known else token["user"]
    user = db.row_or_none(FoundUser, "users/find", emails=[email], ids=[])
    if user is None:
        raise click.ClickException(f"user: there is no user {email}")
    is_session = token["kind"] == "session"
    row, statement = (CreatedSession, "sessions") if is_session else (IdRow, "tokens")
    secret, _ = create_credential(
        partial(db.row, row, f"{statement}/create"),
        token["kind"],
        user_id=user.id,
        email=email,
        # This name is the name of an API token. With a session, it would rename the user.
        name=None if is_session else "",
        scope=token["scope"],
        days=token["expires_in"] or (SESSION_DAYS if is_session else None),
        expires_at=None,
        workspace=None,
    )
    return reply_json(token=secret)


@control.post("/webhooks")
@operation(NewReceiver())
@alone
def create_webhook(webhook: Values) -> Response:
    """Send the events of the owner's workspace to another receiver as well"""
    try:
        resolve(webhook["url"], double().settings.webhook_allow)
    except BlockedURL as error:
        raise click.ClickException(f"url: {error}") from None
    key = double().settings.require_webhook_key()
    workspace_id = double().initial.user.workspace.id
    values = {**OPERATOR, "workspace_id": workspace_id, "key_fingerprint": fingerprint(key)}
    created = db.row_or_none(CreatedWebhook, "webhooks/create", **values, **webhook)
    if created is None:
        raise click.ClickException("the workspace has 20 webhooks, the maximum")
    secret = derive_secret(key, created.id, created.secret_number)
    return reply_json(id=created.id, secret=secret)


def owners_webhook() -> dict[str, object]:
    """Return the parameters for a statement about the owner's webhook."""
    initial = double().initial
    workspace_id = initial.user.workspace.id
    return {**OPERATOR, "workspace_id": workspace_id, "id": initial.webhook_id}


@control.post("/rotate")
@alone
def rotate() -> Response:
    """Give the owner's webhook a new secret, with which the receiver verifies from now on"""
    key = double().settings.require_webhook_key()
    values = {**owners_webhook(), "key_fingerprint": fingerprint(key)}
    secret = derive_secret(key, *db.row(RotatedWebhook, "webhooks/rotate", **values))
    double().receiver.secret = secret
    return reply_json(secret=secret)


@control.post("/ping")
def ping() -> Response:
    target = db.row(Message, "webhooks/ping", **owners_webhook())
    current_state().release()
    settings = double().settings
    return reply_json(status=attempt(target, settings, settings.webhook_timeout).status)


@control.post("/deliver")
def deliver() -> Response:
    """Attempt the waiting deliveries before they are due; after a failure the webhook backs off"""
    # Not while it posts: a receiver may call the control URL.
    with double().turn:
        db.run("double/make_due")
        if double().newest_first:
            db.run("double/newest_first")
    current_state().release()
    return reply_json(attempts=double().deliver())


@control.post("/duplicate")
def duplicate() -> Response:
    """Deliver all delivered events again"""
    with double().turn:
        db.run("double/duplicate")
    current_state().release()
    return reply_json(attempts=double().deliver())


@control.post("/reorder")
def reorder() -> Response:
    """Let events wait from now on, until deliver posts them, newest first"""
    double().hold_events(True)
    return reply_json()


@control.get("/events")
def list_posts() -> Response:
    """List the posts to the receiver in order, each with the status of the response"""
    return reply_json(data=[post._asdict() for post in double().receiver.posts()])


@control.get("/requests")
def list_requests() -> Response:
    """List the requests to the API, in the order of their responses, without credentials"""
    return reply_json(data=[sent._asdict() for sent in double().journal.requests()])


@control.post("/behavior")
@operation(Behavior())
def behave(behavior: Values) -> Response:
    double().receiver.behave(**behavior)
    return reply_json()


@control.post("/receiver")
def receive() -> Response:
    status = double().receiver.receive(request.headers, request.get_data())
    return reply(None if status == 204 else "{}", status)
