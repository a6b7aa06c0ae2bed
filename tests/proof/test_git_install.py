"""The blocks of the pages install the double and its packages from a repository and a release."""

import os
import re
import shutil
import sys
from importlib import metadata

import pytest
from support.project import PROJECT, read, replaced, run

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]

TAG = f"v{metadata.version('task-meeting-workspace-service')}"
NEEDS_NPM = pytest.mark.skipif(not shutil.which("npm"), reason="npm is not on the PATH")


@pytest.fixture
def block(tmp_path):
    """Return a function that returns a block, with the URL of a bare repository of this checkout.

    The last commit has the tag of the version. Changes without a commit are not in the repository.
    """
    repository = tmp_path / "repository.git"
    run("git", "clone", "--quiet", "--bare", PROJECT, repository, cwd=tmp_path)
    run("git", "tag", "--force", TAG, cwd=repository)

    def block(page, name):
        marker = rf"<!-- run: {name} -->\n```sh\n(.*?)```"
        (text,) = re.findall(marker, read(page), re.DOTALL)
        return text.replace("https://github.com/OWNER/REPOSITORY", repository.as_uri())

    return block


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a client with its tests, which all users may enter, for PostgreSQL."""
    tmp_path.chmod(0o711)
    return shutil.copytree(PROJECT / "docs/examples", tmp_path / "client")


def test_pip_installs_the_double_and_the_plugin_from_a_git_url(block, folder):
    text = block("docs/testing.md", "git")
    run(sys.executable, "-m", "venv", "venv", cwd=folder)
    text = replaced(text, ("python3 -m venv", f"{sys.executable} -m venv"))
    path = f"{folder / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"
    printed = run("bash", "-ec", text, cwd=folder, PATH=path)
    assert f"task-service: {folder}/double/bin/task-service (as told)" in printed
    assert re.search(r"\b7 passed", printed)
    (version,) = run("double/bin/task-service", "--version", cwd=folder).split()[-1:]
    assert version.startswith(f"{TAG[1:]}+")


def installed(folder, text):
    """Run a block in an empty project; return the files of the package that it installed."""
    (folder / "package.json").write_text('{"name": "client", "private": true}')
    run("bash", "-ec", text, cwd=folder, HOME=str(folder))
    # A lock file lets `npm ci` repeat the installation.
    shutil.rmtree(folder / "node_modules")
    run("npm", "ci", "--offline", "--silent", cwd=folder, HOME=str(folder))
    package = folder / "node_modules/task-service-double"
    assert not package.is_symlink()
    return {path.name for path in package.iterdir()}


FILES = {"LICENSE", "README.md", "package.json", "index.mjs", "index.d.ts"}


@NEEDS_NPM
def test_npm_installs_the_package_from_a_clone(block, folder):
    assert installed(folder, block("docs/double.md", "npm")) == FILES


@NEEDS_NPM
def test_npm_installs_the_package_from_the_file_of_a_release(block, folder):
    (folder / "dist").mkdir()
    # .ci/release.py makes the file with the same command.
    pack = "npm", "pack", "--silent", "--pack-destination", folder / "dist"
    run(*pack, PROJECT / "testkit/node", cwd=folder)
    assert installed(folder, block("docs/double.md", "npm-release")) == FILES
