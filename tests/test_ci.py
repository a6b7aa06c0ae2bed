"""What .ci/run and .ci/nightly run: together every test, and each long test in one of the two."""

import re
import subprocess

import pytest
from support.project import PROJECT, read, run

pytestmark = pytest.mark.nodatabase


def long_tests(script):
    """Return the names of the files in tests/proof that a script in .ci names."""
    text = read(script)
    several = re.findall(r"tests/proof/test_{(.*?)}\.py", text)
    return {f"test_{name}.py" for names in several for name in names.split(",")} | {
        *re.findall(r"\btest_\w+\.py", text)
    }


def test_each_file_of_long_tests_is_in_the_short_run_or_in_a_step_of_the_nightly_run():
    files = {path.name for path in PROJECT.glob("tests/proof/test_*.py")}
    short, nightly = long_tests(".ci/run"), long_tests(".ci/nightly")
    assert files - short - nightly == set(), (
        "add these files to .ci/run or to a step of .ci/nightly"
    )
    # Each of them draws one seed.
    assert short & nightly & files == {"test_fuzz.py"}


def test_the_short_run_has_the_slow_tests_which_the_suite_leaves_out():
    assert ".ci/newcomer" in read(".ci/run")
    assert ".venv/bin/pytest -m slow" in read(".ci/newcomer")


def test_each_scenario_under_load_is_in_a_folder_or_file_that_a_step_of_the_nightly_run_names():
    marked = {
        str(path.relative_to(PROJECT))
        for path in PROJECT.glob("t*/**/test_*.py")
        if "mark.faults" in path.read_text() and path.name != "test_ci.py"
    }
    named = re.findall(r"faults\) faults (\S+)", read(".ci/nightly"))
    named += re.findall(r"predecessor\) faults (\S+)", read(".ci/nightly"))
    assert {file for file in marked if not file.startswith((*named,))} == set()


def test_the_nightly_workflow_has_a_job_for_each_step():
    steps = run(".ci/nightly", "--list", cwd=PROJECT).split()
    (listed,) = re.findall(r"(?s)step:\n(.*?)\n\n?    \w", read(".github/workflows/nightly.yml"))
    assert re.findall(r"- (\S+)", listed) == steps


def test_the_nightly_run_refuses_a_step_that_it_does_not_have():
    ended = subprocess.run(
        [PROJECT / ".ci/nightly", "fuz"], cwd=PROJECT, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("There is no step fuz; the steps are: newest ")
