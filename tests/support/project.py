"""Read the project's files, pages and requirements, and run programs."""

import configparser
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[2]


def read(page):
    return PROJECT.joinpath(page).read_text(encoding="utf-8")


def replaced(text, *pairs):
    """Return the text with each old part replaced; fail if the text lacks one of them."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def section(page, heading):
    """Return the text below a heading of any level, up to the next heading."""
    _, found, text = read(page).partition(f"# {heading}\n")
    assert found, f"{page} has no heading {heading}"
    # A line that begins with # in a block of code is no heading.
    (inside,) = re.match(r"(?ms)((?:^```.*?^```$|(?!^#+ ).)*)", text).groups()
    return inside


def rows(page, heading):
    """Return the rows of the table below a heading as lists of cells, without the header."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def blocks(page, language="sh"):
    """Return the blocks of code in a language, without the blocks that are marked as not run."""
    found = re.findall(rf"(?ms)^(<!-- not run -->\n)?```{language}\n(.*?)^```$", read(page))
    return [block for not_run, block in found if not not_run]


def file_block(page, name):
    """Return the block of a page that is the content of a file with this name."""
    marker = rf"<!-- file: {re.escape(name)} -->\n```\w*\n(.*?)```"
    (found,) = re.findall(marker, read(page), re.DOTALL)
    return found


def links(page):
    """Return the relative links of a page, without those in blocks of code."""
    text = re.sub(r"(?ms)^```.*?^```$", "", read(page))
    return [link for link in re.findall(r"\]\(([^)]*)\)", text) if "://" not in link]


def environment(**settings):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **settings}


def output(program, *options, cwd=None):
    """Run a program and return its stdout; skip the test if the program is not installed."""
    if not shutil.which(program):
        pytest.skip(f"{program} is missing")
    return subprocess.run([program, *options], cwd=cwd, stdout=subprocess.PIPE, text=True).stdout


def copy_project(folder):
    """Copy every file of the working tree that git does not ignore, including new files."""
    options = "-z", "--cached", "--others", "--exclude-standard"
    for name in filter(None, output("git", "ls-files", *options, cwd=PROJECT).split("\0")):
        if PROJECT.joinpath(name).exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target, follow_symlinks=False)


def clone_of_windows(folder):
    """Make a clone as git does on Windows: without symbolic links, and with CRLF line ends."""
    copy_project(folder / "copy")
    run("git", "init", "--quiet", cwd=folder / "copy")
    run("git", "add", "--all", cwd=folder / "copy")
    options = "-c", "core.autocrlf=true", "-c", "core.symlinks=false"
    checkout = "checkout-index", "--all", f"--prefix={folder}/clone/"
    run("git", *options, *checkout, cwd=folder / "copy")
    return folder / "clone"


def start(*command, cwd, **variables):
    """Run a command, and return the ended process. Programs installed by npm are on its PATH."""
    path = os.pathsep.join([str(cwd / "node_modules/.bin"), environment()["PATH"]])
    variables = environment(**{"PATH": path, **variables})
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


def run(*command, cwd, **variables):
    ran = start(*command, cwd=cwd, **variables)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def pythons(minors=range(11, 30)):
    """Return the other Pythons of this machine, as {version: path}.

    By default, return only versions that can run the service. The Python that runs this suite is
    never among them. Each program is tried, because a program on the PATH may be a shim of pyenv
    for a version that is not switched on. The system's Python may be an older release of a version.
    """
    ask = "import platform, venv; print(platform.python_version())"
    found = {}
    for minor in minors:
        name = f"python3.{minor}"
        installed = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}")
        for path in filter(None, (shutil.which(name), *map(str, installed), f"/usr/bin/{name}")):
            with suppress(OSError):
                asked = subprocess.run([path, "-c", ask], capture_output=True, text=True)
                found.setdefault(asked.stdout.strip(), path)
    return {
        version: path
        for version, path in found.items()
        if version not in ("", platform.python_version())
    }


def required():
    parser = configparser.ConfigParser()
    parser.read(PROJECT / "setup.cfg")
    lines = parser["options"]["install_requires"].splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]
