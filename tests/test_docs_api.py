"""docs/api.md says what the code does."""

import re
import sys
from pathlib import Path

import pytest
from marshmallow.fields import Nested

from service.api.me import Me
from service.webhooks import worker

pytestmark = pytest.mark.nodatabase

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")


def members(schema):
    """The names of all members of a response, and of those within them."""
    for field in schema.dump_fields.values():
        yield field.data_key
        if isinstance(field, Nested):
            yield from members(field.schema)


def test_the_table_of_me_names_every_member_and_no_other():
    table = PAGE.split("\n`GET /api/me` returns\n", 1)[1].split("\n\n")[0]
    values = {"read", "write", "api", "session"}
    assert set(re.findall(r"`(\w+)`", table)) - values == set(members(Me()))


def test_the_page_lists_the_characters_that_are_removed_at_both_ends():
    paragraph = re.search(r"(?s)\nThe service removes white space .*?\n\n", PAGE)[0]
    listed = {" "}
    for first, last in re.findall(r"U\+([0-9A-F]{4})(?: to U\+([0-9A-F]{4}))?", paragraph):
        listed |= {chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)}
    removed = {chr(code) for code in range(sys.maxunicode + 1) if not chr(code).strip()}
    assert listed == removed


def test_the_page_of_webhooks_says_how_long_the_worker_waits():
    seconds = worker.MAX_ATTEMPT_SECONDS
    text = " ".join((DOCS / "webhooks.md").read_text(encoding="utf-8").split())
    waits = f"waits {seconds} seconds, but at most half of `WEBHOOK_LEASE`"
    assert f"the worker, which retries, {waits}" in text
