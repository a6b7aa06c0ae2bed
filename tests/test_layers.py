"""The layers, whose contracts are in pyproject.toml, and what tests import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import PROJECT

pytestmark = pytest.mark.nodatabase


@pytest.mark.speedups
def test_all_import_contracts_hold():
    # In another process, because lint-imports disables the loggers that other tests read.
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_tests_import_helpers_from_tests_support_only():
    """Importing a conftest or a test module makes a second copy of it, with its own state."""
    folders = "tests", "speedups", "testkit/tests"
    for path in (path for folder in folders for path in PROJECT.joinpath(folder).rglob("*.py")):
        pattern = r"(?m)^\s*(?:from|import) ([\w.]*\b(?:test_|conftest)\w*)"
        imported = re.findall(pattern, path.read_text())
        assert not imported, f"{path}: move what it imports from {imported} to tests/support"


# Names with an underscore that the service may use: NamedTuple and Flask document them for users,
# marshmallow documents them for custom fields, and http.client offers no other way to read a status
# line.
DOCUMENTED = {
    "_asdict",
    "_fields",
    "_make",
    "_replace",
    "_deserialize",
    "_get_current_object",
    "_exit",
}
UNDOCUMENTED = {("service/webhooks/outbound.py", "_read_status")}


def test_the_service_uses_no_private_name_of_a_library():
    """Code that needs a private name belongs to the speedups, which can be left out."""
    for path in sorted(PROJECT.glob("service/**/*.py")):
        tree = ast.parse(path.read_text())
        own = {
            name
            for node in ast.walk(tree)
            for name in (getattr(node, "name", None), getattr(node, "attr", None))
            if isinstance(node, ast.FunctionDef)
            or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
        }
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and re.match("_(?!_)", node.attr)
        }
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("service")
            for alias in node.names
            if alias.name.startswith("_") or re.search(r"(^|\.)_", node.module or "")
        }
        allowed = {name for file, name in UNDOCUMENTED if path.match(file)}
        assert used | imported <= own | DOCUMENTED | allowed, path
