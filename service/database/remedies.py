"""The remedies for errors of PostgreSQL, which logs and commands name to operators."""

import psycopg

MIGRATE = (
    "run the command migrate; if it has nothing to do, the schema was changed by hand: change it"
    " back"
)
CREDENTIALS = "correct the user and the password in DATABASE_URL"

# By SQLSTATE. An error of libpq, without one, means that there is no connection.
REMEDIES = {
    None: "start PostgreSQL, or correct DATABASE_URL",
    "25006": "let DATABASE_URL name the primary, or end its default_transaction_read_only",
    "28000": CREDENTIALS,
    "28P01": CREDENTIALS,
    "3D000": "create the database, or correct its name in DATABASE_URL",
    "42501": "GRANT the user of DATABASE_URL the rights, or let it own the tables",
    "42703": MIGRATE,
    "42883": MIGRATE,
    "42P01": MIGRATE,
    "53100": "free or extend the disk of the database",
    "53300": "raise max_connections, or lower WEB_CONCURRENCY or WEB_THREADS",
    "57P03": "wait until PostgreSQL has started",
}


def remedy(error: psycopg.Error) -> str | None:
    """Return what an operator does about this error; None if that is not known."""
    if error.sqlstate is None and not isinstance(error, psycopg.OperationalError):
        return None
    return REMEDIES.get(error.sqlstate)
