"""Mutations of SQL: each is a small change that a tired colleague could make."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Mutation(NamedTuple):
    """A change of one file: the characters from ``start`` to ``end`` become ``new``."""

    file: str
    start: int
    end: int
    new: str
    rule: str
    line: int
    # The name of the table or function that it changes; empty for a statement.
    about: str = ""

    def key(self, text: str) -> str:
        """A name that stays the same when other lines of the file move."""
        old = " ".join(text[self.start : self.end].split())
        return f"{self.file} | {self.rule} | {old}"

    def applied(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


# Each pattern with its replacements; a group "x" is replaced alone.
TOKENS = [
    ("lock", r"^ *FOR (?:NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?", [""]),
    ("skip locked", r" SKIP LOCKED", [""]),
    ("conflict", r"ON CONFLICT [^;]*? DO NOTHING", [""]),
    ("descending", r"(?<= )DESC\b", ["ASC"]),
    ("less", r"(?<= )<(?= )", ["<="]),
    ("less or equal", r"(?<= )<=(?= )", ["<"]),
    ("greater", r"(?<= )>(?= )", [">="]),
    ("greater or equal", r"(?<= )>=(?= )", [">"]),
    ("different", r"(?<= )<>(?= )", ["="]),
    ("distinct", r"IS DISTINCT FROM", ["IS NOT DISTINCT FROM"]),
    ("null", r"IS NULL\b", ["IS NOT NULL"]),
    ("not null", r"IS NOT NULL\b", ["IS NULL"]),
    ("exists", r"NOT EXISTS", ["EXISTS"]),
    ("or", r"\bOR\b(?! REPLACE)", ["AND"]),
    ("union", r"UNION ALL", ["UNION"]),
    ("true", r"\btrue\b", ["false"]),
    ("number", r"(?<![\w.'$:-])(?P<x>[0-9]{1,9})(?![\w.'])", ["+1"]),
    ("interval", r"interval '(?P<x>[0-9]+) ", ["+1"]),
    ("state", r"'(?P<x>due|pending|owner|completed|done|all|me|none)'(?!,)", ["other"]),
    ("cascade", r"ON DELETE (?:CASCADE|SET NULL \(\w+\))", [""]),
]
BLANKED = re.compile(r"--[^\n]*|\$\$")
# Words that end the condition, or the list, that a clause has.
CLAUSE = re.compile(
    r"\b(AND|OR|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|FOR (UPDATE|NO KEY|KEY|SHARE)|RETURNING"
    r"|UNION|ON CONFLICT|SELECT|(?<!DISTINCT )FROM|DO UPDATE|THEN|ELSE|END|BETWEEN"
    r"|(LEFT |CROSS )?JOIN)\b"
)
OBJECT = re.compile(
    r"(?:CREATE|ALTER) (?:OR REPLACE |UNIQUE )?(?:TABLE|FUNCTION|TYPE|DOMAIN|TRIGGER|INDEX)\s+"
    r"(?:\w+ ON )?\"?(\w+)"
)
CHECK = re.compile(r"(?:CONSTRAINT (?P<name>\"[^\"]+\")\s+)?CHECK (?=\()")


def blank(text: str) -> str:
    """The text without comments, and with ends of statements for $$; offsets stay."""
    return BLANKED.sub(lambda match: ";;" if match[0] == "$$" else " " * len(match[0]), text)


def end_of_clause(text: str, start: int) -> int:
    """The end of the condition or list that begins here, parentheses and CASE included."""
    depth, position, cases, between = 0, start, 0, False
    ends = ";" if text[start - 9 : start] == "ORDER BY " else ";,"
    while position < len(text):
        character = text[position]
        if character == "'":
            position = text.index("'", position + 1)
        elif character == "(":
            depth += 1
        elif character == ")":
            if depth == 0:
                return position
            depth -= 1
        elif depth == 0 and character in ends:
            return position
        elif depth == 0 and not text[position - 1].isalnum():
            if re.match(r"CASE\b", text[position:]):
                cases += 1
            elif re.match(r"END\b", text[position:]) and cases:
                cases -= 1
            elif re.match(r"BETWEEN\b", text[position:]):
                between = True
            elif re.match(r"AND\b", text[position:]) and between:
                between = False
            elif not cases and CLAUSE.match(text, position):
                return position
        position += 1
    return position


def conjuncts(text: str) -> Iterator[tuple[int, int, str, str]]:
    for match in re.finditer(r"\bAND (?=\S)", text):
        if re.search(r"BETWEEN [^\n]*$", text[: match.start()]):
            continue
        end = end_of_clause(text, match.end())
        yield match.start(), end, " ", "conjunct"
    for match in re.finditer(r"\b(?:WHERE|WHEN \() ?(?=\S)", text):
        if match[0].startswith("WHERE"):
            end = end_of_clause(text, match.end())
            yield match.end(), end, "true ", "first conjunct"


def orders(text: str) -> Iterator[tuple[int, int, str, str]]:
    for match in re.finditer(r"\bORDER BY ", text):
        yield match.start(), end_of_clause(text, match.end()), " ", "order"


def checks(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Constraints, unique indexes and triggers of a table."""
    for match in CHECK.finditer(text):
        yield match.start(), closing(text, match.end()), "", "check"
    for match in re.finditer(r"CREATE UNIQUE INDEX", text):
        yield match.start(), match.end(), "CREATE INDEX", "unique"
    for match in re.finditer(r"CREATE TRIGGER [^;]*;", text):
        yield match.start(), match.end(), "", "trigger"


def indexes(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Indexes that go, and their last columns."""
    for match in re.finditer(r"CREATE INDEX \w+ ON \w+ \(\w+[^);]*?(, \w+)?\)[^;]*;", text):
        yield match.start(), match.end(), "", "index"
        if match[1]:
            yield match.start(1), match.end(1), "", "index column"


def not_nulls(text: str) -> Iterator[tuple[int, int, str, str]]:
    """The NOT NULL of columns, without those of primary keys, which would stay without it."""
    for table in re.finditer(r"CREATE TABLE [^;]*;|ADD COLUMN [^;]*;", text):
        key = re.search(r"\n    PRIMARY KEY \(([^)]*)\)", table[0])
        primary = re.split(r", *", key[1]) if key else []
        for match in re.finditer(
            r"(?:^ +|ADD COLUMN )(\w+) \w+(?:\[\])?( NOT NULL)", table[0], re.M
        ):
            if match[1] not in primary:
                start = table.start() + match.start(2)
                yield start, start + len(match[2]), "", f"not null of {match[1]}"


def closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


def coalesced(text: str) -> Iterator[tuple[int, int, str, str]]:
    """``coalesce(a, b)`` becomes ``a``."""
    for match in re.finditer(r"\b(?:coalesce|greatest|least)\((?!sum|max)", text):
        end = closing(text, match.end() - 1)
        depth = 0
        for position in range(match.end(), end):
            depth += {"(": 1, ")": -1}.get(text[position], 0)
            if text[position] == "," and depth == 0:
                yield match.start(), end, f"({text[match.end() : position]})", "first of several"
                break


def mutations(file: str, source: str) -> Iterator[Mutation]:
    """Yield all mutations of one file."""
    text = blank(source)
    found = [*conjuncts(text), *orders(text), *coalesced(text)]
    if "/schema/" in file:
        found += [*checks(text), *not_nulls(text), *indexes(text)]
    for rule, pattern, news in TOKENS:
        for match in re.finditer(pattern, text, re.MULTILINE):
            group = "x" if "x" in match.re.groupindex else 0
            old = match[group]
            for new in news:
                value = str(int(old) + 1) if new == "+1" else new
                found.append((match.start(group), match.end(group), value, rule))
    # How a table or an index is stored changes no result.
    storage = r"CREATE INDEX[^;]*;|(?:WITH|SET) \(fillfactor[^;]*;"
    stored = [match.span() for match in re.finditer(storage, text)]
    objects = [(match.start(), match[1]) for match in OBJECT.finditer(text)]
    for start, end, new, rule in sorted(found):
        if any(begin <= start < stop for begin, stop in stored) and not rule.startswith("index"):
            continue
        about = [name for begin, name in objects if begin <= start]
        line = text.count("\n", 0, start) + 1
        schema = "/schema/" in file
        yield Mutation(file, start, end, new, rule, line, about[-1] if schema and about else "")


def is_obsolete(mutation: Mutation, source: str, later: str) -> bool:
    """Return whether the migrations that follow, ``later``, drop or replace what it changes."""
    index = re.match(r"CREATE INDEX (\w+)", source[mutation.start :])
    if index and f"DROP INDEX {index[1]};" in later:
        return True
    about = re.escape(mutation.about)
    if re.search(rf"CREATE OR REPLACE FUNCTION {about}\b|DROP INDEX {about}\b", later):
        return True
    for match in CHECK.finditer(source):
        if match.start() <= mutation.start < closing(source, match.end()) and match["name"]:
            name = re.escape(match["name"])
            return bool(re.search(rf"ALTER TABLE {about}\b[^;]*DROP CONSTRAINT {name}", later))
    for match in re.finditer(r"CREATE TRIGGER (\w+)[^;]*? ON (\w+)[^;]*;", source):
        if match.start() <= mutation.start < match.end():
            return f"DROP TRIGGER {match[1]} ON {match[2]};" in later
    return False
