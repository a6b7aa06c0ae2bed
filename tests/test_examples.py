"""The programs of docs/examples: pages name them, and one of them reports a week."""

import json
import re
import sys

import pytest
from support.commands import CommandRunner
from support.processes import serving
from support.project import PROJECT, read, run
from support.rows import TOKENS

EXAMPLES = PROJECT / "docs/examples"


@pytest.mark.nodatabase
def test_a_page_or_a_program_names_each_file_of_the_examples():
    pages = [*PROJECT.glob("docs/*.md"), PROJECT / "README.md", *EXAMPLES.glob("*.*")]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    for file in EXAMPLES.iterdir():
        if file.is_file():
            others = [text for page, text in texts.items() if page != file]
            assert any(re.search(rf"\b{file.stem}\b", text) for text in others), file


@pytest.mark.nodatabase
def test_each_program_in_python_says_what_it_needs():
    for file in EXAMPLES.glob("*.py"):
        text = read(file)
        if "\nfrom urllib3 import" in text or "\nimport urllib3" in text:
            assert "urllib3" in text.split('"""')[1] or file.name == "todo.py", file
        assert "\nimport requests" not in text, file


def task(title, **members):
    return {"type": "task", "workspace": "acme", "title": title, "status": "done", **members}


@pytest.mark.slow
def test_the_report_lists_what_was_finished_in_the_week_before_in_the_timezone_of_the_workspace(
    app, alice, cast, database_url, tmp_path
):
    alice.patch(f"/workspaces/{cast['acme']}", {"timezone": "Europe/Berlin"})
    # In Berlin, the week begins on 2026-11-15 at 23:00 UTC.
    tasks = [
        task("Too early", completedAt="2026-11-15T22:59:59Z"),
        task("First", completedAt="2026-11-15T23:00:00Z", assigneeId="bob@example.com"),
        task("Late", completedAt="2026-11-20T12:00:00Z", dueDate="2026-11-19"),
        task("In time", completedAt="2026-11-22T22:59:59Z", dueDate="2026-11-30"),
        task("Too late", completedAt="2026-11-22T23:00:00Z"),
    ]
    lines = "\n".join(map(json.dumps, tasks))
    loaded = CommandRunner(app).invoke(args=["load", "-"], input=lines)
    assert loaded.exit_code == 0, loaded.stderr
    with serving(database_url, WEB_CONCURRENCY="1") as server:
        variables = {"URL": f"http://127.0.0.1:{server.port}", "TOKEN": TOKENS["alice"]}
        program = sys.executable, str(EXAMPLES / "report.py")
        printed = run(*program, cwd=tmp_path, **variables, DAY="2026-11-25")
    assert printed.splitlines() == [
        "Acme finished 3 tasks last week, 1 of them late.",
        "- In time (assigned to nobody)",
        "- Late (assigned to nobody)",
        "- First (assigned to Bob)",
    ]
