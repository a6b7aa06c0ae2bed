"""Does two things that setup.cfg cannot: writes the commit into a build, and selects the pages.

The import of the package ``service`` ends this process if the copy has lost its symbolic links.
"""

import sys
from pathlib import Path

# If an extra is to be installed, pip tries all versions of its libraries before it looks at
# python_requires. This check fails first, with a clear message.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("This service needs Python 3.11 or later; this is Python " + sys.version.split()[0])

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent))

from service.version import BUILT_FROM, commit

# The files that the source distribution contains in addition to the packages. It contains no tests
# and no tools, which need a checkout.
PAGES = (
    *("*.md", ".github/SECURITY.md", "speedups/*.md", "speedups/http_server/*.md"),
    *(".dockerignore", "Dockerfile", "compose.yaml", "requirements.txt"),
)


def write_commit(package: Path) -> None:
    """Write the commit into the folder of a package, if the commit is known."""
    known = commit()
    if known:
        package.joinpath(BUILT_FROM).write_text(f"{known}\n", encoding="ascii")


class Build(build_py):
    """Builds the package for a wheel."""

    def run(self) -> None:
        """Copy the package and write its commit.

        An editable installation needs no such file, because it asks Git for the commit.
        """
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib, "service"))


class SourceDistribution(sdist):
    """Builds the source distribution, from which a wheel may be built elsewhere."""

    def make_distribution(self) -> None:
        """Add the pages, and remove the tests, which setuptools adds by itself."""
        for pattern in PAGES:
            self.filelist.include(pattern)
        self.filelist.graft("docs")
        self.filelist.prune("tests")
        super().make_distribution()

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files and write the commit, because a wheel may be built from them elsewhere."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir, "service"))


setup(cmdclass={"build_py": Build, "sdist": SourceDistribution})
