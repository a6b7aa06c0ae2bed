"""Reads the project's pages: their tables, blocks and code."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def read(page):
    return PROJECT.joinpath(page).read_text(encoding="utf-8")


def replaced(text, *pairs):
    """Return the text with each old part replaced; every one has to be there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def section(page, heading):
    """Return the text below a heading of any level, up to the next heading."""
    _, found, text = read(page).partition(f"# {heading}\n")
    assert found, f"{page} has no heading {heading}"
    return re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]


def rows(page, heading):
    """Return the cells of the table below a heading, without its head."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def blocks(page, language="sh"):
    """Return the blocks of code in a language, except those that the page marks as not run."""
    found = re.findall(rf"(?ms)^(<!-- not run -->\n)?```{language}\n(.*?)^```$", read(page))
    return [block for not_run, block in found if not not_run]


def links(page):
    """Return the relative links of a page, without those in blocks of code."""
    text = re.sub(r"(?ms)^```.*?^```$", "", read(page))
    return [link for link in re.findall(r"\]\(([^)]*)\)", text) if "://" not in link]
