"""A workspace with a row in every table, so that each statement has something to leak."""

import json
import re
from functools import cache
from itertools import permutations, product

from support.commands import UUID
from support.derived import filters, view_of
from support.resources import HERE, RESOURCES, WORD, missing
from support.rows import insert_token

from service.values import types

# A world has no rows in this table, because the gate fills it when it counts requests.
COUNTED = {"usage"}
# Where the users and workspaces with which each test begins have rows.
OF_THE_CAST = {"workspaces", "feeds", "members", "members of the user", "tokens of the user"}


@cache
def tables_with(connection, column):
    """Return the tables that have this column.

    The result is cached, because no test changes the schema of the database that tests use.
    """
    rows = connection.execute(
        "SELECT columns.table_name AS name FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND column_name = %s"
        " ORDER BY 1",
        (column,),
    )
    return [row["name"] for row in rows.fetchall()]


def chosen(resource, number):
    """Return a value for each column with an enum by which a list is filtered, for a row."""
    columns = resource.schema().fields if resource.schema else ()
    return {
        field.name: field.choices[number % len(field.choices)]
        for field in (filters(view_of(resource).arguments) if resource.lists else ())
        if isinstance(field, (types.OneOf, types.SomeOf)) and field.name in columns
    }


@cache
def insertion(connection, *tables):
    """Return a statement that inserts rows into these tables, in all columns but generated ones.

    The parameters of the statement are the rows of each table in JSON. The text is cached, as
    ``tables_with`` caches the names of tables.
    """
    columns = connection.execute(
        "SELECT table_name AS name, string_agg(quote_ident(column_name), ', ') AS columns"
        "  FROM information_schema.columns JOIN information_schema.tables"
        "       USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'"
        " GROUP BY 1"
    )
    parts = (
        f"into_{row['name']} AS (INSERT INTO {row['name']} ({row['columns']})"
        f" OVERRIDING SYSTEM VALUE SELECT {row['columns']}"
        f" FROM json_populate_recordset(NULL::{row['name']}, %({row['name']})s::json))"
        for row in columns.fetchall()
        if row["name"] in tables
    )
    return f"WITH {', '.join(parts)} SELECT"


class World:
    """The rows of one workspace and of one of its members."""

    # Whether the first world had a row in every table. All worlds are filled alike, so one check is
    # enough.
    complete = False

    def __init__(self, connection, workspace_id, user_id):
        self.connection = connection
        self.workspace_id, self.user_id = workspace_id, user_id

    # The rows of the first world of each name, and the ids of its workspace and of its user.
    filled = {}

    def fill_like_the_first(self, name, without_triggers):
        """Copy the rows of the first world of this name, which is quicker than to fill another one.

        The connection ``without_triggers`` changes and checks nothing of the rows.
        """
        if name in World.filled:
            self.insert_copy(without_triggers, *World.filled[name])
            return
        before = self.everything()
        self.fill(name)
        # Other rows of the test may have changed what has been inserted.
        if {table for table, rows in before.items() if rows} <= OF_THE_CAST:
            World.filled[name] = self.added_to(before), self.workspace_id, self.user_id

    def added_to(self, before):
        """Return the rows that a world has and had not before, by table, in JSON."""
        found = {}
        for name, rows in self.everything().items():
            added = found.setdefault(name.removesuffix(" of the user"), [])
            added += [row for row in rows if row not in before[name] and row not in added]
        return json.dumps({table: json.dumps(rows) for table, rows in found.items() if rows})

    def insert_copy(self, connection, rows, workspace_id, user_id):
        """Insert these rows as they are, for the workspace and the user of this world."""
        rows = rows.replace(workspace_id, self.workspace_id).replace(user_id, self.user_id)
        parameters = json.loads(rows)
        with connection.transaction():
            # The workspace has a feed since it exists.
            connection.execute("DELETE FROM feeds WHERE workspace_id = %s", (self.workspace_id,))
            connection.execute(insertion(connection, *parameters), parameters)

    def fill(self, name):
        """Insert at least one row into every table; ``name`` makes its tokens unique."""
        known = {"user": self.user_id}
        for resource in RESOURCES:
            for number, row in enumerate(resource.world if resource.required else ()):
                values = {**chosen(resource, number), **row}
                id = resource.insert(self.connection, self.workspace_id, known, **values)
                known.setdefault(resource.table, id)
        self.fill_webhooks(known["webhooks"])
        self.connection.execute(
            "INSERT INTO idempotency_keys (workspace_id, user_id, key, fingerprint, status, body)"
            " VALUES (%s, %s, %s, '', 200, %s)",
            (self.workspace_id, self.user_id, WORD, WORD),
        )
        # The user is a former member too, as if the user had left and come back.
        self.connection.execute(
            "INSERT INTO former_members (workspace_id, user_id) VALUES (%s, %s)",
            (self.workspace_id, self.user_id),
        )
        self.connection.execute(
            "INSERT INTO deleted_versions (workspace_id, id, version) VALUES (%s, new_id(), 1)",
            (self.workspace_id,),
        )
        for kind in ("api", "session"):
            insert_token(
                self.connection,
                self.user_id,
                f"tmw_{kind}_{name}_{WORD}",
                kind=kind,
                workspace_id=self.workspace_id if kind == "api" else None,
            )
        if not World.complete:
            self.check()
            World.complete = True

    def fill_webhooks(self, webhook):
        """Insert the rows of a feed, and deliveries of a webhook in each state."""
        self.connection.execute(
            "UPDATE feeds SET read_at = now(), ready = true WHERE workspace_id = %s",
            (self.workspace_id,),
        )
        self.connection.execute(
            "INSERT INTO event_cursors (workspace_id, position)"
            " SELECT workspace_id, complete_after FROM feeds WHERE workspace_id = %s",
            (self.workspace_id,),
        )
        self.connection.execute(
            "INSERT INTO previous_secrets"
            " SELECT workspace_id, id, 0, key_fingerprint, now() + interval '1 day'"
            "  FROM webhooks WHERE workspace_id = %s AND id = %s",
            (self.workspace_id, webhook),
        )
        self.connection.execute(
            "SELECT announce(%s::uuid, 'note.created', row_to_json(note))"
            "  FROM (SELECT new_id() AS id FROM generate_series(1, 3)) AS note",
            (self.workspace_id,),
        )
        self.connection.execute(
            "UPDATE deliveries AS delivery"
            "   SET state = (ARRAY['waiting', 'delivered', 'failed'])[number], attempts = 1"
            "  FROM (SELECT id, dense_rank() OVER (ORDER BY event_id) AS number"
            "          FROM deliveries WHERE workspace_id = %(id)s) AS numbered"
            " WHERE delivery.workspace_id = %(id)s AND delivery.id = numbered.id",
            {"id": self.workspace_id},
        )
        self.connection.execute(
            "INSERT INTO attempts (workspace_id, delivery_id, number, milliseconds, answer)"
            " SELECT workspace_id, id, 1, 1, %s FROM deliveries WHERE workspace_id = %s",
            (WORD, self.workspace_id),
        )

    def check(self):
        """Fail if a table for rows of workspaces or users has no row of this world."""
        for column, value in (("workspace_id", self.workspace_id), ("user_id", self.user_id)):
            for table in tables_with(self.connection, column):
                if table not in COUNTED and not self.rows(table, column, value):
                    missing(f"{HERE}: no entry inserts a row into the table {table}")

    def rows(self, table, column, value):
        return self.connection.execute(
            f"SELECT * FROM {table} AS row WHERE {column} = %s ORDER BY row::text", (value,)
        ).fetchall()

    def everything(self):
        """Return all rows of the workspace and of its user, without the counts of requests."""
        columns = {"workspace_id": "", "user_id": " of the user"}
        parts = [("workspaces", "workspaces", "id")] + [
            (f"{table}{of}", table, column)
            for column, of in columns.items()
            for table in tables_with(self.connection, column)
            if table not in COUNTED
        ]
        # One statement is quicker than one for each table.
        query = " UNION ALL ".join(
            f"SELECT '{name}' AS name, to_jsonb(row) - 'last_used_at' AS row"
            f" FROM {table} AS row WHERE {column} = %({column})s"
            for name, table, column in parts
        )
        values = {"id": self.workspace_id, "workspace_id": self.workspace_id}
        rows = self.connection.execute(
            f"{query} ORDER BY 1, 2", {**values, "user_id": self.user_id}
        ).fetchall()
        found = {name: [] for name, _, _ in parts}
        for row in rows:
            found[row["name"]].append(row["row"])
        return found

    def ids(self, *, few=False):
        """Return the ids of the user and of all rows, or of two rows of each table if ``few``."""
        found = {self.user_id}
        for rows in self.everything().values():
            ids = sorted(row["id"] for row in rows if "id" in row)
            found.update(ids[:1] + ids[-1:] if few else ids)
        return sorted(found)

    def keys(self, view, ids=None):
        """Return what finds rows in the path of a view: an id, or two ids that are in one row.

        These are ids of the tables after which the path is named, and only those in ``ids``. With
        an id of another table, the path finds nothing, so one of each table is enough for a test.
        """
        everything = self.everything()
        wanted = [self.ids_in(everything, table, ids) for table in view.tables]
        if len(wanted) < 2:
            return sorted(product(*wanted))
        found = set()
        for rows in everything.values():
            for row in rows:
                values = [value for value in row.values() if re.fullmatch(UUID, str(value))]
                found.update(permutations(values, 2))
        return sorted(pair for pair in found if pair[0] in wanted[0] and pair[1] in wanted[1])

    def ids_in(self, everything, table, ids):
        """Return the ids of the rows of the table, or of all rows, if there is no such table."""
        rows = [*everything.get(table, ()), *everything.get(f"{table} of the user", ())]
        # A member has the id of its user.
        found = {row.get("id") or row["user_id"] for row in rows} or {*self.ids()}
        return found if ids is None else found & {*ids}

    def personal_ids(self):
        """Return the ids of the rows that only the user may see."""
        return sorted(
            str(row["id"])
            for table in tables_with(self.connection, "user_id")
            if table != "members"
            for row in self.rows(table, "user_id", self.user_id)
            if "id" in row
        )

    def cursor(self):
        return self.connection.execute(
            "SELECT keyed_cursor(position, cursor_proof(history, id, event_cursors.xmin)) AS cursor"
            "  FROM feeds JOIN event_cursors USING (workspace_id) WHERE workspace_id = %s",
            (self.workspace_id,),
        ).fetchone()["cursor"]

    def delete(self):
        self.connection.execute("DELETE FROM workspaces WHERE id = %s", (self.workspace_id,))

    def delete_personal(self):
        """Delete the rows of the user, except memberships."""
        for table in tables_with(self.connection, "user_id"):
            if table != "members":
                self.connection.execute(f"DELETE FROM {table} WHERE user_id = %s", (self.user_id,))
