"""schemathesis sends requests that the document allows or forbids, and makes all its checks.

The seeds are fixed, so a failure can be repeated. To look for more:
``FUZZ_EXAMPLES=2000 FUZZ_SEEDS="7 8 9" pytest -m proof tests/proof/test_fuzz.py``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import serving
from support.project import environment
from support.rows import TOKENS

pytestmark = pytest.mark.proof

TESTS = Path(__file__).parent
EXAMPLES = os.environ.get("FUZZ_EXAMPLES", "120")
SEEDS = os.environ.get("FUZZ_SEEDS", "1 2").split()


@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_no_violation_of_the_document(database_url, unlimited, tmp_path, seed):
    with serving(database_url) as server:
        run = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                f"--config-file={TESTS / 'fuzz.toml'}",
                "run",
                f"http://127.0.0.1:{server.port}/openapi.json",
                f"--header=Authorization: Bearer {TOKENS['alice']}",
                "--checks=all",
                "--phases=examples,coverage,fuzzing,stateful",
                f"--max-examples={EXAMPLES}",
                f"--seed={seed}",
                # Before Python 3.13 two threads can crash ast.parse, which hypothesis uses.
                "--workers=1",
                "--generation-database=none",
                "--no-color",
            ],
            cwd=tmp_path,
            env=environment(
                SCHEMATHESIS_HOOKS="fuzz_checks", PYTHONPATH=f"{TESTS}{os.pathsep}{TESTS.parent}"
            ),
            capture_output=True,
            text=True,
        )
    print(run.stdout, run.stderr)
    assert run.returncode == 0, f"schemathesis found something with the seed {seed}"
