"""A new PostgreSQL of dev, of the test double and of the tests is a copy of data in the cache."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import metadata
from pathlib import Path

import psycopg
import pytest
from support.processes import wait_until
from support.project import environment

from service.commands import migrate
from service.database.statements import STATEMENTS, Statement
from service.devkit import kept as keeping
from service.devkit import postgres as embedded

pytestmark = [pytest.mark.nodatabase, pytest.mark.slow]
as_root = pytest.mark.root("may mount file systems")


@pytest.fixture
def folder():
    """Yield a folder for data, which all users can enter."""
    with tempfile.TemporaryDirectory(prefix="service-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the folder of kept data, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "task-service"


def fill(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE made (at timestamptz DEFAULT clock_timestamp())")
        connection.execute("INSERT INTO made DEFAULT VALUES")


def start(folder, fill=fill):
    """Start a PostgreSQL in a new folder, stop it, and return when its data were made."""
    kept = keeping.Kept("this", fill)
    with (
        closing(embedded.Postgres(folder, durable=False)) as postgres,
        psycopg.connect(postgres.start(kept).get_uri()) as connection,
    ):
        kept.wait()
        ((at,),) = connection.execute("SELECT at FROM made").fetchall()
        return at


def names(cache):
    return [path.name for path in cache.iterdir()]


def test_the_second_start_copies_what_the_first_one_has_made(folder, cache):
    first = start(folder / "a")
    (name,) = names(cache)
    assert start(folder / "b") == first
    # The copies are independent, and what is kept has neither a log nor the lock of a server.
    shutil.rmtree(folder / "a")
    assert start(folder / "c") == first
    assert names(cache) == [name]
    assert {"PG_VERSION", "global"} < {*names(cache / name)}
    assert not {"log", "postmaster.pid"} & {*names(cache / name)}
    assert cache.stat().st_mode & 0o777 == 0o700


def test_the_name_depends_on_everything_that_determines_the_data(monkeypatch):
    statement = Statement(b"SELECT 1")
    changes = [
        lambda patch: None,
        lambda patch: patch.setitem(STATEMENTS, "schema/0002-accounts", statement),
        lambda patch: patch.setitem(STATEMENTS, "schema/9999-new", statement),
        lambda patch: patch.setitem(STATEMENTS, "functions/tasks", statement),
        lambda patch: patch.setitem(STATEMENTS, "migrate/record_migration", statement),
        lambda patch: patch.setitem(STATEMENTS, "double/create_now", statement),
        lambda patch: patch.setattr(migrate, "__file__", __file__),
        lambda patch: patch.setattr(keeping, "version", lambda: "9.9.9"),
        lambda patch: patch.setattr(metadata, "version", lambda _name: "9.9.9"),
        lambda patch: patch.setattr(keeping, "INITDB", ("--locale=de_DE",)),
        lambda patch: patch.setattr(os, "geteuid", lambda: 4321),
    ]
    found = []
    for change in changes:
        with monkeypatch.context() as patch:
            change(patch)
            found.append(keeping.fingerprint("this"))
    assert len({*found, keeping.fingerprint("that")}) == len(changes) + 1
    monkeypatch.setitem(STATEMENTS, "tasks/list", statement)
    assert keeping.fingerprint("this") == found[0]


def test_processes_that_start_at_the_same_time_keep_one_complete_folder(folder, cache):
    with ThreadPoolExecutor(3) as pool:
        made = [*pool.map(start, [folder / str(number) for number in range(3)])]
    (name,) = names(cache)
    assert start(folder / "later") in made
    assert names(cache) == [name]


def test_kept_data_with_which_postgresql_does_not_start_are_replaced(folder, cache):
    first = start(folder / "a")
    (name,) = names(cache)
    (cache / name / "global" / "pg_control").write_bytes(b"")
    second = start(folder / "b")
    assert second > first
    assert start(folder / "c") == second
    assert names(cache) == [name]


@pytest.mark.root("gives a folder to another user")
def test_data_in_the_folder_of_another_user_are_not_used(folder, cache):
    first = start(folder / "a")
    os.chown(cache, 4321, 4321)
    assert start(folder / "b") > first


def test_only_the_newest_folders_stay_and_abandoned_ones_go(folder, cache):
    now = time.time()
    for name, age in [
        *((f"postgres-{days}", days * 86_400) for days in range(1, 7)),
        ("unfinished-old", 2 * keeping.ABANDONED),
        ("unfinished-now", 0),
    ]:
        (cache / name / "base").mkdir(parents=True)
        os.utime(cache / name, (now - age, now - age))
    first = start(folder / "a")
    (name,) = {*names(cache)} - {"unfinished-now", *(f"postgres-{days}" for days in range(1, 7))}
    others = [f"postgres-{days}" for days in range(1, keeping.NEWEST)]
    assert sorted(names(cache)) == sorted(["unfinished-now", name, *others])
    # A folder that is in use is a new one, even if it was made long ago.
    os.utime(cache / name, (0, 0))
    assert start(folder / "b") == first
    assert (cache / name).stat().st_mtime > now - 60


def test_a_folder_that_is_removed_while_it_is_copied_is_never_half_a_copy(cache, tmp_path):
    this = keeping.Kept("this", fill)
    (this.folder / "base").mkdir(parents=True)
    for number in range(2000):
        (this.folder / "base" / str(number)).touch()
    copy = tmp_path / "copy"
    with ThreadPoolExecutor(1) as pool:
        copied = pool.submit(this.copy, copy)
        wait_until(lambda: copied.done() or [*copy.glob("base/*")])
        this.forget()
        expected = 2000 if copied.result() else 0
    assert len([*copy.glob("base/*")]) == expected
    assert names(cache) == []


@pytest.mark.parametrize("options", [["--json"], ["--data", "{}"]])
def test_dev_and_the_double_keep_their_data_and_start_on_a_copy(options, folder, cache):
    words = [option.format(folder / "data") for option in options]
    command = [sys.executable, "-m", "service", "dev", "--port", "0", *words]
    found = []
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as running:
            assert running.stdout.readline()
            running.terminate()
            running.communicate(timeout=30)
        (name,) = names(cache)
        found.append((cache / name).stat())
        shutil.rmtree(folder / "data", ignore_errors=True)
    first, second = found
    assert first.st_ino == second.st_ino
    assert first.st_mtime < second.st_mtime


# How the cache cannot be used: the command that a shell runs before, and the variables.
UNUSABLE = {
    "the home is missing": ("true", {"HOME": "/nonexistent"}),
    "the disk is full": ("mount -t tmpfs -o size=8m tmpfs {}", {"XDG_CACHE_HOME": "{}"}),
    "the disk is read-only": ("mount -t tmpfs -o ro tmpfs {}", {"XDG_CACHE_HOME": "{}"}),
    "a file is in the way": ("true", {"XDG_CACHE_HOME": "{}/file"}),
}


@pytest.mark.needs("unshare")
@as_root
@pytest.mark.parametrize("reason", UNUSABLE)
def test_without_a_usable_cache_the_double_starts_and_leaves_nothing_there(reason, folder):
    mount, variables = UNUSABLE[reason]
    place = folder / "cache"
    place.mkdir()
    (place / "file").touch()
    # The first line is that of the double; the others name what is in the cache once it has ended.
    left = f"find {place} -path '*/task-service/*'"
    script = f'{mount.format(place)} || exit 77; ("$@" | head -n 1) && {left}'
    command = [sys.executable, "-m", "service", "dev", "--json", "--port", "0"]
    given = {name: text.format(place) for name, text in variables.items()}
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        capture_output=True, text=True, timeout=60, env={**environment(), **given},
    )  # fmt: skip
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"this machine refuses another mount: {ran.stderr}")
    (line,) = ran.stdout.splitlines()
    assert json.loads(line)["token"]
    assert not Path("/nonexistent").exists()
