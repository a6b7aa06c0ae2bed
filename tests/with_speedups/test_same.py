"""Each speedup does what the plain part does: the same values, errors, headers and side effects.

The views, schemas and statements come from the code. If a new version of a library makes one of
these tests fail, SPEEDUPS=off runs the service without the speedup.
"""

import re
from dataclasses import replace
from functools import partial
from io import BytesIO

import psycopg
import pytest
from flask import Flask, Response
from flask import Request as PlainRequest
from marshmallow import ValidationError
from support.derived import (
    Values,
    by_name,
    key,
    lists_of_objects,
    references,
    settable,
    stable,
    views,
    views_of,
)
from support.http import Client
from support.rows import TOKENS, UNKNOWN
from support.statements import DEFINITIONS, NAMES
from werkzeug.exceptions import HTTPException
from werkzeug.test import EnvironBuilder, run_wsgi_app

from service.app import create_app
from service.database.pool import Pool, connection_options
from service.database.statements import STATEMENTS, Connection
from service.settings import Settings
from service.speedups import dispatch, fields, pool, statements

# The headers that differ at each request.
VOLATILE = {"X-Request-Id", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}


def caught(call, *arguments):
    """Return what a call returns, or the class and the text of its error."""
    try:
        return call(*arguments)
    except psycopg.Error as error:
        return type(error), error.sqlstate, error.diag.message_primary
    except (HTTPException, ValidationError, ValueError) as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def services(settings, start_shared):
    return [start_shared(replace(settings, speedups=speedups)) for speedups in (False, True)]


@pytest.mark.slow
@by_name(views())
def test_each_view_answers_the_same_with_and_without_speedups(services, view):
    """No request changes anything, because ids are unknown, and bodies and queries are invalid."""
    path = view.path(*[UNKNOWN] * len(view.variables))
    malformed = view.path(*["-"] * len(view.variables))
    answers = []
    for app in services:
        client, stranger = Client(app, TOKENS["alice"]), Client(app)
        responses = [
            client.send(view.method, path, json=[]),
            client.send(view.method, malformed, json=[]),
            client.send(view.method, f"{path}?unknown=1", json=[]),
            client.send(view.method, f"{path}/", json=[]),
            client.send(view.method, path, data="{", content_type="text/plain"),
            client.send("PUT", path),
            client.send("HEAD", path),
            stranger.send(view.method, path),
        ]
        if view.method == "GET":
            responses += [client.get(path), client.get(f"{path}?limit=1"), client.get(path.upper())]
        answers.append(
            [
                (
                    response.status,
                    {item for item in response.headers.items() if item[0] not in VOLATILE},
                    stable(response.get_json(silent=True)),
                )
                for response in responses
            ]
        )
    plain, fast = answers
    for one, other in zip(plain, fast, strict=True):
        assert one == other


@by_name(views_of("POST", "PATCH", body=True))
def test_each_schema_loads_the_same_with_and_without_speedups(view, connection, cast, insert_into):
    values = Values({**references(connection, cast, insert_into), "id": [UNKNOWN]})
    inner = [field.schema for field in lists_of_objects(view.arguments)]
    for schema in inner or [view.arguments]:
        load, valid = fields.Loader(schema), values.required(schema)
        bodies = [{}, valid, {**valid, "unknown": 1}, {"id": "x", **valid}]
        for field in settable(schema):
            found = values.of(field, schema)
            tried = [*found, None, 0, True, "", " x ", "\0", [], [1], {}, "x" * 3000]
            bodies += [{**valid, key(field): value} for value in tried]
        for body in bodies:
            before = repr(body)
            assert caught(load, body) == caught(schema.load, body)
            assert repr(body) == before


class Whole(tuple):
    """A row of any number of columns."""

    _make = tuple

    def __new__(cls, *columns):
        return super().__new__(cls, columns)


@pytest.fixture(params=[True, False], ids=["prepared", "not prepared"])
def connections(request, database_url):
    settings = Settings.read({"DATABASE_URL": database_url})
    options = connection_options(replace(settings, database_prepare=request.param), "test")
    opened = [kind.connect(database_url, **options) for kind in (Connection, statements.Connection)]
    yield opened
    for connection in opened:
        connection.close()


def returns_rows(name):
    """Return whether psycopg has rows to fetch; only then does the service ask for them."""
    text = STATEMENTS[name].text
    change = re.search(rb"(?m)^(INSERT|UPDATE|DELETE|LOCK|SET)", text)
    return not change or b"RETURNING" in text[change.start() :]


@pytest.mark.slow
def test_each_statement_gives_the_same_types_and_errors_with_and_without_speedups(connections):
    for name in NAMES:
        # The lock of a session would stop the other connection, which runs the same statement.
        if name in DEFINITIONS or name == "migrate/lock_session":
            continue
        found = []
        for connection in connections:
            values = dict.fromkeys(statements.PREPARED[name].parameters)
            with connection.transaction(force_rollback=True):
                result = caught(partial(connection.run, name, **values))
                if result is None and returns_rows(name):
                    result = connection.rows(Whole, name, **values)
            if isinstance(result, list):
                result = [[type(column) for column in row] for row in result]
            found.append((name, result))
        assert found[0] == found[1]


def test_a_lost_connection_raises_an_operational_error_and_is_broken(connections, connection):
    for each in connections:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (each.info.backend_pid,))
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError):
                each.run("plans/list")
            assert each.broken


def test_a_write_that_postgresql_refuses_as_read_only_marks_the_connection(connections):
    for each in connections:
        each.execute("SET default_transaction_read_only = on")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            each.run("tokens/record_use", token_id=UNKNOWN)
        assert each.is_read_only


BODIES = b"", b'{"a": 1}', "ü", None
HEADERS = {}, {"Location": "/x", "ETag": '"1"'}, {"Link": "<a>", "Vary": "Origin"}


@pytest.mark.nodatabase
@pytest.mark.parametrize("status", [200, 201, 204, 304, 503])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_each_response_is_sent_the_same_with_and_without_speedups(status, method):
    environ = EnvironBuilder(method=method).get_environ()
    for body in BODIES:
        for headers in HEADERS:
            sent = []
            for kind in (Response, dispatch.Application.response_class):
                response = kind(body, status, headers, mimetype="application/json")
                response.headers.extend([("X-One", "1"), ("Vary", "Cookie")])
                response.headers["X-Two"] = "2"
                parts, line, fields = run_wsgi_app(response, environ)
                sent.append((b"".join(parts), line, sorted(fields), response.get_data()))
            assert sent[0] == sent[1]


@pytest.mark.nodatabase
@pytest.mark.parametrize("length", [0, 9, 10, 11])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("kind", ["", "application/json", "Application/JSON; charset=utf-8", "a/b"])
def test_each_body_is_read_the_same_with_and_without_speedups(length, chunked, kind):
    read = []
    for request_class in (PlainRequest, dispatch.Application.request_class):
        app = Flask("test")
        app.config["MAX_CONTENT_LENGTH"] = 10
        app.request_class = request_class
        environ = EnvironBuilder(method="POST", data=b"x" * length).get_environ()
        environ["CONTENT_TYPE"] = kind
        if chunked:
            environ.pop("CONTENT_LENGTH", None)
            environ |= {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
        with app.request_context(environ) as context:
            request = context.request
            found = [request.mimetype, request.content_length]
            read.append([*found, caught(request.get_data), caught(request.get_data)])
    assert read[0] == read[1]


@pytest.mark.nodatabase
@pytest.mark.parametrize("coding", [None, "chunked", "gzip", "gzip, chunked"])
@pytest.mark.parametrize("declared", [None, "", "0", "007", "-1", "+5", " 5 ", "٣", "5x"])
def test_each_content_length_is_read_the_same_with_and_without_speedups(declared, coding):
    environ = EnvironBuilder(method="POST").get_environ()
    environ.pop("CONTENT_LENGTH", None)
    given = {"CONTENT_LENGTH": declared, "HTTP_TRANSFER_ENCODING": coding}
    environ |= {name: value for name, value in given.items() if value is not None}
    plain, fast = PlainRequest(environ), dispatch.Application.request_class(environ)
    assert plain.content_length == fast.content_length


@pytest.mark.nodatabase
def test_each_request_closes_the_files_of_a_form_with_and_without_speedups():
    for request_class in (PlainRequest, dispatch.Application.request_class):
        builder = EnvironBuilder(method="POST", data={"file": (BytesIO(b"x"), "x.txt")})
        request = request_class(builder.get_environ())
        file = request.files["file"]
        request.close()
        assert file.closed


@pytest.mark.slow
@pytest.mark.nodatabase
def test_each_path_leads_to_the_same_view_with_and_without_speedups():
    found = []
    settings = Settings.read({"DATABASE_URL": "host=/nowhere"})
    for speedups in (False, True):
        app = create_app(replace(settings, speedups=speedups))
        for rule in app.url_map.iter_rules():
            for id in (UNKNOWN, UNKNOWN.upper(), "-", "", "a/b", "<id:id>", "%2F"):
                path = rule.rule.replace("<id:id>", id).replace("<id:member>", id)
                for method in ("GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "PUT"):
                    for changed in (path, f"{path}/", f"/{path}", path.upper()):
                        # Pass it as a server does: the test client of Flask takes //x for a host.
                        environ = {"PATH_INFO": changed, "REQUEST_METHOD": method}
                        with app.test_request_context(environ_overrides=environ) as context:
                            request, error = context.request, context.request.routing_exception
                            found.append(
                                (
                                    method,
                                    changed,
                                    request.endpoint,
                                    request.view_args,
                                    type(error),
                                    sorted(getattr(error, "valid_methods", None) or ()),
                                )
                            )
    half = len(found) // 2
    assert found[:half] == found[half:]


@pytest.mark.parametrize("kind", [Pool, pool.Pool])
def test_both_pools_keep_the_same_promises(kind, settings):
    pool = kind(replace(settings, web_threads=2), "web")
    pool.open(wait=True)
    first, second = pool.getconn(), pool.getconn()
    with pytest.raises(psycopg.OperationalError, match="connection"):
        pool.getconn(0.01)
    pool.putconn(first)
    assert pool.getconn() is first
    first.close()
    for connection in (first, second):
        pool.putconn(connection)
    with pool.connection(20) as used:
        assert used.rows(Whole, "plans/list")
        pool.drain()
    assert used.closed
    pool.close()
    with pytest.raises(psycopg.OperationalError):
        pool.getconn()
