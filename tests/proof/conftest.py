"""A service for clients to call, and the generators of clients."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from client import TOKENS, insert_token
from later_release import later_release
from openapi_check import document
from programs import run
from receivers import WEBHOOK_SETTINGS
from server import serving

CLIENTS = Path(__file__).parent / "clients"


@pytest.fixture
def service(database_url, connection, cast, unlimited, insert_into, receiver):
    """A server with a row of each resource that is only read; Charlie has one request a minute.

    ``URL`` answers as a later release would: each object of a response has one more field;
    ``THIS_RELEASE`` does not. ``COOKIE`` is a session of Alice, ``HOOK`` the URL of a receiver.
    """
    connection.execute("INSERT INTO plans (name, per_minute) VALUES ('Tiny', 1)")
    connection.execute("UPDATE workspaces SET plan = 'Tiny' WHERE id = %s", (cast["globex"],))
    for table in ("mail", "knowledge", "suggestions"):
        insert_into(table)
    insert_token(connection, cast["alice"], "tmw_session_alice", kind="session")
    with (
        serving(database_url, **WEBHOOK_SETTINGS) as server,
        later_release(server.port) as port,
    ):
        yield {
            "URL": f"http://127.0.0.1:{port}",
            "THIS_RELEASE": f"http://127.0.0.1:{server.port}",
            "TOKEN": TOKENS["alice"],
            "COOKIE": "tmw_session_alice",
            "HOOK": receiver.url,
            "LIMITED_TOKEN": TOKENS["charlie"],
        }
    connection.execute("UPDATE workspaces SET plan = 'Team'")
    connection.execute("DELETE FROM plans WHERE name = 'Tiny'")


@pytest.fixture(scope="session")
def npm(tmp_path_factory):
    """A folder with the packages of clients/package-lock.json, the document and the clients."""
    for command in ("node", "npm"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed: clients in TypeScript are not tried")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copytree(CLIENTS, folder, dirs_exist_ok=True)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    write_document(folder)
    return folder


@pytest.fixture(scope="session")
def generators(tmp_path_factory):
    """The folder bin of an environment with the packages of clients/requirements.txt."""
    folder = tmp_path_factory.mktemp("generators")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder)
    install = ("-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet")
    run(sys.executable, *install, "--requirement", str(CLIENTS / "requirements.txt"), cwd=folder)
    return folder / "bin"


def write_document(folder):
    """Write the published document where a generator reads it."""
    (folder / "openapi.json").write_text(json.dumps(document(), indent=1))


@pytest.fixture
def project(tmp_path):
    """A folder with the document and the sources of the clients."""
    shutil.copytree(CLIENTS, tmp_path, dirs_exist_ok=True)
    write_document(tmp_path)
    return tmp_path
