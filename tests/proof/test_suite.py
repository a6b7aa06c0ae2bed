"""The tests themselves: they leave no program behind, and heed no variable of pytest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.guard import marked
from support.processes import wait_until
from support.project import PROJECT, copy_project, environment, run, start

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]

PYTEST = [sys.executable, "-m", "pytest"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_pytest_that_a_signal_ends_leaves_no_program_behind(processes, number, tmp_path):
    """All programs that this pytest starts have the folder of the test in their PATH."""
    variables = environment()
    variables["PATH"] += f"{os.pathsep}{tmp_path}"
    command = [*PYTEST, "-n", str(processes), "tests/server/test_web.py"]
    running = subprocess.Popen(
        command, cwd=PROJECT, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def are_running():
        commands = b"".join(map(command_of, marked(tmp_path)))
        return b"gunicorn" in commands and b"postgres\0-D" in commands

    try:
        wait_until(are_running, running, seconds=120)
    finally:
        running.send_signal(number)
    assert running.wait(60) == -number
    wait_until(lambda: not marked(tmp_path))


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_options_that_a_shell_gives_to_pytest_reach_no_pytest_that_a_test_starts():
    test = "test_a_relative_command_is_resolved_from_the_root_of_the_project"
    subprocess.run(
        [*PYTEST, "testkit/tests/test_plugin.py", "-k", test],
        cwd=PROJECT,
        env=environment(PYTEST_ADDOPTS="-q"),
        check=True,
    )


def test_a_test_database_url_that_leads_nowhere_ends_the_run_and_is_named():
    command = [*PYTEST, "tests/test_answers.py"]
    variables = environment(TEST_DATABASE_URL="postgresql://127.0.0.1:1/nothing")
    ran = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "TEST_DATABASE_URL: connection" in ran.stdout + ran.stderr


def test_tests_and_their_programs_keep_compiled_modules_even_if_the_shell_forbids_it(tmp_path):
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    subprocess.run(
        [*PYTEST, "-n", "1", "tests/commands/test_output.py", "-k", "user and list"],
        cwd=PROJECT,
        env=environment(**variables),
        check=True,
    )
    compiled = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    # Only the program imports the module users.
    assert {"test_output", "users", "__main__"} <= compiled


# A file with quick, slow and long tests, one of each.
FILE = "testkit/tests/test_process.py"
QUICK = "test_without_these_options_only_the_loopback_address_of_the_line_reaches_the_double"
SLOW = "test_if_postgresql_cannot_be_set_up_the_error_shows_its_output"
LONG = "test_a_killed_worker_process_is_replaced_and_the_urls_stay_the_same"


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ([], {QUICK}),
        (["-m", "slow"], {SLOW}),
        (["-m", "slow or not slow"], {QUICK, SLOW}),
        (["-m", "proof"], {LONG}),
        (["-k", SLOW], {SLOW}),
        ([FILE], {QUICK, SLOW}),
        ([f"{FILE}::{SLOW}"], {SLOW}),
        (["-m", "proof", FILE], {LONG}),
    ],
)
def test_the_suite_leaves_out_slow_tests_unless_the_command_line_names_them(options, selected):
    command = [*PYTEST, "-o", f"testpaths={FILE}", "--collect-only", "-q", "-n", "0", *options]
    listed = run(*command, cwd=PROJECT)
    assert {name for name in (QUICK, SLOW, LONG) if name in listed} == selected


def test_with_the_speedups_switched_off_the_suite_leaves_out_their_tests_and_runs_the_others():
    variables = {"SPEEDUPS": "off"}
    listed = run(*PYTEST, "--collect-only", "-q", "-n", "0", cwd=PROJECT, **variables)
    files = {line.partition("::")[0] for line in listed.splitlines() if "::" in line}
    assert "tests/api/test_tasks.py" in files
    assert [file for file in files if "speedups/" in file] == []


@pytest.mark.parametrize("command", [["pytest"], [*PYTEST]])
def test_a_clone_with_the_environment_of_another_clone_names_it_and_runs_no_test(command, tmp_path):
    copy_project(tmp_path)
    ended = start(*command, "-n", "0", "tests/values/test_types.py", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert f" of {PROJECT}/" in ended.stderr
    assert f": run make setup in {tmp_path}, then .venv/bin/pytest" in ended.stderr


def test_each_of_several_processes_leaves_out_slow_tests():
    """All tests of this file are slow."""
    options = "-n", "1", "-o", "testpaths=tests/database/test_old_server.py"
    ended = start(*PYTEST, *options, cwd=PROJECT)
    assert ended.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, ended.stdout
