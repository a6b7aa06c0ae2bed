"""The plugin and the double in separate environments: their libraries never conflict."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from support.project import PROJECT, pythons

PINS = [
    "pytest==7.4",
    "flask==2.3",
    "gunicorn==23.0.0",
    "marshmallow<4",
    "urllib3<2",
    "psycopg<3.2",
]

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]


def run(*command, cwd, **variables):
    outcome = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_a_project_with_old_libraries_runs_the_examples(tmp_path, wheels):
    """The wheels of this checkout are installed as docs/testing.md says."""
    tmp_path.chmod(0o711)
    project = tmp_path / "project"
    shutil.copytree(PROJECT / "docs" / "examples", project)
    (project / "service").mkdir()
    (project / "service" / "__init__.py").write_text("raise ImportError('of the project')")
    (project / "dist").mkdir()
    for wheel in wheels:
        shutil.copy(wheel, project / "dist")
    # Use the oldest Python on this machine with which the plugin works.
    older = next(iter(pythons(range(9, 12)).values()), sys.executable)
    run(older, "-m", "venv", project / "venv", cwd=project)
    path = f"{project / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run("pip", "install", "-q", *PINS, cwd=project, PATH=path)
    text = (PROJECT / "docs" / "testing.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?s)<!-- run: install -->\n```sh\n(.*?)```", text)
    # The service needs a newer Python than the project: the Python that runs these tests.
    block = block.replace("python3 -m venv", f"{sys.executable} -m venv")
    printed = run("sh", "-e", "-c", block, cwd=project, PATH=path)
    # A relative command is resolved from the root of the project.
    assert f"task-service: {project}/double/bin/task-service (as told)" in printed
    assert "7 passed" in printed
    run(project / "venv" / "bin" / "pip", "check", cwd=project)
