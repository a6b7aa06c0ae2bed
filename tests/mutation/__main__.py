"""Try small mistakes one at a time, and print which of them no test notices.

    cd tests && ../.venv/bin/python -m mutation sql http --sample 50

A mutation is tried in a copy of the project, against the tests that run its line or its statement,
the most specific first. ``equivalent.txt`` has those that change nothing that a client could see.
"""

import argparse
import ast
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Queue

import pytest
from copies import PROJECT, copy_project
from mutation import python, sql
from mutation.cover import FILE
from mutation.sql import Mutation

from service.devkit import postgres as embedded

HERE = Path(__file__).parent
# The files of each room, and the tests to try where no test is known to run a line.
ROOMS = {
    "sql": ("sql/*/*.sql", "tests/api tests/webhooks tests/commands tests/http"),
    "http": ("service/http/*.py", "tests/http tests/api"),
    "api": ("service/api/*.py", "tests/api"),
    "webhooks": ("service/webhooks/*.py", "tests/webhooks"),
    "fields": (
        "service/[fs][ict][ehr]*.py",
        "tests/test_fields.py tests/api tests/test_strict_json.py",
    ),
    "gunicorn": ("service/gunicorn/*.py", "tests/gunicorn tests/http"),
    "commands": ("service/commands/**/*.py", "tests/commands"),
}
# The modules of the room "fields": those below all rooms, without what only configures a process.
FIELDS = ["fields", "schemas", "strict_json", "limits", "credentials", "state", "statements", "db"]
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
# The words of a claim and of a definition; "a" and "of" are none.
WORD = r"[a-z]{4,}"
# Code of developers.
IGNORED = "sql/unlimited/"
# The most tests of one mutation that are chosen in one way, and of its module's own in any case.
MAX_TESTS, MAX_OTHERS = 60, 20
# Seconds for the tests of one mutation; one that takes longer hangs, which counts as caught.
TIMEOUT = 200


def files_of(room: str) -> list[str]:
    """Return the files of a room, as paths inside of the project."""
    if room == "fields":
        return [f"service/{name}.py" for name in FIELDS]
    pattern = ROOMS[room][0]
    files = [str(path.relative_to(PROJECT)) for path in sorted(PROJECT.glob(pattern))]
    return [file for file in files if not file.startswith(IGNORED)]


def mutations_of(room: str) -> list[tuple[Mutation, str]]:
    """Return the mutations of a room, each with its key; equal keys are numbered."""
    seen: Counter[str] = Counter()
    found = []
    for file in files_of(room):
        source = PROJECT.joinpath(file).read_text(encoding="utf-8")
        language = sql if file.endswith(".sql") else python
        for mutation in language.mutations(file, source):
            if mutation.about and sql.is_obsolete(mutation, source, later_migrations(file)):
                continue
            key = mutation.key(source)
            seen[key] += 1
            found.append((mutation, f"{key} #{seen[key]}" if seen[key] > 1 else key))
    return found


def matching(room: str, text: str) -> list[tuple[Mutation, str]]:
    """Return the mutations of a room whose key contains this text."""
    return [item for item in mutations_of(room) if text in item[1]]


@cache
def later_migrations(file: str) -> str:
    """Return the migrations after this one."""
    paths = sorted(PROJECT.glob("sql/schema/*.sql"))
    return "".join(path.read_text("utf-8") for path in paths if path > PROJECT / file)


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
        files = {name: (PROJECT / name).read_text("utf-8") for name, *_ in map(split, found)}
        quick = {name for name, text in files.items() if "pytestmark = pytest.mark.nodat" in text}
        return sorted(found, key=lambda test: (split(test)[0] not in quick, first not in test))

    def alike(self, tests: set[str], text: str) -> list[str]:
        """The tests whose claims share words with a text, the rarest words first."""
        claims = {test: set(re.findall(WORD, test.partition("[")[0])) for test in sorted(tests)}
        number = Counter(word for claim in claims.values() for word in claim)
        words = set(re.findall(WORD, text))
        score = {
            test: sum(1 / number[word] for word in words & claim) for test, claim in claims.items()
        }
        return sorted(filter(score.get, score), key=score.__getitem__, reverse=True)

    def of_line(self, file: str, line: int) -> list[str]:
        """The tests that run a line of Python, then those of the files named like its module."""
        known = {
            int(place.rpartition(":")[2]): set(tests)
            for place, tests in self.lines.items()
            if place.startswith(f"{file}:")
        }
        path = Path(file)
        names = tuple(f"/test_{name}.py" for name in (path.stem, path.parent.name))
        own = {test for test in self.present if test.partition("::")[0].endswith(names)}
        if runs_at_import(file, line):
            found = set().union(*known.values())
            held = self.choose({test for test in self.present if test.startswith(AT_IMPORT)})
            return unique(self.choose(found)[:MAX_TESTS], held, self.choose(own), self.new)
        found = known.get(line, set())
        # Of a line that most tests run, those that run few have not taken the branch beside it.
        near = (known.get(number, set()) & found for number in range(line - 3, line + 10))
        rare = sorted((tests for tests in near if len(tests) < len(found) / 2), key=len)
        branches = [self.choose(tests)[:10] for tests in filter(None, rare)][:3]
        # Lines move after the map is made.
        moved = self.choose(own - found)[: MAX_OTHERS if found else None]
        return unique(*branches, self.choose(found)[:MAX_TESTS], moved, self.new)

    def choose(self, tests: set[str]) -> list[str]:
        """Those that run the least first, in rounds with few of each function and of each file."""
        functions: Counter[str] = Counter()
        files: Counter[str] = Counter()
        rounds = {}
        for test in sorted(tests, key=lambda test: (self.size[test], test)):
            file, function = test.partition("::")[0], test.partition("[")[0]
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


def runs_at_import(file: str, line: int) -> bool:
    """Tell whether a line runs when its module is imported, which the map cannot know."""
    return line not in bodies(file)


def split(test: str) -> list[str]:
    """The file and the function of a test."""
    return test.split("::")


def definition(mutation: Mutation) -> str:
    """The statement, or the definition of a migration, that a mutation changes."""
    source = PROJECT.joinpath(mutation.file).read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(?=CREATE|ALTER)", source[: mutation.start])
    return parts[-1] + re.split(r"(?m)^(?=CREATE|ALTER)", source[mutation.start :])[0]


def users(name: str) -> list[str]:
    """The statements that use a table or a function, directly or by other functions."""
    schema = "".join(path.read_text("utf-8") for path in sorted(PROJECT.glob("sql/schema/*.sql")))
    definitions = re.split(r"(?m)^(?=CREATE|ALTER)", schema)
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


def run_pytest(folder: Path, server: str, *arguments: str, **variables: str) -> int | None:
    """Run pytest in the copy; return its status, or None if it took too long."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TEST_DATABASE_URL": server,
        **variables,
    }
    plugins = "-p", "no:cacheprovider", "-p", "no:randomly"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", *plugins, *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return process.wait(TIMEOUT if "-x" in arguments else None)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def attempt(mutation: Mutation, folders: "Queue[Path]", server: str, tests: list[str]) -> str:
    """Apply a mutation to a copy, run its tests, and take it back; return what became of it."""
    folder = folders.get()
    file = folder / mutation.file
    source = file.read_text(encoding="utf-8")
    (folder / "selected").write_text("\n".join(tests), encoding="utf-8")
    file.write_text(mutation.applied(source), encoding="utf-8")
    try:
        status = run_pytest(folder, server, "-x", "@selected")
        if status is None:
            return "hung"
        # Without its modules pytest cannot find the tests, whose names Map has checked.
        return "survived" if status == pytest.ExitCode.OK else "caught"
    finally:
        file.write_text(source, encoding="utf-8")
        folders.put(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=[*ROOMS], metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--sample", type=int, help="try this many of each room, not all")
    parser.add_argument("--seed", type=int, default=0, help="choose another sample")
    parser.add_argument("--match", default="", help="try only those whose key contains this text")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at once")
    parser.add_argument("--list", action="store_true", help="print the mutations and run nothing")
    parser.add_argument(
        "--map",
        nargs="*",
        metavar="FILE",
        help="find out which tests run what; of all, or of these",
    )
    options = parser.parse_args()
    lines = HERE.joinpath("equivalent.txt").read_text(encoding="utf-8").splitlines()
    equivalent = {line for line in lines if " | " in line and not line.startswith("#")}
    end = time.monotonic() + options.seconds if options.seconds else None
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        os.chmod(folder, 0o711)
        if options.list:
            for room in options.rooms:
                for mutation, key in matching(room, options.match):
                    print(f"{room}: {key} -> {mutation.new.strip()}")
            return
        folders: Queue[Path] = Queue()
        for number in range(options.jobs):
            copy_project(folder / f"copy{number}")
            folders.put(folder / f"copy{number}")
        postgres = embedded.start(str(folder / "data"))
        try:
            run(options, folders, postgres.get_uri(), equivalent, end)
        finally:
            postgres.cleanup()


def run(
    options: argparse.Namespace,
    folders: "Queue[Path]",
    server: str,
    equivalent: set[str],
    end: float | None,
) -> None:
    """Try the chosen mutations, and print each survivor and the figures of each room."""
    path = Path(os.environ.get(FILE, PROJECT / ".data/mutation-map.json"))
    if options.map == []:
        path.unlink(missing_ok=True)
    if options.map or not path.exists():
        path.parent.mkdir(exist_ok=True)
        everything = [*MAPPED, *(f"tests/{file.name}" for file in PROJECT.glob("tests/test_*.py"))]
        tests = options.map or everything
        run_pytest(folders.queue[0], server, "-p", "mutation.cover", *tests, **{FILE: str(path)})
    covering = Map(path)
    for number, room in enumerate(options.rooms):
        # Each room has its share of the time that is left.
        now = time.monotonic()
        stop = now + (end - now) / (len(options.rooms) - number) if end else math.inf
        candidates = matching(room, options.match)
        if options.sample and options.sample < len(candidates):
            candidates = random.Random(options.seed).sample(candidates, options.sample)
        counts: Counter[str] = Counter()

        def outcome(item: tuple[Mutation, str], room: str = room, stop: float = stop) -> str:
            mutation, key = item
            if key in equivalent:
                return "equivalent"
            if time.monotonic() > stop:
                return "not tried"
            tests = covering.tests(mutation) or ROOMS[room][1].split()
            found = attempt(mutation, folders, server, tests)
            if found != "caught":
                new = " ".join(mutation.new.split()) or "nothing"
                print(
                    f"line {mutation.line} {found}, {len(tests)} tests: {key} -> {new}", flush=True
                )
            return found

        with ThreadPoolExecutor(options.jobs) as threads:
            counts.update(threads.map(outcome, candidates))
        caught = counts["caught"] + counts["hung"]
        share = caught / max(1, caught + counts["survived"])
        figures = ("caught", "hung", "survived", "equivalent", "not tried")
        print(f"{room}:", ", ".join(f"{counts[name]} {name}" for name in figures), f"({share:.0%})")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
