"""The control URL: what a test does to the service beside its API, as plain HTTP with JSON.

It is on loopback, at a port and under a path that only the process that started it is told.
"""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from threading import BoundedSemaphore
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

import click
from flask import Blueprint, Flask, Response, current_app, request
from werkzeug.exceptions import default_exceptions

from service import db
from service.commands.webhooks import Numbered
from service.devkit.double.bodies import (
    Behavior,
    NewToken,
    NewWebhook,
    NextFault,
    PlanChange,
    TimePassed,
)
from service.devkit.double.cast import Cast, User
from service.devkit.double.faults import Fault, Faults, install
from service.devkit.double.receiver import Receiver
from service.http import access_log, errors
from service.http.gate import generate_token, hash_of
from service.http.requests import arguments, read_bytes
from service.http.responses import reply
from service.settings import Settings
from service.state import current_request
from service.strict_json import StrictJSONError, parse_object
from service.webhooks.outbound import BlockedURL, resolve
from service.webhooks.secrets import derive_secret, fingerprint
from service.webhooks.worker import Worker

# Loads JSON Lines, as the command load does; returns how many objects they held.
Load = Callable[[Settings, IO[bytes], str], int]

# Bytes of a request to the control URL.
MAX_BODY = 64 * 1024 * 1024

control = Blueprint("control", __name__)


class Plan(NamedTuple):
    """The row of a plan."""

    name: str
    per_minute: int
    per_day: int | None


class Stage:
    """What the control URL acts on."""

    def __init__(self, app: Flask, cast: Cast, load: Load) -> None:
        self.settings: Settings = app.config["SETTINGS"]
        self.cast = cast
        self.load = load
        self.faults = Faults()
        install(app, self.faults)
        # No event is left to the worker: there is none, and a test looks for it at once.
        app.extensions["webhook_slots"] = BoundedSemaphore(self.settings.web_threads)
        self.receiver = Receiver(cast.webhook["secret"])


def create_control(stage: Stage) -> Flask:
    """Build the WSGI application of the control URL; it has database connections of its own."""
    app = Flask(__name__, static_folder=None)
    # Not MAX_BODY: a test may load more, or lower that to meet 413.
    app.config.update(SETTINGS=stage.settings, MAX_CONTENT_LENGTH=MAX_BODY + 1)
    app.extensions["stage"] = stage
    app.before_request(access_log.assign_request_id)
    db.init_app(app)
    app.extensions["pool"].open()
    errors.init_app(app)
    app.register_error_handler(click.ClickException, reject)
    app.register_blueprint(control, url_prefix=urlsplit(stage.cast.control_url).path)
    return app


def reject(error: click.ClickException) -> Response:
    """400 with what a command would print."""
    return errors.respond(default_exceptions[400](error.format_message()))


def stage() -> Stage:
    """What this request acts on."""
    return current_app.extensions["stage"]  # type: ignore[no-any-return]


def reply_json(value: object) -> Response:
    """Python values as JSON."""
    return reply(json.dumps(value))


@control.post("/reset")
def reset() -> Response:
    """Remove everything and begin anew with the cast"""
    stage().faults.clear()
    with current_app.extensions["pool"].connection() as connection:
        stage().cast.reset(connection)
    # Only now: until its rows are gone, a request of before can post its events.
    stage().receiver.clear()
    return reply_json({})


@control.post("/load")
def load() -> Response:
    """Load JSON Lines; whatever needs a workspace or a user has those of the cast by default"""
    lines = b"\n".join(map(complete, read_bytes(current_request()).split(b"\n")))
    total = stage().load(stage().settings, io.BytesIO(lines), "objects")
    return reply_json({"loaded": total})


def complete(line: bytes) -> bytes:
    """A line with the owner that it does not name; what is invalid is left to the loader."""
    try:
        item = parse_object(line)
    except StrictJSONError:
        return line
    return db.to_json(stage().cast.complete(item)).encode()


@control.post("/plan")
@arguments(PlanChange())
def change_plan(change: dict[str, Any]) -> Response:
    """Put the workspace of the cast on a plan, and change the limits of that plan"""
    plan = db.row(Plan, "double/plan", workspace_id=stage().cast.user.workspace.id, **change)
    return reply_json({"name": plan.name, "perMinute": plan.per_minute, "perDay": plan.per_day})


@control.post("/advance")
@arguments(TimePassed())
def advance(by: dict[str, float]) -> Response:
    """Let time pass"""
    db.execute("double/advance", by=timedelta(**by))
    return reply_json({})


@control.post("/faults")
@arguments(NextFault())
def add_fault(fault: dict[str, Any]) -> Response:
    """Let the next matching requests meet a fault"""
    stage().faults.add(Fault(**fault))
    return reply_json({})


@control.post("/tokens")
@arguments(NewToken())
def create_token(token: dict[str, Any]) -> Response:
    """Make a credential for a user of the cast"""
    user: User = getattr(stage().cast, token.pop("user"))
    secret = generate_token(token["kind"])
    db.execute(
        "tokens/create",
        email=user.email,
        name="",
        days=token.pop("expires_in"),
        hash=hash_of(secret),
        **token,
    )
    return reply_json({"token": secret})


@control.post("/webhooks")
@arguments(NewWebhook())
def create_webhook(webhook: dict[str, Any]) -> Response:
    """Send the events of the cast's workspace to a receiver of the test's own too"""
    try:
        resolve(webhook["url"], stage().settings.webhook_allow)
    except BlockedURL as error:
        raise click.ClickException(f"url: {error}") from None
    key = stage().settings.require_webhook_key()
    made = db.row(
        Numbered,
        "webhooks/create",
        slug=stage().cast.user.workspace.slug,
        key_fingerprint=fingerprint(key),
        **webhook,
    )
    secret = derive_secret(key, made.id, made.secret_number)
    return reply_json({"id": str(made.id), "secret": secret})


@control.post("/deliver")
def deliver() -> Response:
    """Attempt what waits, whatever the schedule says; after a failure its webhook rests"""
    db.execute("double/make_due")
    db.release()
    return reply_json({"attempts": Worker(stage().settings).run_once(prune=False)})


@control.get("/events")
def list_posts() -> Response:
    """List what the receiver got, in order, with the status that it gave"""
    return reply_json({"data": stage().receiver.posts()})


@control.post("/behavior")
@arguments(Behavior())
def behave(behavior: dict[str, Any]) -> Response:
    """Tell the receiver how to treat the next posts"""
    stage().receiver.behave(**behavior)
    return reply_json({})


@control.post("/receiver")
def receive() -> Response:
    """Where the webhook of the cast leads"""
    status = stage().receiver.receive(request.headers, request.get_data())
    return reply(None if status == 204 else "{}", status)
