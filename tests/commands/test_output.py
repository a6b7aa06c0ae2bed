"""A command whose output cannot be written says so in one line, and never ends as a success."""

import os
import subprocess
import sys

import click
import pytest
from support.commands import commands, rows
from support.project import PROJECT, environment

from service.__main__ import main

# The arguments of a command that prints something; None for a command that runs until a signal, and
# for migrate, whose names come from an empty database.
ARGUMENTS = {
    "dev": None,
    "migrate": None,
    "check": (),
    "web": None,
    "worker": None,
    "status": (),
    "workspace create": ("New",),
    "workspace delete": ("globex", "--yes"),
    "workspace export": ("acme",),
    "workspace freeze": ("acme",),
    "workspace list": (),
    "workspace plan": ("acme", "Pro"),
    "workspace unfreeze": ("acme",),
    "user activate": ("bob@example.com", "acme"),
    "user create": ("new@example.com", "New"),
    "user deactivate": ("bob@example.com",),
    "user delete": ("bob@example.com", "--yes"),
    "user list": ("--json",),
    "user reactivate": ("bob@example.com",),
    "user rename": ("bob@example.com", "Robert"),
    "user show": ("alice@example.com",),
    "member add": ("globex", "alice@example.com"),
    "member list": ("acme",),
    "member remove": ("acme", "bob@example.com", "--yes"),
    "token create": ("alice@example.com",),
    "token list": ("alice@example.com",),
    "token revoke": ("--all", "bob@example.com", "--yes"),
    "session create": ("alice@example.com",),
    "session list": (),
    "session revoke": ("--since", "2020-01-01T00:00:00Z", "--yes"),
    "plan list": (),
    "plan set": ("Starter", "--per-minute", "60"),
    "webhook deliveries": ("{webhook}",),
    "webhook disable": ("{webhook}",),
    "webhook enable": ("{webhook}",),
    "webhook list": ("acme",),
    "webhook redeliver": ("--failed", "{webhook}"),
    "webhook rotate": ("{webhook}",),
    "load": ("--fields",),
    "openapi": (),
}
SECRETS = {
    "token create": "the token exists, but nobody has it: token list alice@example.com shows",
    "session create": "the session exists, but nobody has it: token list alice@example.com shows",
    "webhook rotate": "the webhook has a new secret that nobody has, and the old one is valid for",
}
FULL = "cannot write to standard output: No space left on device"
CLOSED = "cannot write to standard output: it is closed"


@pytest.fixture
def run(plain_url, acme, connection):
    """Return a function that runs a command in a process; it returns exit status and stderr."""
    webhook = rows(connection, "SELECT id FROM webhooks")[0]

    def run(name, *, stdout=subprocess.DEVNULL, closed=False, **variables):
        words = [word.format(webhook=webhook["id"]) for word in ARGUMENTS[name] or ("--help",)]
        command = [sys.executable, "-m", "service", *name.split(), *words]
        if closed:
            command = ["sh", "-c", '"$@" >&-', "sh", *command]
        settings = {"DATABASE_URL": plain_url, "WEBHOOK_KEY": "k" * 32, **variables}
        done = subprocess.run(
            command,
            env=environment(**settings),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    return run


def assert_said(name, outcome, reason):
    status, text = outcome
    lost = SECRETS.get(name, "what the command has changed stays")
    assert (status, text.count("\n")) == (1, 1), (name, text)
    assert text.startswith(f"Error: {reason}; {lost}"), (name, text)


def test_the_arguments_of_every_command_are_known():
    leaves = [name for name, it in commands(main) if not isinstance(it, click.Group)]
    assert [*ARGUMENTS] == leaves


@pytest.mark.slow
@pytest.mark.parametrize("name", ["user list", "workspace export", "webhook rotate"])
def test_a_command_that_cannot_print_its_result_says_so_and_fails(name, run):
    with open("/dev/full", "wb") as full:
        assert_said(name, run(name, stdout=full), FULL)
    assert_said(name, run(name, closed=True), CLOSED)


@pytest.mark.proof
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_command_that_cannot_print_its_result_says_so_and_fails(name, closed, run):
    with open("/dev/full", "wb") as full:
        assert_said(name, run(name, stdout=full, closed=closed), CLOSED if closed else FULL)


@pytest.mark.slow
def test_a_secret_that_nobody_received_is_never_passed_over_in_silence(run):
    """A reader that ends early is no error, except for a secret."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        broken = "cannot write to standard output: Broken pipe"
        assert_said("token create", run("token create", stdout=pipe), broken)
        assert run("user list", stdout=pipe) == (1, "")


# With LC_ALL=C, Python cannot read the names of modules in such a folder, and does not even start.
in_ascii_folder = pytest.mark.skipif(not str(PROJECT).isascii(), reason=f"{PROJECT} is not ASCII")


@pytest.mark.slow
@pytest.mark.parametrize(
    "variable",
    [{"PYTHONIOENCODING": "ascii"}, pytest.param({"LC_ALL": "C"}, marks=in_ascii_folder)],
)
def test_output_is_utf_8_in_every_locale(variable, run, connection, tmp_path):
    connection.execute("UPDATE users SET name = 'Ümit' WHERE email = 'bob@example.com'")
    for name in ("token list", "workspace export", "member list"):
        with (tmp_path / "output").open("w+b") as output:
            assert run(name, stdout=output, **variable) == (0, "")
            output.seek(0)
            text = output.read().decode()
        assert ("Ümit" in text) == (name != "token list")


# Python then decodes arguments and the names of files as ASCII.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.slow
@in_ascii_folder
def test_arguments_are_utf_8_in_every_locale(plain_url, connection, acme, tmp_path):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "service", *words],
            env=environment(DATABASE_URL=plain_url, **ASCII),
            capture_output=True,
        )

    assert run("user", "rename", "bob@example.com", "Ümit").stderr == b""
    (bob,) = rows(connection, "SELECT name FROM users WHERE email = 'bob@example.com'")
    assert bob["name"] == "Ümit"
    latin = run("user", "activate", b"\xdcmit", "acme")
    assert (latin.returncode, latin.stderr) == (1, b"Error: an argument is not UTF-8\n")
    file = tmp_path / "Été.jsonl"
    file.write_text('{"type": "task", "workspace": "acme", "title": "Été"}\n')
    assert run("load", str(file)).stderr == b""
    assert rows(connection, "SELECT id FROM tasks WHERE title = 'Été'")
