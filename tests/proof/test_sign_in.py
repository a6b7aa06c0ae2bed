"""docs/sign-in.md as it stands: a browser signs in at an OpenID provider, behind nginx."""

import json
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from support import front
from support.openapi_check import LOGIN_KEY
from support.processes import free_port, serving
from support.project import blocks, environment, replaced, run
from support.rows import TOKENS, count

pytestmark = [
    pytest.mark.proof,
    *(
        pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")
        for program in ("chromium", "nginx", "node", "npm")
    ),
]

HERE = Path(__file__).parent / "sign_in"
# oidc-provider serves http on loopback only in development, and says so.
CLIENT = {"CLIENT_ID": "tasks", "CLIENT_SECRET": "secret-of-the-client"}


@pytest.fixture(scope="module")
def origin(database_url, tmp_path_factory):
    """The origin of the front-end, the login page and the API."""
    folder = tmp_path_factory.mktemp("sign-in")
    folder.chmod(0o755)
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    run("npm", "install", *quiet, cwd=folder)
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
    packages = ("authlib", "flask", "gunicorn", "requests")
    run(
        sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *packages, cwd=folder
    )
    (program,), (page,) = blocks("docs/sign-in.md", "python"), blocks("docs/sign-in.md", "html")
    (folder / "login.py").write_text(program)
    (locations,) = blocks("docs/sign-in.md", "nginx")
    command, _ = blocks("docs/sign-in.md")
    port, login_port, provider = free_port(), free_port(), free_port()
    origin = f"https://127.0.0.1:{port}"
    with ExitStack() as stack:
        # nginx serves it as another user, who cannot enter the other folder.
        front_end = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="front-end-")))
        front_end.chmod(0o755)
        (front_end / "index.html").write_text(page)
        service = stack.enter_context(
            serving(database_url, TRUSTED_PROXIES="1", LOGIN_KEY=LOGIN_KEY)
        )
        locations = replaced(
            locations,
            ("127.0.0.1:9000", f"127.0.0.1:{login_port}"),
            ("/var/www/tasks", str(front_end)),
        )
        hosts, server = f"server 127.0.0.1:{service.port};", front.tls(folder, port) + locations
        site = front.service_site(folder, hosts, server)
        variables = {"ORIGIN": origin, "LOGIN_KEY": LOGIN_KEY, "SECRET_KEY": "x" * 32}
        variables |= {"SERVICE": f"http://127.0.0.1:{service.port}", **CLIENT}
        login = replaced(command, ("127.0.0.1:9000", f"127.0.0.1:{login_port}")).split()
        login[0] = str(python.with_name(login[0]))
        issuer = environment(PORT=str(provider), CALLBACK=f"{origin}/login/callback", **CLIENT)
        node = ("node", "provider.mjs")
        stack.enter_context(front.running(node, provider, cwd=folder, env=issuer))
        variables["ISSUER"] = f"http://127.0.0.1:{provider}"
        stack.enter_context(
            front.running(login, login_port, cwd=folder, env=environment(**variables))
        )
        stack.enter_context(front.nginx(folder, site, port))
        yield origin, folder


def signs_in(origin, email, wanted="/"):
    origin, folder = origin
    person = {"ORIGIN": origin, "EMAIL": email, "WANTED": wanted}
    person["CHROMIUM"] = shutil.which("chromium")
    return json.loads(run("node", "person.mjs", cwd=folder, **person))


def test_a_browser_signs_in_creates_tasks_in_two_tabs_and_signs_out_at_the_provider_too(
    origin, connection, cast, initech
):
    seen = signs_in(origin, "alice@example.com", "/?of=a%20link")
    # The form of the provider, which asks again.
    assert "Sign-in" in seen.pop("text")
    assert seen == {
        "url": f"{origin[0]}/?of=a%20link",
        "cookie": {"path": "/api", "httpOnly": True, "secure": True, "sameSite": "Lax"},
        "script": "",
        "tasks": ["From a browser"],
        # A tab stays in its workspace, whatever another one chooses.
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


@pytest.mark.parametrize(
    ("email", "text"),
    [
        ("nobody@example.com", "You have no account here"),
        ("unverified-alice@example.com", "Your provider has not verified your e-mail address."),
    ],
)
def test_nobody_else_gets_a_session(origin, connection, email, text):
    before = count(connection, "tokens")
    seen = signs_in(origin, email)
    assert seen["text"].strip().startswith(text)
    assert "cookie" not in seen
    assert count(connection, "tokens") == before


@pytest.mark.parametrize(
    "wanted", ["//example.com/", "/\\example.com", "@example.com", "https://example.com"]
)
def test_a_link_to_the_login_page_leads_to_no_other_origin(origin, wanted):
    seen = signs_in(origin, "alice@example.com", f"/login?next={quote(wanted)}")
    assert seen["url"].startswith(f"{origin[0]}/")


def test_an_owner_adds_an_address_and_the_person_signs_in_and_is_in(origin, connection, cast):
    _, invitation = blocks("docs/sign-in.md")
    variables = {"TOKEN": TOKENS["alice"], "ORIGIN": origin[0], "WORKSPACE": cast["acme"]}
    command = replaced(invitation, ("curl ", "curl -sk "))
    mia = json.loads(run("bash", "-c", command, cwd=origin[1], **variables))
    assert (mia["name"], mia["role"]) == ("Mia", "member")
    assert signs_in(origin, "mia@example.com")["tasks"] == ["From a browser"]
    (task,) = connection.execute("SELECT workspace_id, created_by FROM tasks").fetchall()
    assert {name: str(id) for name, id in task.items()} == {
        "workspace_id": cast["acme"],
        "created_by": mia["userId"],
    }
