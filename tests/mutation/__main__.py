"""Try small mistakes one at a time, and print which of them no test notices.

    cd tests && ../.venv/bin/python -m mutation sql http --sample 50

A mutation is tried in a copy of the project, against the tests that run its line or its statement,
the most specific first; if none of them notices it, against the whole suite. ``equivalent.txt`` has
those that change nothing that a client could see.
"""

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Queue

import pytest
from copies import PROJECT, copy_project
from mutation.choice import MAPPED, Map
from mutation.cover import FILE
from mutation.rooms import ROOMS, matching
from mutation.sql import Mutation

from service.devkit import postgres as embedded

HERE = Path(__file__).parent
# Seconds for the chosen tests of one mutation, and for the whole suite; a mutation with which they
# take longer hangs, which counts as caught.
TIMEOUT, TIMEOUT_OF_ALL = 200, 1200


def run_pytest(
    folder: Path, server: str, *arguments: str, timeout: float | None = None, **variables: str
) -> int | None:
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
        return process.wait(timeout)
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
        for selected, timeout in (["@selected"], TIMEOUT), ([], TIMEOUT_OF_ALL):
            status = run_pytest(folder, server, "-x", *selected, timeout=timeout)
            if status != pytest.ExitCode.OK:
                # Without its modules pytest cannot find the tests, whose names Map has checked.
                return "hung" if status is None else "caught"
        return "survived"
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
            # Some tests read from git which files the project has.
            for words in ("init", "-q"), ("add", "."):
                subprocess.run(["git", *words], cwd=folder / f"copy{number}", check=True)
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
                print(f"line {mutation.line} {found}: {key} -> {new}", flush=True)
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
