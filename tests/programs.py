"""Programs that the long tests run: generators of clients and compilers."""

import os
import subprocess

from server import environment


def start(*command, cwd, **variables):
    """Run a command, with the programs from npm in its path."""
    path = os.pathsep.join([str(cwd / "node_modules/.bin"), environment()["PATH"]])
    variables = environment(**{"PATH": path, **variables})
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


def run(*command, cwd, **variables):
    """Return the output of a command, which must succeed."""
    ran = start(*command, cwd=cwd, **variables)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
