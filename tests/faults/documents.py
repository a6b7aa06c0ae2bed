"""The configurations of docs/deploy/cluster and scaling.md, with addresses of this machine."""

import os
import pwd
import re
from contextlib import contextmanager
from itertools import cycle

import psycopg
from psycopg.conninfo import conninfo_to_dict
from support import front
from support.project import PROJECT, file_block, replaced

ADDRESS = re.compile(r"10\.\d\.0\.1\d:8000")


def configuration(name):
    """Return a file of the folder or, if it has no such file, a block of the page."""
    if (path := PROJECT / "docs/deploy/cluster" / name).exists():
        return path.read_text(encoding="utf-8")
    return file_block("docs/operations/scaling.md", name)


def pooling(database_url, folder, size):
    """Return pgbouncer.ini of the page for the database of the tests; clients need no password."""
    parts = conninfo_to_dict(database_url)
    user = parts.get("user", "postgres")
    (folder / "userlist.txt").write_text(f'"{user}" ""\n')
    host = f"host={parts['host']} port={parts.get('port', 5432)} user={user}"
    if "password" in parts:
        host += f" password={parts['password']}"
    return replaced(
        configuration("pgbouncer.ini"),
        ("host=10.0.0.21 port=5432", host),
        ("dbname=service", f"dbname={parts['dbname']}"),
        ("auth_type = scram-sha-256", "auth_type = trust"),
        ("/etc/pgbouncer", str(folder)),
        ("default_pool_size = 20", f"default_pool_size = {size}\nunix_socket_dir ="),
    )


@contextmanager
def pooled(database_url, folder, size, role_url=None):
    """Yield a URL through PgBouncer, configured as in docs/operations/scaling.md.

    PgBouncer connects as the superuser of ``database_url``, or as another role.
    """
    with psycopg.connect(database_url) as connection:
        (data,) = connection.execute("SHOW data_directory").fetchone()
    # PgBouncer runs as this user, who can reach the socket of PostgreSQL.
    account = pwd.getpwuid(os.stat(data).st_uid)
    user = conninfo_to_dict(role_url or database_url).get("user", "postgres")
    with front.pgbouncer(folder, pooling(role_url or database_url, folder, size), account) as port:
        yield f"postgresql://{user}@127.0.0.1:{port}/service"


def addressed(text, ports):
    """Return the text with its addresses replaced by these ports on loopback, in this order."""
    following = cycle(ports)
    assert len(ADDRESS.findall(text)) == len(ports)
    return ADDRESS.sub(lambda _: f"127.0.0.1:{next(following)}", text)
