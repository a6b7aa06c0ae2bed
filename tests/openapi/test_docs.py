"""The written documentation and the reference page: docs/errors.md says what the code says, /docs works."""

import ast
import re
from pathlib import Path

import pytest
import werkzeug.exceptions
from client import TOKENS

from service import create_app
from service.http import errors
from service.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]

# What only commands say, to whoever runs them.
COMMANDS = {"load.py", "load_lines.py", "load_store.py", "settings.py"}

# Sentences of constraints that repeat a limit which the schemas check first.
REPEATED = re.compile(r"\w+ must (have|be one of|be at most)\b")


def template(node):
    """The text of a string or an f-string, with … for what is filled in; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{\w+\}", "…", node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (template(part) or "…" for part in node.values)
        return "".join(parts)
    return None


def status_of(name):
    error = getattr(werkzeug.exceptions, name, None) or getattr(errors, name, None)
    return getattr(error, "code", None)


def raised(tree):
    """Pairs of status and message of each HTTP error that a module makes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            continue
        name = getattr(node.func, "id", None)
        if name == "NotHere":
            # It is made of the name of a resource; what it says stands in its class.
            continue
        if name == "BadInput":
            for pair in ast.walk(node):
                if isinstance(pair, ast.Tuple) and template(pair.elts[-1]):
                    yield 400, template(pair.elts[-1])
        elif name and status_of(name) and node.args and template(node.args[0]):
            yield status_of(name), template(node.args[0])
        elif getattr(node.func, "attr", None) == "__init__" and template((node.args or [None])[0]):
            yield 404, template(node.args[0])


def of_fields(tree):
    """What fields and schemas say of a value or a name: all of it is 400."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("default_error_messages", "COMMON") and isinstance(node.value, ast.Dict):
                yield from (template(value) for value in node.value.values)
            if name == "unknown_message":
                unknown = template(node.value)
                yield from (f"{unknown}; did you mean …?", f"{unknown}; allowed: …")


def of_bodies(tree):
    """What the reader of JSON says; what is deeper inside explains why it is no JSON object."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            prefix = "" if function.name == "parse_object" else "must be a JSON object: "
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ValueError":
                    yield f"The body {prefix}{template(node.args[0])}"


def said():
    """Pairs of status and message of everything that the interface can say."""
    pairs = set()
    for path in (PROJECT / "service").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name in COMMANDS:
            continue
        pairs |= set(raised(tree))
        pairs |= {(400, message) for message in of_fields(tree) if message}
        if path.name == "inputs.py":
            pairs |= {(400, message) for message in of_bodies(tree)}
    pairs |= {(status, message) for status, message in errors.PLAIN.items()}
    for name in ("0003-tasks", "0004-meetings"):
        schema = (PROJECT / f"sql/schema/{name}.sql").read_text(encoding="utf-8")
        for sentence in re.findall(r"CONSTRAINT (?:= )?[\"'](\w+ [^\"']+)[\"']", schema):
            if not REPEATED.match(sentence):
                pairs.add((400, sentence.replace(" ", ": ", 1)))
    # Its two halves are counted above.
    return pairs - {(400, "The body …")}


def listed():
    """Pairs of status and message in the table."""
    table = (PROJECT / "docs/errors.md").read_text(encoding="utf-8")
    return [
        (int(status), message)
        for status, message in re.findall(r"^\| (\d{3}) \| `([^|]+)` \|", table, re.MULTILINE)
    ]


@pytest.mark.nodatabase
def test_the_table_of_errors_lists_what_the_code_says_and_nothing_else():
    assert sorted(said() - set(listed())) == []
    assert sorted(set(listed()) - said()) == []
    assert len(listed()) == len(set(listed()))


@pytest.fixture(scope="module")
def with_page(database_url):
    pytest.importorskip("flask_swagger_ui")
    app = create_app(Settings.read({"DATABASE_URL": database_url, "DOCS": "on"}))
    yield app.test_client()
    app.extensions["pool"].close()


def test_the_page_and_all_that_it_loads_come_from_here_without_credentials(with_page, connection):
    page = with_page.get("/docs")
    assert page.status_code == 200
    assert page.mimetype == "text/html"
    loaded = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(loaded) >= 4
    for path in loaded:
        assert path.startswith("/docs/")
        assert with_page.get(path).status_code == 200
    assert '"url": "/openapi.json"' in page.text
    assert connection.execute("SELECT count(*) FROM usage").fetchone()["count"] == 0


def test_what_the_page_does_not_have_is_404_as_json(with_page):
    for path in ("/docs/nothing.js", "/docs/../gate.py", "/docs/..%2f..%2fsecret"):
        answer = with_page.get(path)
        assert answer.mimetype == "application/json"
        assert answer.status_code in (401, 404)


@pytest.mark.parametrize("path", ["/docs", "/docs/", "/docs/swagger-ui.css"])
def test_unless_asked_for_there_is_no_page(app, path):
    client = app.test_client()
    assert client.get(path).status_code == 401
    answer = client.get(path, headers={"Authorization": f"Bearer {TOKENS['alice']}"})
    assert answer.status_code == 404
    assert answer.mimetype == "application/json"
