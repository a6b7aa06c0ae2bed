"""Copies of the project, which a test or a tool may change."""

import shutil

from server import PROJECT, output


def copy_project(folder):
    """Copy every file of the repository, changed or not, new ones included."""
    options = "-z", "--cached", "--others", "--exclude-standard"
    for name in filter(None, output("git", "ls-files", *options, cwd=PROJECT).split("\0")):
        if PROJECT.joinpath(name).exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target, follow_symlinks=False)
