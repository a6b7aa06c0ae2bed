"""The files that the README names exist, and CI can read its commands."""

import re

import pytest
from support.project import PROJECT, read

pytestmark = pytest.mark.nodatabase

README = read("README.md")


def test_the_readme_names_every_page_of_docs():
    pages = {f"docs/{path.name}" for path in PROJECT.joinpath("docs").glob("*.md")}
    assert pages - set(re.findall(r"`(docs/[a-z-]+\.md)`", README)) == set()


def test_the_readme_has_no_relative_link_because_a_package_index_resolves_none():
    # In place of a picture, the index shows its words.
    links = re.findall(r"(?<!!)\[[^]]*\]\(([^)]*)\)", README)
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_the_first_block_below_a_heading_that_ci_reads_is_one_command(heading):
    section = README.partition(f"\n## {heading}\n")[2]
    assert re.match(r"\n```sh\n[^\n]*\.venv/bin/[^\n]*\n```\n", section)
