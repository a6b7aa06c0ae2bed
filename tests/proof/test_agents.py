"""The program of docs/agents.md gives an agent tools of the real service."""

import json
import shutil
from pathlib import Path

import pytest
from support.project import blocks, run

pytestmark = pytest.mark.proof

AGENTS = Path(__file__).parent / "agents"


@pytest.fixture(scope="session")
def python(new_environment):
    return new_environment(AGENTS / "requirements.txt") / "python"


@pytest.fixture
def seen(python, service, tmp_path):
    """Return what tests/proof/agents/calls.py prints."""
    (program,) = blocks("docs/agents.md", "python")
    (tmp_path / "agent.py").write_text(program)
    shutil.copy(AGENTS / "calls.py", tmp_path)
    return json.loads(run(str(python), "calls.py", cwd=tmp_path, **service))


def characters(tools):
    return sum(len(json.dumps(tool)) for tool in tools)


def test_the_program_on_the_page_gives_an_agent_twelve_tools_that_work(seen):
    tools = {tool["name"]: tool for tool in seen["tools"]}
    assert len(tools) == 12
    hints = {name: tool["annotations"] for name, tool in tools.items()}
    assert hints["listTasks"]["title"].startswith("List the tasks")
    assert hints["listTasks"]["readOnlyHint"]
    assert not hints["createTask"]["destructiveHint"]
    assert hints["changeTasks"]["destructiveHint"]
    # The repeat with the same key created no second task, and the dry runs changed nothing.
    task, repeated, kept = seen["created"]
    assert task == repeated == kept
    assert seen["tried"] == ["Call Bob", True]
    assert "Call Bob" not in seen["titles"]
    assert seen["titles"].count("Call Ada") == 1
    assert '404: NOT FOUND - {"message": "Task not found"' in seen["refused"]
    assert seen["events"] == ["task.created", "task.deleted"]


def test_the_twelve_tools_are_a_fifth_as_long_as_the_tools_of_all_operations(seen):
    assert len(seen["everything"]) == 43
    assert 5 * characters(seen["tools"]) < characters(seen["everything"])
