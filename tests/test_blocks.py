"""Each block of shell commands in the pages of operation ends at its first line that fails.

Whoever pastes a whole block sees the error of that line last, and nothing after it has happened.
"""

import re
import subprocess

import pytest
from support.project import PROJECT

PAGES = sorted(PROJECT.glob("docs/operations/*.md"))
BLOCK = re.compile(r"(?ms)^```(?:sh|bash)\n(.*?)^```$")
# Settings, which no shell runs.
SETTINGS = re.compile(r"(?:[A-Z_]+=.*\n)+")
# bash calls the handler instead of every program, because no program is on the PATH. It notes the
# line and the name, and fails if they are $FAILS.
STUBS = """
PATH=/nowhere
command_not_found_handle() {
    printf '%s %s\\n' "${BASH_LINENO[0]}" "$1" >&3
    [ "${BASH_LINENO[0]} $1" != "$FAILS" ] && { echo 1 2>/dev/null || :; }
}
# The end of a pipe may not read what its beginning prints.
trap '' PIPE
kill() { :; }
wait() { :; }
cd() { :; }
"""
# A line that waits until a program succeeds, starts it in the background, or takes any outcome.
WAITS = re.compile(r"until |.* &$|.*\|\| true")


def shell_blocks():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if not SETTINGS.fullmatch(found[1]):
                line = text[: found.start(1)].count("\n") + 1
                yield pytest.param(found[1], id=f"{page.name}:{line}")


SHELL_BLOCKS = [*shell_blocks()]


def harmless(block):
    """Call programs by their names alone, let no redirection reach a file, and trap no exit."""
    block = re.sub(r"(?m)^trap .* EXIT$", ":", block)
    block = re.sub(r"[^\s\"'(]*/bin/", "", block)
    return re.sub(r"(?<![<>&])(>>?|<)(?![<>&])(?:\"[^\"]*\"|[\w./$~-]+)", r"\1/dev/null", block)


def run(folder, block, fails=""):
    """Run the block with stubs; return its status, and the line and name of each program."""
    (folder / "stubs").write_text(STUBS)
    (folder / "block").write_text(harmless(block))
    with (folder / "log").open("w") as log:
        ran = subprocess.run(
            ["bash", "-c", 'exec 3>&1 >/dev/null; . ./stubs; . ./block'],
            cwd=folder, env={"FAILS": fails}, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.PIPE, text=True, timeout=30,
        )  # fmt: skip
    lines = (folder / "log").read_text().splitlines()
    return ran.returncode, [(int(line.split()[0]), line) for line in lines], ran.stderr


@pytest.mark.nodatabase
@pytest.mark.parametrize("block", SHELL_BLOCKS)
def test_a_block_stops_at_its_first_line_that_fails(block, tmp_path):
    lines = block.splitlines()
    status, programs, errors = run(tmp_path, block)
    assert (status, errors) == (0, "")
    assert programs
    for number, program in dict.fromkeys(programs):
        if WAITS.match(lines[number - 1]):
            continue
        status, ran, _ = run(tmp_path, block, program)
        assert (number, program) in ran
        assert [name for line, name in ran if line > number] == [], f"after {program}"
        assert status != 0, f"{program} failed unnoticed"


@pytest.mark.nodatabase
@pytest.mark.parametrize("block", SHELL_BLOCKS)
def test_psql_stops_at_the_first_statement_that_fails(block):
    for before, command in re.findall(r"(.*)\bpsql\b((?:.|\\\n)*)", block):
        if " | " in before or "<<" in command or command.count(" -c ") > 1:
            assert "-v ON_ERROR_STOP=1" in command, command
