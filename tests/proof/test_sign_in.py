"""login.py and sign-in.html of docs/examples: a browser signs in at an OpenID provider."""

import json
import shlex
import shutil
import ssl
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import NamedTuple
from urllib.parse import quote

import pytest
import urllib3
from support import front
from support.openapi_check import LOGIN_KEY
from support.processes import free_port, serving
from support.project import PROJECT, blocks, environment, replaced, run
from support.proxy import Proxy
from support.rows import TOKENS, count

pytestmark = [
    pytest.mark.proof,
    *(
        pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")
        for program in ("chromium", "nginx", "node", "npm")
    ),
]

HERE = Path(__file__).parent / "sign_in"
EXAMPLES = PROJECT / "docs/examples"
# The client that the provider knows. The provider, oidc-provider, serves HTTP on loopback only in
# development, and prints a warning about it.
CLIENT = {"CLIENT_ID": "tasks", "CLIENT_SECRET": "secret-of-the-client"}


class Gate(Proxy):
    """A proxy that passes each piece of a request or response to a function.

    The function returns what to forward, and may wait before it returns.
    """

    def __init__(self, port):
        super().__init__(f"host=127.0.0.1 port={port}")
        self.behaves()

    def behaves(self, rule=lambda content: content):
        self.forwarded = rule


class Site(NamedTuple):
    """The one origin of front end, login page and API, and the parts that a test may change."""

    origin: str
    folder: Path
    # The front end that nginx serves.
    page: Path
    # The proxies before the other two.
    service: Gate
    login: Gate


@pytest.fixture(scope="module")
def module_site(database_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sign-in")
    folder.chmod(0o755)
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    run("npm", "install", *quiet, cwd=folder)
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
    commands, _ = blocks("docs/sign-in.md")
    install, serve = map(shlex.split, commands.splitlines())
    run(sys.executable, "-m", "pip", "--python", str(python), "-q", *install[1:], cwd=folder)
    shutil.copy(EXAMPLES / "login.py", folder)
    (locations,) = blocks("docs/sign-in.md", "nginx")
    port, login_port, provider = free_port(), free_port(), free_port()
    origin = f"https://127.0.0.1:{port}"
    with ExitStack() as stack:
        # nginx runs as another user, who cannot enter ``folder``.
        front_end = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="front-end-")))
        front_end.chmod(0o755)
        shutil.copy(EXAMPLES / "sign-in.html", front_end / "index.html")
        service = stack.enter_context(
            serving(database_url, TRUSTED_PROXIES="1", LOGIN_KEY=LOGIN_KEY)
        )
        gates = [stack.enter_context(closing(Gate(port))) for port in (service.port, login_port)]
        locations = replaced(
            locations,
            ("127.0.0.1:9000", f"127.0.0.1:{gates[1].port}"),
            ("/var/www/tasks", str(front_end)),
        )
        hosts, server = f"server 127.0.0.1:{gates[0].port};", front.tls(folder, port) + locations
        site = front.service_site(folder, hosts, server)
        variables = {"ORIGIN": origin, "LOGIN_KEY": LOGIN_KEY, "SECRET_KEY": "x" * 32}
        variables |= {"SERVICE": f"http://127.0.0.1:{gates[0].port}", **CLIENT}
        serve[0] = str(python.with_name(serve[0]))
        login = replaced(shlex.join(serve), (":9000", f":{login_port}")).split()
        issuer = environment(PORT=str(provider), CALLBACK=f"{origin}/login/callback", **CLIENT)
        node = ("node", "provider.mjs")
        stack.enter_context(front.running(node, provider, cwd=folder, env=issuer))
        variables["ISSUER"] = f"http://127.0.0.1:{provider}"
        stack.enter_context(
            front.running(login, login_port, cwd=folder, env=environment(**variables))
        )
        stack.enter_context(front.nginx(folder, site, port))
        yield Site(origin, folder, front_end / "index.html", *gates)


@pytest.fixture
def site(module_site):
    yield module_site
    for gate in (module_site.service, module_site.login):
        gate.behaves()
    shutil.copy(EXAMPLES / "sign-in.html", module_site.page)


def told(site, story, **variables):
    """Run a story, a script for the browser; return what the story has reported."""
    variables |= {"ORIGIN": site.origin, "CHROMIUM": shutil.which("chromium")}
    return json.loads(run("node", f"{story}.mjs", cwd=site.folder, **variables))


def signs_in(site, login, wanted="/"):
    return told(site, "person", LOGIN=login, WANTED=wanted)


def answer(status, **error):
    """Return the bytes of an error response, with which a gate can replace another response."""
    body = json.dumps({**error, "status": status, "requestId": "1"})
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


def test_a_browser_signs_in_creates_tasks_in_two_tabs_and_signs_out_at_the_provider_too(
    site, connection, cast, initech
):
    seen = signs_in(site, "alice@example.com", "/?of=a%20link")
    # After signing out, the provider shows its form again.
    assert "Sign-in" in seen.pop("text")
    assert seen == {
        "url": f"{site.origin}/?of=a%20link",
        "cookie": {"path": "/api", "httpOnly": True, "secure": True, "sameSite": "Lax"},
        "script": "",
        "tasks": ["From a browser"],
        # A tab stays in its workspace even if another tab chooses another one.
        "tabs": [["Again", "From a browser"], ["From the other tab"]],
        "left": 0,
    }
    tasks = connection.execute("SELECT title, workspace_id::text, created_by::text FROM tasks")
    assert {(row["title"], row["workspace_id"], row["created_by"]) for row in tasks.fetchall()} == {
        ("From a browser", cast["acme"], cast["alice"]),
        ("Again", cast["acme"], cast["alice"]),
        ("From the other tab", initech, cast["alice"]),
    }
    (token,) = connection.execute("SELECT revoked_at FROM tokens WHERE kind = 'session'").fetchall()
    assert token["revoked_at"]


UNVERIFIED = "Your provider has not verified your e-mail address."


def with_claims(**claims):
    return f"alice@example.com?{json.dumps(claims)}"


def test_only_a_person_with_an_account_and_a_verified_address_gets_a_session(site, connection):
    forms = [
        False,
        None,
        "false",
        "False",
        "TRUE",
        "True",
        "no",
        "0",
        "1",
        "",
        " true",
        0,
        1,
        [True],
    ]
    refused = {
        "nobody@example.com": "nobody@example.com has no account here. Ask an owner of your"
        " workspace to add it.",
        **{with_claims(email_verified=form): UNVERIFIED for form in forms},
        with_claims(email=None): "email: must not be null",
    }
    before = count(connection, "tokens")
    seen = told(site, "logins", LOGINS=json.dumps([*refused]))
    for text, (page, sessions) in zip(refused.values(), seen, strict=True):
        assert (text in page, sessions) == (True, 0), page
        assert "Sign in with another account" in page
    assert count(connection, "tokens") == before
    ((text, sessions),) = told(
        site, "logins", LOGINS=json.dumps([with_claims(email_verified="true")])
    )
    assert ("Sign out" in text, sessions) == (True, 1)


def test_the_name_at_the_provider_replaces_the_stored_name_if_the_service_accepts_it(
    site, connection
):
    for name, stored in (
        ("Dr. Alice", "Dr. Alice"),
        ("Fool \u202e", "Dr. Alice"),
        ("x" * 121, "Dr. Alice"),
        ("", "Dr. Alice"),
        (7, "Dr. Alice"),
        ("Alice", "Alice"),
    ):
        ((_, sessions),) = told(site, "logins", LOGINS=json.dumps([with_claims(name=name)]))
        assert sessions == 1
        (row,) = connection.execute("SELECT name FROM users WHERE email = 'alice@example.com'")
        assert row["name"] == stored


def opened(site, path):
    manager = urllib3.PoolManager(cert_reqs=ssl.CERT_NONE)
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return manager.request("GET", site.origin + path, redirect=False)


def test_a_link_to_the_login_page_with_control_characters_gets_400(site):
    for path in ("%0d%0aX: y", "%0a", "a%00", "%1b"):
        response = opened(site, f"/login?next=/{path}")
        assert (response.status, response.headers["Content-Type"]) == (
            400,
            "text/html; charset=utf-8",
        )
    assert opened(site, f"/login?next={quote('/?of=ü b')}").status == 302


def test_a_link_to_the_login_page_cannot_run_a_script(site):
    script = "<script>document.title = 1</script>"
    response = opened(
        site, f"/login/callback?error={quote(script)}&error_description={quote(script)}"
    )
    assert response.status == 403
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none';")
    page = response.data.decode()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_person_who_signed_in_with_the_wrong_account_can_choose_another_one(site, connection):
    wanted = {"LOGIN": "nobody@example.com", "OTHER": "alice@example.com"}
    seen = told(site, "another", WANTED="/?of=a%20link", **wanted)
    assert seen["page"] == ["Sign in", "en", True]
    # The provider asks, both after the link and after opening the page again.
    assert seen["asked"] == [True, True]
    assert (seen["url"], seen["sessions"]) == (f"{site.origin}/?of=a%20link", 1)


def test_the_login_page_says_so_if_something_else_answers_in_place_of_the_service(site):
    other = b"HTTP/1.1 502 X\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    asked = Event()

    def at_service(content):
        if content.startswith(b"POST /api/session"):
            asked.set()
        return other if asked.is_set() and content.startswith(b"HTTP/1.1 ") else content

    site.service.behaves(at_service)
    ((text, sessions),) = told(site, "logins", LOGINS=json.dumps(["alice@example.com"]))
    assert "The provider or the service does not answer. Try again." in text
    assert sessions == 0


@pytest.mark.parametrize("polls", ["", "yes"])
def test_a_list_that_is_still_loading_does_not_sign_in_again_after_sign_out(
    site, connection, polls
):
    """Gates delay the list until the page leaves, and the leaving until the page has got its 401.

    The other tab gets a 401 too, when it polls the next time.
    """
    added, held, going, refused, again = (Event() for _ in range(5))

    def at_service(content):
        if content.startswith(b"POST /api/tasks"):
            added.set()
        elif added.is_set() and content.startswith(b"GET /api/tasks"):
            held.set()
            going.wait(30)
        elif held.is_set() and content.startswith(b"HTTP/1.1 401"):
            refused.set()
        return content

    def at_login(content):
        if content.startswith(b"GET /login/out"):
            going.set()
            assert refused.wait(30)
            # The page must not ask to sign in again.
            again.wait(1)
        elif going.is_set() and content.startswith(b"GET /login?"):
            again.set()
        return content

    if polls:
        poll = "while (true) { await show(); await new Promise((go) => setTimeout(go, 50)); }\n"
        start = 'attempt("Loading…", start)();\n'
        page = site.page.read_text()
        site.page.write_text(replaced(page, (start, start + poll)))
    site.service.behaves(at_service)
    site.login.behaves(at_login)
    seen = told(site, "leaving", LOGIN="alice@example.com", POLLS=polls)
    assert refused.is_set()
    assert seen["sign"] == "Saving…"
    # The provider asks whether it should end its session too.
    assert "sign-out" in seen["tabs"][0].lower()
    if polls:
        # The other tab has asked to sign in, so the provider shows its form there.
        assert "Sign-in" in seen["tabs"][1]
    else:
        assert not again.is_set()
    assert seen["left"] == 0
    assert count(connection, "tokens", "kind = 'session' AND revoked_at IS NULL") == 0


def test_the_page_shows_each_error_and_keeps_what_the_person_has_typed(
    site, connection, cast, initech
):
    again = "Try again in a moment; nothing is done twice."
    limited = f"Too many requests. {again}"
    unavailable = f"The service is not available at the moment. {again}"
    first = {
        b"GET /api/tasks": [answer(503, message="raw")],
        b"POST /api/tasks": [answer(429, message="raw"), answer(503, message="raw")],
        b"DELETE /api/session": [answer(503, message="raw")],
    }
    waiting = []

    def at_service(content):
        """Replace the first responses to these requests, one at a time, by errors."""
        for start, answers in first.items():
            if answers and content.startswith(start):
                waiting.append(answers.pop(0))
        if waiting and content.startswith(b"HTTP/1.1 "):
            return waiting.pop()
        return content

    site.service.behaves(at_service)
    seen = told(
        site,
        "trouble",
        LOGIN="bob@example.com",
        MEMBER=cast["bob"],
        WORKSPACE=cast["acme"],
        TOKEN=TOKENS["alice"],
    )
    none, hint = "You are no longer a member of this workspace.", "Choose a workspace"
    assert seen == {
        "list": [unavailable, "", "Acme", False],
        "limited": [limited, "Once", "Acme", False],
        "unavailable": [unavailable, "Once", "Acme", False],
        # The service has added the task at the first attempt, and only once.
        "once": ["", "", "Acme", False, ["Once"]],
        "owner": [204, 201],
        "removed": [none, "Kept", "You are in no workspace: ask an owner", True],
        "again": ["", "Kept", hint, True],
        "chosen": ["", "Kept", "Acme", False, ["Once"]],
        "active": cast["acme"],
        # The session ended while the person typed; the provider signed the person in again.
        "ended": ["", "KeptTyped", "Acme", False],
        "stays": [unavailable, "", "Acme", False, 1],
    }
    # The first attempt to sign out ended the session although the page showed an error. The second
    # attempt found the session ended. Another session has only lost its cookie.
    assert count(connection, "tokens", "kind = 'session' AND revoked_at IS NULL") == 1
    assert count(connection, "tasks") == 1


@pytest.mark.parametrize(
    "wanted", ["//example.com/", "/\\example.com", "@example.com", "https://example.com"]
)
def test_a_link_to_the_login_page_cannot_lead_to_another_origin(site, wanted):
    seen = signs_in(site, "alice@example.com", f"/login?next={quote(wanted)}")
    assert seen["url"].startswith(f"{site.origin}/")


def test_people_with_disabilities_meet_no_serious_barrier_on_the_example_pages(site):
    assets = site.page.parent / "assets"
    assets.mkdir(exist_ok=True)
    shutil.copy(EXAMPLES / "tasks.html", assets)
    seen = told(site, "barriers", TOKEN=TOKENS["alice"])
    assert seen == {name: [True, []] for name in seen}
    assert len(seen) == 8 * 2 * 2


def test_an_owner_adds_an_address_and_its_person_signs_in_as_a_member(site, connection, cast):
    _, invitation = blocks("docs/sign-in.md")
    variables = {"TOKEN": TOKENS["alice"], "ORIGIN": site.origin, "WORKSPACE": cast["acme"]}
    command = replaced(invitation, ("curl ", "curl -sk "))
    mia = json.loads(run("bash", "-c", command, cwd=site.folder, **variables))
    assert (mia["name"], mia["role"]) == ("Mia", "member")
    assert signs_in(site, "mia@example.com")["tasks"] == ["From a browser"]
    (task,) = connection.execute("SELECT workspace_id, created_by FROM tasks").fetchall()
    assert {name: str(id) for name, id in task.items()} == {
        "workspace_id": cast["acme"],
        "created_by": mia["userId"],
    }
