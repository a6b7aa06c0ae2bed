"""The rooms of the project, which are mutated one by one, and their mutations."""

from collections import Counter
from functools import cache

from copies import PROJECT
from mutation import python, sql
from mutation.sql import Mutation

# The files of each room, and the tests to try where no test is known to run a line.
ROOMS = {
    "sql": ("sql/*/*.sql", "tests/api tests/webhooks tests/commands tests/http"),
    "http": ("service/http/*.py", "tests/http tests/api"),
    "api": ("service/api/*.py", "tests/api"),
    "webhooks": ("service/webhooks/*.py", "tests/webhooks"),
    # The modules below all rooms, without those that only configure a process.
    "fields": (
        "service/fields.py service/schemas.py service/strict_json.py service/limits.py"
        " service/credentials.py service/state.py service/statements.py service/pool.py"
        " service/db.py",
        "tests/test_fields.py tests/api tests/test_strict_json.py",
    ),
    "gunicorn": ("service/gunicorn/*.py", "tests/gunicorn tests/http"),
    "commands": ("service/commands/**/*.py", "tests/commands"),
}
# Code of developers.
IGNORED = "sql/unlimited/"


def files_of(room: str) -> list[str]:
    """Return the files of a room, as paths inside of the project."""
    paths = (path for glob in ROOMS[room][0].split() for path in sorted(PROJECT.glob(glob)))
    files = [str(path.relative_to(PROJECT)) for path in paths]
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
