"""Which tests most likely notice a mutation: those that run its line or its statement."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from copies import PROJECT
from mutation.sql import Mutation

# The tests that the map is made of: they run code in the process of pytest.
MAPPED = [
    *(f"tests/{name}" for name in ("api", "http", "webhooks", "commands", "statements")),
    "tests/openapi",
]
# The tests of these that are newer than the map are tried in any case.
NEW = (*(f"{folder}/" for folder in MAPPED[:-1]), "tests/test_")
# The tests that hold schemas, fields and bounds, whose lines run before any test: at the import.
AT_IMPORT = (
    "tests/api/test_every_field.py",
    "tests/openapi/test_json_schema.py",
    "tests/openapi/test_openapi.py",
    "tests/http/test_bounds.py",
    "tests/http/test_requests.py",
    "tests/commands/test_load.py",
    "tests/test_constraints.py",
)
# Where the definitions of a migration begin.
DEFINITION = re.compile("^(?=CREATE|ALTER)", re.MULTILINE)
# The words of a claim and of a definition; "a" and "of" are none.
WORD = r"[a-z]{4,}"
# The most tests of one mutation that are chosen in one way, and of its module's own in any case.
MAX_TESTS, MAX_OTHERS = 60, 20


def collected() -> set[str]:
    """Return the tests that there are now; the map may name others."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0"]
    printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return {line for line in printed.stdout.splitlines() if "::" in line}


class Map:
    """The tests of each line and statement, from one run of the suite."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        self.present = collected()
        self.lines, self.statements = (
            {name: [test for test in tests if test in self.present] for name, tests in part.items()}
            for part in (content["lines"], content["statements"])
        )
        everything = [*self.lines.values(), *self.statements.values()]
        self.size = Counter(test for tests in everything for test in tests)
        self.new = sorted(
            test for test in self.present - {*content["tests"]} if test.startswith(NEW)
        )

    def tests(self, mutation: Mutation) -> list[str]:
        """The tests of a mutation, those first that most likely notice it."""
        if mutation.file.startswith("service/gunicorn/"):
            # The map does not see these lines: they run in the processes of servers.
            stem = Path(mutation.file).stem
            more = self.of_files("tests/commands/test_web.py") if stem == "configuration" else []
            return self.of_files("tests/gunicorn/", f"/test_{stem}.py") + more
        if mutation.rule.startswith("index"):
            return self.of_files("tests/test_indexes.py")
        if not mutation.file.endswith(".sql"):
            return self.of_line(mutation.file, mutation.line)
        names = users(mutation.about) if mutation.about else [mutation.file]
        found = {test for name in names for test in self.statements.get(name, ())}
        alike = self.alike(found, definition(mutation))[:MAX_TESTS]
        # These tests write rows past the statements.
        past = self.of_files("tests/test_constraints.py") if mutation.about else []
        return unique(alike, past, self.choose(found)[:MAX_TESTS], self.new)

    def of_files(self, folder: str, first: str = "") -> list[str]:
        """The tests below a folder: those without a database, which are quick, then of one file."""
        found = sorted(test for test in self.present if test.startswith(folder))
        files = {name: (PROJECT / name).read_text("utf-8") for name in map(file_of, found)}
        quick = {name for name, text in files.items() if "pytestmark = pytest.mark.nodat" in text}
        return sorted(found, key=lambda test: (file_of(test) not in quick, first not in test))

    def alike(self, tests: set[str], text: str) -> list[str]:
        """The tests whose claims share words with a text, the rarest words first."""
        claims = {test: set(re.findall(WORD, function_of(test))) for test in sorted(tests)}
        number = Counter(word for claim in claims.values() for word in claim)
        words = set(re.findall(WORD, text))
        score = {
            test: sum(1 / number[word] for word in words & claim) for test, claim in claims.items()
        }
        return sorted(filter(score.get, score), key=score.__getitem__, reverse=True)

    def of_line(self, file: str, line: int) -> list[str]:
        """The tests that run a line of Python, then those of the files about its module."""
        known = {
            int(place.rpartition(":")[2]): set(tests)
            for place, tests in self.lines.items()
            if place.startswith(f"{file}:")
        }
        path = Path(file)
        folder = path.parent.name
        # The map does not see the lines that run in processes, as those of base.py on a terminal.
        names = tuple(f"/test_{name}.py" for name in (path.stem, folder, f"all_{folder}"))
        named = {test for test in self.present if file_of(test).endswith(names)}
        own = {test for test in self.present if imports(file_of(test), path)} | named
        if runs_at_import(file, line):
            found = set().union(*known.values())
            held = self.choose({test for test in self.present if test.startswith(AT_IMPORT)})
            return unique(self.choose(found)[:MAX_TESTS], held, self.choose(own), self.new)
        found = known.get(line, set())
        # Of a line that most tests run, those that run few have not taken the branch beside it.
        near = (known.get(number, set()) & found for number in range(line - 3, line + 10))
        rare = sorted((tests for tests in near if len(tests) < len(found) / 2), key=len)
        branches = [self.choose(tests)[:10] for tests in filter(None, rare)][:3]
        held = self.choose(own & found)[:MAX_TESTS]
        # Lines move after the map is made.
        moved = self.choose(named - found)[: MAX_OTHERS if found else None]
        return unique(*branches, held, self.choose(found)[:MAX_TESTS], moved, self.new)

    def choose(self, tests: set[str]) -> list[str]:
        """Those that run the least first, in rounds with few of each function and of each file."""
        functions: Counter[str] = Counter()
        files: Counter[str] = Counter()
        rounds = {}
        for test in sorted(tests, key=lambda test: (self.size[test], test)):
            file, function = file_of(test), function_of(test)
            rounds[test] = max(functions[function] // 2, files[file] // 4)
            functions[function] += 1
            files[file] += 1
        return sorted(rounds, key=lambda test: rounds[test])


def unique(*lists: list[str]) -> list[str]:
    """All of several lists, each once."""
    return list(dict.fromkeys(test for tests in lists for test in tests))


@cache
def bodies(file: str) -> set[int]:
    """The lines in the bodies of functions of a module."""
    tree = ast.parse(PROJECT.joinpath(file).read_text(encoding="utf-8"))
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for line in range(node.body[0].lineno, node.end_lineno + 1)
    }


@cache
def imports(file: str, module: Path) -> bool:
    """Tell whether a file of tests imports a module of the service, or a name of it."""
    package, _, name = ".".join(module.with_suffix("").parts).rpartition(".")
    pattern = rf"^from {package}(\.{name} import|\b.* import .*\b{name}\b)"
    return re.search(pattern, (PROJECT / file).read_text("utf-8"), re.MULTILINE) is not None


def runs_at_import(file: str, line: int) -> bool:
    """Tell whether a line runs when its module is imported, which the map cannot know."""
    return line not in bodies(file)


def file_of(test: str) -> str:
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """The file and the function of a test, without the parameters."""
    return test.partition("[")[0]


def definition(mutation: Mutation) -> str:
    """The statement, or the definition of a migration, that a mutation changes."""
    source = PROJECT.joinpath(mutation.file).read_text(encoding="utf-8")
    before, after = source[: mutation.start], source[mutation.start :]
    return DEFINITION.split(before)[-1] + DEFINITION.split(after)[0]


def users(name: str) -> list[str]:
    """The statements that use a table or a function, directly or by other functions."""
    schema = "".join(path.read_text("utf-8") for path in sorted(PROJECT.glob("sql/schema/*.sql")))
    definitions = DEFINITION.split(schema)
    names = {name}
    if f"CREATE DOMAIN {name} " in schema:
        names |= set(re.findall(rf"(?:CREATE|ALTER) TABLE (\w+)[^;]*\b{name}\b", schema))
    for _ in range(3):
        for definition in definitions:
            if any(re.search(rf"\b{known}\b", definition) for known in names):
                names |= set(re.findall(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)", definition))
                names |= set(
                    re.findall(r"CREATE TRIGGER \w+\s+\w+ \w+(?: OF \w+)? ON (\w+)", definition)
                )
    return [
        str(path.relative_to(PROJECT))
        for path in sorted(PROJECT.glob("sql/*/*.sql"))
        if any(re.search(rf"\b{known}\b", path.read_text("utf-8")) for known in names)
    ]
