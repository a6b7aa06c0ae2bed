"""Settings of PostgreSQL that a role or a database may have, and what the service must return."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
from support.commands import CommandRunner
from support.derived import stable
from support.http import Client
from support.resources import WORD
from support.rows import TOKENS, restore_cast
from support.statements import until_waiting
from support.world import World

# The values of settings that are texts.
TEXTS = {
    "DateStyle": ["German, DMY", "SQL, DMY", "Postgres, MDY", "ISO, DMY"],
    "TimeZone": ["America/New_York", "Australia/Sydney"],
    "application_name": ["other"],
    "client_encoding": ["LATIN1"],
    "createrole_self_grant": ["set, inherit"],
    "default_table_access_method": ["heap"],
    "default_tablespace": ["pg_default"],
    "default_text_search_config": ["pg_catalog.english"],
    "lc_messages": ["C", "C.UTF-8"],
    "lc_monetary": ["C.UTF-8"],
    "lc_numeric": ["C.UTF-8"],
    "lc_time": ["C.UTF-8"],
    "restrict_nonsystem_relation_kind": ["view, foreign-table"],
    "search_path": ["public, pg_catalog", "public"],
    "temp_tablespaces": ["pg_default"],
    "timezone_abbreviations": ["Australia", "India"],
    "wal_consistency_checking": ["heap"],
    "backtrace_functions": ["int4in"],
    "plpgsql.extra_errors": ["all"],
    "plpgsql.extra_warnings": ["all"],
}
# Settings that the service does not override, and why.
FOLLOWED = {
    "default_transaction_read_only": "it says that the database accepts no writes",
    "transaction_deferrable": "PostgreSQL ends a connection that begins with it",
    "transaction_isolation": "PostgreSQL ends a connection that begins with it",
    "transaction_read_only": "it says that the database accepts no writes",
    "session_replication_role": "only a superuser can set it back; it turns triggers off",
    "track_counts": "status names it, because autovacuum needs it",
    "dynamic_library_path": "it says where PostgreSQL finds its code",
    "extension_control_path": "it says where PostgreSQL finds its code",
    "output_plugin_libraries": "it says which code PostgreSQL may load",
    "extension_destdir": "it says so in Debian's PostgreSQL",
    "local_preload_libraries": "it loads code into PostgreSQL",
    "session_preload_libraries": "it loads code into PostgreSQL",
    "exit_on_error": "it ends the session of each failed statement",
    "idle_session_timeout": "a limit: connections end, and requests may fail with 503",
    "transaction_timeout": "a limit: requests may fail with 503",
    "temp_file_limit": "a limit: requests may fail with 503",
    "max_stack_depth": "a limit: requests may fail with 503",
}
# Lists the settings that a role or a database may have.
SETTINGS = """
    SELECT name, vartype, boot_val, min_val, max_val, enumvals
      FROM pg_settings
     WHERE context IN ('user', 'superuser')
     ORDER BY name
"""


def other_values(setting):
    """Return the values of a setting, except its default."""
    name, kind, default = setting["name"], setting["vartype"], setting["boot_val"]
    if kind == "bool":
        values = ["off" if default == "on" else "on"]
    elif kind == "enum":
        values = setting["enumvals"]
    elif kind == "string":
        values = TEXTS.get(name)
        assert values, f"{__file__} needs values for the setting {name}"
    else:
        values = [setting["min_val"], setting["max_val"]]
    return [value for value in values if value != default]


def alternatives(connection):
    """Return pairs (name, value): all other values of all settings that must change nothing."""
    found = connection.execute(SETTINGS).fetchall()
    return [
        (setting["name"], value)
        for setting in found
        if setting["name"] not in FOLLOWED
        for value in other_values(setting)
    ]


UUIDS = re.compile("[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Script:
    """Requests and commands whose results are compared; ids and present times become numbers."""

    def __init__(self, app, connection):
        self.app, self.connection = app, connection
        self.ids, self.results = {}, []

    def run(self):
        cast = restore_cast(self.connection)
        World(self.connection, cast["acme"], cast["alice"]).fill("alice")
        self.alice = Client(self.app, TOKENS["alice"])
        self.api(cast)
        self.at_the_same_time(cast)
        for words in (["workspace", "export", "acme"], ["user", "list", "--json"]):
            outcome = CommandRunner(self.app).invoke(words)
            self.note(words, outcome.exit_code, outcome.stdout.splitlines(), outcome.stderr)
        outcome = CommandRunner(self.app).invoke(["check"])
        # The rest of a line has the size of the database.
        self.note("check", [line.split()[:2] for line in outcome.stdout.splitlines()])
        outcome = CommandRunner(self.app).invoke(["status", "--json"])
        status = json.loads(outcome.stdout)
        # Which tables are the largest ones differs between runs.
        named = all(table["name"].isidentifier() for table in status["tables"])
        self.note("status", outcome.exit_code, status["problems"], named)
        return self.results

    def note(self, *values):
        text = json.dumps(values, default=str)
        text = UUIDS.sub(self.number, text)
        now = datetime.now(UTC)

        def time(match):
            distance = abs(datetime.fromisoformat(match[0]) - now)
            return "present" if distance < timedelta(days=2) else match[0]

        self.results.append(TIMES.sub(time, text))

    def number(self, match):
        """Replace an id by a number, which is the same wherever the id occurs in the results."""
        return f"id {self.ids.setdefault(match[0].replace('-', ''), len(self.ids))}"

    def send(self, method, path, body=None, **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.alice.send(method, path, json=body, headers=names)
        content = response.get_json(silent=True)
        shown = stable(content)
        for name in ("nextCursor", "token", "secret"):
            if isinstance(shown, dict) and shown.get(name):
                shown[name] = "a text"
        self.note(method, path.partition("?")[0], response.status_code, shown)
        self.note(response.headers.get("ETag"), response.headers.get("Idempotent-Replayed"))
        return content

    def pages(self, path):
        """Read all pages, one object at a time."""
        mark, cursor = "&" if "?" in path else "?", ""
        while cursor is not None:
            page = self.send("GET", f"{path}{mark}limit=1{cursor}")
            cursor = page["nextCursor"] and f"&cursor={page['nextCursor']}"

    def api(self, cast):
        after = self.send("GET", "/events")["nextCursor"]
        # PostgreSQL knows EST as an abbreviation too.
        self.send("PATCH", f"/workspaces/{cast['acme']}", {"timezone": "EST"})
        title = r"Straße ÉTÉ 'q' \x41 NULL"
        texts = {"title": title, "description": r"{NULL,\\}", "projectId": "NULL"}
        task = self.send("POST", "/tasks", {**texts, "dueDate": "2036-07-04"})
        path = f"/tasks/{task['id']}"
        self.send("GET", path)
        self.send("PATCH", path, {"dueDate": "2036-08-05", "status": "done"}, If_Match='"1"')
        self.send("PATCH", path, {"priority": "high"}, If_Match='"1"')
        self.send("PATCH", path, {"assigneeId": cast["bob"]})
        other = {"title": "b", "dueDate": "2037-02-03T04:05:06.789+05:45", "parentId": task["id"]}
        for _ in range(2):
            self.send("POST", "/tasks", other, Idempotency_Key="key")
        batch = self.send(
            "POST",
            "/tasks/batch",
            {
                "create": [{**texts, "dueDate": "2035-12-31"}, {"title": "c", "projectId": "x"}],
                "update": [{"id": task["id"], "dueDate": "2036-09-06", "description": None}],
            },
        )
        self.send("POST", "/tasks/batch", {"delete": [{"id": batch["created"][1]["id"]}]})
        for query in (
            "",
            "?status=todo,in_progress&priority=medium,high",
            "?dueAfter=2036-01-01&dueBefore=2036-12-31T12:00:00Z",
            "?sort=dueDate",
            "?sort=completedAt&completedAfter=2020-01-01",
            "?q=%C3%A9t%C3%A9%20stra%C3%9Fe",
            "?q=%5Cx41",
            "?projectId=NULL",
            "?assignee=me",
            "?assignee=none&parentId=none",
        ):
            self.pages(f"/tasks{query}")
        people = {"attendees": ["a@example.com", "NULL@example.com"], "agenda": r"\101"}
        hours = {"startTime": "2036-01-02T03:04:05+09:30", "endTime": "2036-01-02T05:00:00Z"}
        meeting = self.send("POST", "/meetings", {"title": title, **people, **hours})
        path = f"/meetings/{meeting['id']}"
        self.pages("/meetings?upcoming=true")
        self.pages("/meetings?from=2036-01-01T00:00:00Z")
        self.send("PATCH", path, {"status": "completed", "actionItems": ["NULL", "x"]})
        self.send("GET", path)
        self.send("DELETE", path)
        for path in ("/mail", "/knowledge", f"/knowledge?q={WORD}", "/ai/suggestions"):
            self.pages(path)
        for path in ("/me", "/workspaces", "/dashboard/stats", "/webhooks"):
            self.send("GET", path)
        self.send("GET", f"/workspaces/{cast['acme']}/members")
        self.send("POST", f"/workspaces/{cast['acme']}/members", {"email": "new@example.com"})
        hook = self.send("POST", "/webhooks", {"url": "https://192.0.2.1/hook", "events": None})
        if "id" in hook:
            self.send("GET", f"/webhooks/{hook['id']}/deliveries")
        # The number of a feed's positions differs between runs.
        events = self.send("GET", f"/events?after={after}&limit=500")
        self.note([event["type"] for event in events["data"]])
        for body in ({}, {"title": "x", "dueDate": "2036-02-30"}, {"title": "x" * 501}):
            self.send("POST", "/tasks", body)
        self.send("GET", f"/tasks/{cast['globex']}")

    def at_the_same_time(self, cast):
        """Send pairs of requests that change the same row."""
        task = self.send("POST", "/tasks", {"title": "shared"})["id"]
        user = cast["alice"]
        changes = [{"priority": "low"}, {"title": "changed"}]
        pairs = (
            ("tasks", "id", task, [("PATCH", f"/tasks/{task}", change) for change in changes]),
            ("usage", "subject", user, [("GET", "/me", None)] * 2),
        )
        dsn = self.connection.info.dsn
        for table, column, value, requests in pairs:
            with psycopg.connect(dsn) as holder, ThreadPoolExecutor(2) as threads:
                holder.execute(
                    f"SELECT FROM {table} WHERE {column}::text = %s FOR UPDATE", (value,)
                )
                started = []
                try:
                    for number, (method, path, body) in enumerate(requests, 1):
                        started.append(threads.submit(self.alice.send, method, path, json=body))
                        until_waiting(self.connection, started[-1], number)
                finally:
                    holder.rollback()
                self.note([call.result().status_code for call in started])
