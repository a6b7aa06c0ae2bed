"""The parts of the schema, which are the columns, indexes and triggers that migrations create."""

from typing import NamedTuple

from service.database.statements import catalogue


class Part(NamedTuple):
    # column, index or trigger.
    kind: str
    table_name: str
    name: str

    def __str__(self) -> str:
        name = self.name if self.kind == "index" else f"{self.table_name}.{self.name}"
        return f"{self.kind} {name}"


def schema_parts() -> list[Part]:
    return [
        Part(kind, table, name)
        for table, parts in catalogue()["tables"].items()
        for kind in parts
        for name in parts[kind]
    ]
