"""Every relative link of the pages leads to a file, and every file that they name exists."""

import re

import pytest
from pages import PROJECT, links, read

pytestmark = pytest.mark.nodatabase

PAGES = sorted(
    str(path.relative_to(PROJECT))
    for path in [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), *PROJECT.glob(".github/*.md")]
)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file(page):
    folder = PROJECT.joinpath(page).parent
    targets = {folder.joinpath(link.partition("#")[0]).resolve() for link in links(page)}
    assert [str(path) for path in targets if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_project_that_a_page_names_exists(page):
    named = re.findall(r"`((?:service|sql|tests|docs|bench)/[A-Za-z0-9_./-]+)`", read(page))
    absent = {name for name in named if not PROJECT.joinpath(name).exists()}
    assert absent - {"sql/schema/NNNN-subject.sql"} == set()
