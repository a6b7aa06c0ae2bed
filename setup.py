"""Adds two things to setup.cfg: the commit of a build, and the pages of a source distribution.

The package ``service`` ends this process if the copy has lost its symbolic links.
"""

import sys
from pathlib import Path

# With an extra, pip tries its libraries in all versions before it looks at python_requires.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("This service needs Python 3.11 or later; this is Python " + sys.version.split()[0])

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent))

from service.version import BUILT_FROM, commit

# What the source distribution has beside the packages. Tests and tools are for a checkout.
PAGES = (
    *("*.md", ".github/SECURITY.md", "speedups/*.md", "speedups/http_server/*.md"),
    *(".dockerignore", "Dockerfile", "compose.yaml", "requirements.txt"),
)


def write_commit(package: Path) -> None:
    """Write the commit into a folder with the package, if it is known."""
    known = commit()
    if known:
        package.joinpath(BUILT_FROM).write_text(f"{known}\n", encoding="ascii")


class Build(build_py):
    """Builds the package for a wheel."""

    def run(self) -> None:
        """Copy the package; in an editable installation the checkout tells its commit."""
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib, "service"))


class SourceDistribution(sdist):
    """Builds the source distribution, from which a wheel may be built elsewhere."""

    def make_distribution(self) -> None:
        """Add the pages, and leave out the tests that setuptools adds."""
        for pattern in PAGES:
            self.filelist.include(pattern)
        self.filelist.graft("docs")
        self.filelist.prune("tests")
        super().make_distribution()

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the source."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir, "service"))


setup(cmdclass={"build_py": Build, "sdist": SourceDistribution})
