"""The remedies for errors of PostgreSQL. Log lines and commands show them to operators."""

import re

import psycopg

MIGRATE = (
    "run the command migrate; if it has nothing to do, the schema was changed by hand: change it"
    " back"
)
RIGHTS = (
    "let it own them, or GRANT it the rights: docs/operations/running.md, A role that owns nothing"
)
NO_RIGHTS = f"the user of DATABASE_URL lacks rights on its schema, tables or functions: {RIGHTS}"
CREDENTIALS = "correct the user or the password in DATABASE_URL"

PATRONI = (
    "Patroni promotes a standby within 25 s; after that, timeout 20 patronictl"
    " -c /etc/patroni/config.yml list on a database host says which one is missing"
)
POOLER = (
    "set DATABASE_PREPARE=off: a connection pooler, such as a PgBouncer older than 1.22, mixes up"
    " prepared statements"
)

CORRUPTED = (
    "as postgres run pg_amcheck --install-missing --heapallindexed, which names what is corrupted;"
    " REINDEX an index; for a table restore a backup: docs/operations/running.md, The bad night"
)

# The remedy of each SQLSTATE, or of an error without one, for which this module has a name. None is
# the key for the remaining errors without a SQLSTATE: there is no connection.
REMEDIES = {
    None: (
        "start PostgreSQL, or correct DATABASE_URL; on Debian pg_lsclusters shows what runs; if"
        " PostgreSQL does not start, its log or df says why: docs/operations/running.md, The bad"
        " night"
    ),
    "closed": f"read the log of PostgreSQL; through HAProxy no server is the primary: {PATRONI}",
    "host": "correct the host in DATABASE_URL, or its DNS",
    "pool": "the command status says why the process has no connection",
    "certificate": (
        "DATABASE_URL needs the authority that signed the server's certificate, sslrootcert=FILE or"
        " sslrootcert=system, and the host that the certificate is for"
    ),
    "silent": (
        "the server is cut off, frozen or overloaded: look at its network, firewall, disk and load;"
        " on Debian pg_lsclusters shows a frozen PostgreSQL as online"
    ),
    "standby": f"no server of DATABASE_URL takes writes, status shows each: {PATRONI}",
    "25006": "the server is a standby, or a setting makes it read-only: the command status prints"
    " the remedy",
    "26000": POOLER,
    "28000": CREDENTIALS,
    "28P01": CREDENTIALS,
    "3D000": "create the database, or correct its name in DATABASE_URL",
    "3F000": NO_RIGHTS,
    "42501": NO_RIGHTS,
    "42703": MIGRATE,
    "42883": MIGRATE,
    "42P01": MIGRATE,
    "42P05": POOLER,
    "53100": "free or extend the disk of the database",
    "53300": (
        "raise max_connections, or lower WEB_CONCURRENCY or WEB_THREADS; a superuser still gets in,"
        " and sees who holds the connections: docs/operations/running.md, The bad night"
    ),
    "XX001": CORRUPTED,
    "XX002": CORRUPTED,
    "connect": (
        "as a superuser GRANT CONNECT ON DATABASE name TO the user of DATABASE_URL; a restored"
        " database has no such grant: docs/operations/running.md, A role that owns nothing"
    ),
    "limit": (
        "as a superuser ALTER ROLE … CONNECTION LIMIT -1 for the user of DATABASE_URL, or ALTER"
        " DATABASE name CONNECTION LIMIT -1; max_connections does not help"
    ),
    "57P03": "wait until PostgreSQL has started",
}
# If a connection fails, libpq reports only a text and no SQLSTATE. If DATABASE_URL names several
# servers, the text contains the errors of all servers. These patterns tell the errors apart. They
# are English: if the server's lc_messages names another language, there is no remedy, because only
# a superuser may change it for a session.
TEXTS = {
    "standby": r"session is read-only|in hot standby mode",
    "limit": r"too many connections for (role|database)",
    "connect": r"permission denied for database",
    "53300": r"too many (clients|connections)|remaining connection slots",
    "57P03": r"the database system is",
    "28P01": r"authentication failed|no pg_hba\.conf entry|role .* does not exist",
    "3D000": r"database .* does not exist",
    "certificate": r"root certificate|certificate verify failed|server certificate for",
    "host": r"could not translate host name|failed to resolve host",
    "pool": r"couldn.t get a connection|no connection became free|no time is left for the database",
    "silent": r"timeout expired|could not receive data from server: Connection timed out",
    "closed": r"closed the connection unexpectedly|reset by peer",
}


def kind_of(error: psycopg.Error) -> str | None:
    """Return the key of REMEDIES for an error."""
    text = str(error)
    found = (name for name, pattern in TEXTS.items() if re.search(pattern, text))
    kind = next(found, None)
    # If a role has reached its connection limit, the SQLSTATE is the same as for the limit of the
    # server, but the remedy is different.
    return kind if kind == "limit" else error.sqlstate or kind


def remedy(error: psycopg.Error) -> str | None:
    """Return what an operator can do about this error, or None if no remedy is known."""
    if error.sqlstate is None and not isinstance(error, psycopg.OperationalError):
        return None
    return REMEDIES.get(kind_of(error))
