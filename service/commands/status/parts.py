"""The parts of the schema, which are the columns, indexes and triggers that migrations create."""

import re
from functools import cache
from typing import NamedTuple

from service.database.statements import STATEMENTS, migrations

NAME = r'(?:IF (?:NOT )?EXISTS )?(\w+|"[^"]+")'
# A statement that creates or removes a part.
CHANGE = re.compile(
    r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(?P<table>\w+) \((?P<columns>.*?)^\)"
    rf"|^CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(?P<index>{NAME})\s+ON (?P<indexed>\w+)"
    rf"|^CREATE (?:CONSTRAINT )?TRIGGER (?P<trigger>{NAME})[^;]*?\bON (?P<on>\w+)"
    r"|^ALTER\s+TABLE (?:IF EXISTS )?(?P<altered>\w+)(?P<changes>[^;]*);"
    r"|^DROP (?:INDEX|TRIGGER|TABLE) (?:CONCURRENTLY )?(?P<dropped>[^;]*);",
    re.MULTILINE | re.DOTALL,
)
# A line of CREATE TABLE that begins with a name in lower case is a column.
COLUMN = re.compile(r"^    ([a-z_]\w*) ((?:(?!^    \w).)*)", re.MULTILINE | re.DOTALL)
UNIQUE = re.compile(r'(?:CONSTRAINT (\w+|"[^"]+")\s+)?\bUNIQUE\b')
ADDED, REMOVED = re.compile(rf"\bADD COLUMN {NAME}"), re.compile(rf"\bDROP COLUMN {NAME}")
# The index of a unique constraint has the name of the constraint.
UNIQUE_NO_LONGER = re.compile(rf"\bDROP CONSTRAINT {NAME}")


class Part(NamedTuple):
    # column, index or trigger.
    kind: str
    table_name: str
    name: str

    def __str__(self) -> str:
        name = self.name if self.kind == "index" else f"{self.table_name}.{self.name}"
        return f"{self.kind} {name}"


@cache
def schema_parts() -> list[Part]:
    """Read the parts from the migrations, in which each column has its own line."""
    sources = "".join(STATEMENTS[f"schema/{name}"].source.decode() for name in migrations())
    parts: dict[Part, None] = {}
    for change in CHANGE.finditer(sources):
        if table := change["table"]:
            for name, rest in COLUMN.findall(change["columns"]):
                parts[Part("column", table, name)] = None
                if unique := UNIQUE.search(re.sub("--.*", "", rest)):
                    parts[Part("index", table, bare(unique[1] or f"{table}_{name}_key"))] = None
            if "PRIMARY KEY" in change["columns"]:
                parts[Part("index", table, f"{table}_pkey")] = None
        elif index := change["index"]:
            parts[Part("index", change["indexed"], bare(index))] = None
        elif trigger := change["trigger"]:
            parts[Part("trigger", change["on"], bare(trigger))] = None
        elif table := change["altered"]:
            for name in ADDED.findall(change["changes"]):
                parts[Part("column", table, bare(name))] = None
            for name in REMOVED.findall(change["changes"]):
                parts.pop(Part("column", table, bare(name)), None)
            for name in UNIQUE_NO_LONGER.findall(change["changes"]):
                parts.pop(Part("index", table, bare(name)), None)
        else:
            names = {bare(name) for name in re.findall(r'\w+|"[^"]+"', change["dropped"])}
            for part in list(parts):
                if names & {part.name, part.table_name} and part.kind != "column":
                    del parts[part]
    return list(parts)


def bare(name: str) -> str:
    return re.sub("^IF (NOT )?EXISTS ", "", name).strip('"')
