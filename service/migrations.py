"""Apply ``sql/schema/*.sql`` in order, each file once and in a transaction of its own, by yoyo-migrations."""

import psycopg
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend

from service.db import SQL, statement


class Conninfo(str):
    """A libpq connection string in the place where yoyo expects a parsed URL, whose one field it asks for."""

    database = None


class Backend(PostgresqlPsycopgBackend):
    """yoyo on connections of ours, so that every form of DATABASE_URL works."""

    def connect(self, dburi):
        return psycopg.connect(dburi, autocommit=True, connect_timeout=2)


def migrate(settings):
    """Bring the schema up to date and return the names of the files that were applied."""
    conninfo = Conninfo(settings.require_database())
    # yoyo's own lock is a row that stays behind when its owner is killed; this one ends with the connection.
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=2) as owner:
        owner.execute(statement("accounts/lock_schema"))
        with Backend(conninfo, "_yoyo_migration") as backend:
            backend.init_database()
            backend.break_lock()
            pending = backend.to_apply(read_migrations(str(SQL / "schema")))
            names = [migration.id for migration in pending]
            backend.apply_migrations(pending)
            return names
