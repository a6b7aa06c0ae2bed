"""The README's table of endpoints and its names of files are those of the project."""

import re

import pytest
from openapi_check import WITH_LOGIN
from pages import PROJECT, read, rows

from service.app import create_app

pytestmark = pytest.mark.nodatabase

README = read("README.md")


def test_the_endpoint_table_of_the_readme_has_every_route_and_no_other():
    listed = {(method, path.strip("`")) for method, path, _ in rows("README.md", "Endpoints")}
    routes = {
        (method, re.sub("<.*?>", ":id", rule.rule))
        for rule in create_app(WITH_LOGIN).url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert not routes - listed, f"README.md, Endpoints: add {sorted(routes - listed)}"
    assert not listed - routes, f"README.md, Endpoints: remove {sorted(listed - routes)}"


def test_every_page_that_the_readme_names_exists():
    named = re.findall(r"`((?:docs/)?[A-Za-z.]+)`", README.partition("## Where to read on")[2])
    absent = {name for name in named if not PROJECT.joinpath(name).exists()}
    assert absent == set()


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
