"""The configurations of the docs, with the addresses of this machine in them."""

import re
from itertools import cycle

from support.project import PROJECT

ADDRESS = re.compile(r"10\.\d\.0\.1\d:8000")


def configuration(name):
    text = (PROJECT / "docs/scaling.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- file: {re.escape(name)} -->\n```\w*\n(.*?)```", text, re.DOTALL)
    return found


def addressed(text, ports):
    """The text with these ports of loopback instead of its addresses, one after the other."""
    following = cycle(ports)
    assert len(ADDRESS.findall(text)) == len(ports)
    return ADDRESS.sub(lambda _: f"127.0.0.1:{next(following)}", text)
