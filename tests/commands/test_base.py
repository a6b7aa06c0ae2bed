"""What commands print on a terminal, and what they ask there; here it is that of this process."""

import os
import pty

import click
import pytest

from service.commands.base import confirm, echo_rows
from service.commands.plans import ListedPlan

pytestmark = pytest.mark.nodatabase

PLANS = [ListedPlan("Pro \u6885", 60, 10000, 0), ListedPlan("Me\u0301i", 1000, None, 2)]


def read_until(terminal, end):
    """Return what is shown up to these bytes."""
    shown = b""
    while not shown.endswith(end):
        shown += terminal.read(1000)
    return shown


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Run a function on a terminal where somebody types a line; return what is shown there."""

    def run(function, *arguments, typed="", **options):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "r+b", buffering=0) as terminal, monkeypatch.context() as changed:
            terminal.write(f"{typed}\n".encode())
            # The kernel echoes the line in its own time; what is read later is output.
            read_until(terminal, b"\r\n")
            with open(theirs, "w") as stdout, open(os.dup(theirs)) as stdin:
                changed.setattr("sys.stdin", stdin)
                changed.setattr("sys.stdout", stdout)
                try:
                    function(*arguments, **options)
                finally:
                    stdout.write("the end")
                    stdout.flush()
                    shown = read_until(terminal, b"the end")
        return shown.decode().removesuffix("the end").splitlines()

    return run


def test_on_a_terminal_rows_are_aligned_below_a_head(on_a_terminal):
    assert on_a_terminal(echo_rows, PLANS, as_json=False) == [
        "NAME    PER MINUTE  PER DAY  WORKSPACES",
        "Pro \u6885  60          10000    0",
        "Me\u0301i     1000        -        2",
    ]
    assert on_a_terminal(echo_rows, [], as_json=False) == []


def test_json_is_indented_by_one_space(capsys):
    echo_rows(PLANS[:1], as_json=True)
    assert capsys.readouterr().out.startswith('[\n {\n  "name": "Pro \\u6885",\n')


def test_only_the_answer_yes_lets_a_command_go_on(on_a_terminal, capsys):
    """Standard output is for what the command prints."""
    assert on_a_terminal(confirm, "Delete it?", yes=False, typed="y") == []
    for answer in ("n", ""):
        with pytest.raises(click.Abort):
            on_a_terminal(confirm, "Delete it?", yes=False, typed=answer)
    assert capsys.readouterr().err == 3 * "Delete it? [y/N]: "
