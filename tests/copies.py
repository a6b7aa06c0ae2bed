"""Copies of the project, which a test or a tool may change."""

import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def copy_project(folder):
    """Copy every file of the repository, changed or not, new ones included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if PROJECT.joinpath(name).exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target, follow_symlinks=False)
