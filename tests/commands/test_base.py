"""Commands on a terminal, which is that of this process: their output and their questions."""

import click
import pytest

from service.commands.base import confirm, echo_rows
from service.commands.plans import ListedPlan

pytestmark = pytest.mark.nodatabase

PLANS = [ListedPlan("Pro \u6885", 60, 10000, 0), ListedPlan("Me\u0301i", 1000, None, 2)]


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
    assert on_a_terminal(confirm, "Delete it?", yes=False, typed="y\n") == []
    for answer in ("n\n", "\n"):
        with pytest.raises(click.Abort):
            on_a_terminal(confirm, "Delete it?", yes=False, typed=answer)
    assert capsys.readouterr().err == 3 * "Delete it? [y/N]: "
