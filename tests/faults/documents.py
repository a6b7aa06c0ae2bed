"""The configurations of docs/deploy/cluster and scaling.md, with addresses of this machine."""

import re
from itertools import cycle

from psycopg.conninfo import conninfo_to_dict
from support.project import PROJECT, replaced

ADDRESS = re.compile(r"10\.\d\.0\.1\d:8000")


def configuration(name):
    """Return a file of the folder or, if it has no such file, a block of the page."""
    if (path := PROJECT / "docs/deploy/cluster" / name).exists():
        return path.read_text(encoding="utf-8")
    text = (PROJECT / "docs/operations/scaling.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- file: {re.escape(name)} -->\n```\w*\n(.*?)```", text, re.DOTALL)
    return found


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


def addressed(text, ports):
    """Return the text with its addresses replaced by these ports on loopback, in this order."""
    following = cycle(ports)
    assert len(ADDRESS.findall(text)) == len(ports)
    return ADDRESS.sub(lambda _: f"127.0.0.1:{next(following)}", text)
