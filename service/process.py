"""The name of this process in pg_stat_activity, and its log lines when it starts and stops."""

import os
from hashlib import sha256

from psycopg.conninfo import conninfo_to_dict

from service.settings import Settings
from service.version import build

# PostgreSQL truncates longer names.
MAX_APPLICATION_NAME = 63
# With a host name of this length, the name of a worker fits.
MAX_HOST = 20


def application_name(program: str) -> str:
    """Name this process for pg_stat_activity: program, version, host and process id.

    An example is ``task-service web 1.0.0 host7:4711``. If the name is still too long for
    PostgreSQL, the host name is cut, not the process id.
    """
    name, process = f"task-service {program} {build()} ", f":{os.getpid()}"
    return name + own_host()[: MAX_APPLICATION_NAME - len(name + process)] + process


def own_host() -> str:
    return short_host(os.uname().nodename)


def short_host(name: str) -> str:
    """Return the name of a host as the names of its processes have it.

    The end of a long name becomes a hash of the whole name, because the names of hosts often differ
    only at their end: the pods of a deployment would otherwise look like one host.
    """
    if len(name) <= MAX_HOST:
        return name
    return f"{name[: MAX_HOST - 5]}-{sha256(name.encode()).hexdigest()[:4]}"


def lifecycle_line(program: str, event: str, settings: Settings) -> str:
    """Return the log line of a program that starts or stops; raises InvalidSetting.

    The line names the database, its host and the changed settings, and says whether a web process
    uses the speedups. Instead of a secret, it contains the word "set".
    """
    database = conninfo_to_dict(settings.require_database())
    host = database.get("host") or os.environ.get("PGHOST", "localhost")
    name = database.get("dbname") or os.environ.get("PGDATABASE", "its default")
    changed = [f"{variable}={value}" for variable, value in Settings.changed().items()]
    speedups = f" speedups {'on' if settings.uses_speedups else 'off'};" if program == "web" else ""
    return (
        f"{program} {build()} {event}: process {os.getpid()}; database {name} on {host};{speedups}"
        f" settings: {' '.join(changed)}"
    )
