"""check: prints a line for each thing that a start needs.

The systemd units run it before web and worker.
"""

import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.http import error_message
from support.project import PROJECT
from support.receivers import KEY, subscribe
from support.rows import grants

from service.__main__ import main
from service.commands.status import certificate
from service.database.statements import catalogue
from service.settings import Settings
from service.webhooks.secrets import fingerprint


def check(url, *options, **settings):
    """Run ``check``; return its exit code and its lines, without the size, which may grow."""
    ran = CliRunner().invoke(main, ["check", *options], env={"DATABASE_URL": url, **settings})
    assert ran.stderr == ""
    return ran.exit_code, re.sub(r", [0-9.]+ MiB\b", ", … MiB", ran.stdout).splitlines()


def warned(url, **settings):
    """Return the lines of ``check``; with ``--start`` its errors must be warnings."""
    code, lines = check(url, **settings)
    assert code == 1
    expected = [line.replace(" ERROR ", " warning ") for line in lines]
    assert check(url, "--start", **settings) == (0, expected)
    return lines


def test_if_all_is_well_the_command_check_prints_one_line_per_check(database_url):
    code, lines = check(database_url, WEBHOOK_KEY=KEY, WEB_THREADS="2")
    assert code == 0
    name = conninfo_to_dict(database_url)["dbname"]
    for line, pattern in zip(
        lines,
        (
            # SPEEDUPS is there if the tests run without them.
            r"settings    ok: DATABASE_URL=set WEB_THREADS=2 (SPEEDUPS=off )?WEBHOOK_KEY=set",
            rf"connection  ok: {name} on \S+:[0-9]+, PostgreSQL [0-9.]+.*",
            r"encoding    ok: UTF8",
            r"schema      ok: [0-9]+ migrations",
            r"rights      ok: \w+",
            r"key         ok: 1",
        ),
        strict=True,
    ):
        assert re.fullmatch(pattern, line)
    assert check(database_url)[1][-1] == ("key         WEBHOOK_KEY is not set: webhook events wait")


@pytest.mark.nodatabase
@pytest.mark.parametrize("start", [[], ["--start"]])
@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"WEB_THREADS": "four"}, "WEB_THREADS='four': must be an integer from 1 to 256, in .*"),
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set: .*"),
        ({"WEBHOOK_KEY": "k" * 32 + ","}, "WEBHOOK_KEY: must be keys of at least 32 .*"),
        # A closing quote of the other kind, quotes within quotes, and a typographic quote.
        ({"WEBHOOK_KEY": f"\"{KEY}'"}, 'WEBHOOK_KEY: must not contain the quote ": in a .*'),
        ({"WEBHOOK_KEY": f"{KEY}'"}, "WEBHOOK_KEY: must not contain the quote ': in a file .*"),
        ({"WEBHOOK_KEY": f"\u201c{KEY}"}, "WEBHOOK_KEY: must not contain the quote \u201c: .*"),
        # These are not addresses of this machine.
        ({"HOST": "nowhere.invalid"}, "HOST='nowhere.invalid': .*"),
        ({"HOST": "192.0.2.1"}, "HOST='192.0.2.1': .*"),
    ],
)
def test_an_invalid_setting_is_an_error_that_prevents_a_start(settings, line, start):
    variables = {"DATABASE_URL": "host=/nowhere", **settings}
    code, lines = check(variables.pop("DATABASE_URL"), *start, **variables)
    assert code == 1
    (found,) = (shown for shown in lines if shown.startswith("settings    ERROR "))
    assert re.fullmatch(f"settings    ERROR {line}", found)
    assert lines == [found] or "HOST" in settings


@pytest.mark.nodatabase
def test_the_command_check_names_a_setting_without_effect_and_the_remedy(tmp_path, monkeypatch):
    unit = tmp_path / "task-service-web.socket"
    unit.touch()
    monkeypatch.setattr("service.commands.check.SOCKET", unit)
    settings = {"WEB_CONCURENCY": "4", "PORT": "8001"}
    assert warned("host=/nowhere", **settings)[0] == (
        "settings    ERROR WEB_CONCURENCY is not a setting: write WEB_CONCURRENCY;"
        f" PORT has no effect: ListenStream of {unit} is the address"
    )
    # With other settings the process is not the unit's, so PORT does have an effect. An operator
    # tries a restored copy in this way.
    _, lines = check("host=/nowhere", TASK_SERVICE_ENV="/etc/task-service/copy", PORT="8002")
    assert lines[0].startswith("settings    ok: ")


@pytest.mark.nodatabase
def test_the_command_check_warns_of_a_file_of_another_release_and_names_the_remedy(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("service.commands.check.UNITS", tmp_path)
    for name in ("task-service-web.service", "task-service.slice"):
        shutil.copy(PROJECT / "docs/deploy" / name, tmp_path)
    assert not any(line.startswith("files") for line in check("host=/nowhere", "--start")[1])
    with open(tmp_path / "task-service.slice", "a") as unit:
        unit.write("CPUQuota=50%\n")
    code, lines = check("host=/nowhere", "--start")
    assert code == 0
    assert lines[1] == (
        f"files       warning {tmp_path}/task-service.slice not as in this release:"
        f" as root run sh {PROJECT}/service/deploy/install"
    )


@pytest.mark.nodatabase
@pytest.mark.parametrize("password", ["qz/yx", "qz#yx", "qz@yx"])
def test_a_password_that_is_not_encoded_in_the_url_gets_a_hint_that_shows_no_part_of_it(password):
    _, lines = check(f"postgresql://user:{password}@127.0.0.1:1/name")
    assert lines[-1].endswith("as %XX, like %2F for /")
    assert not re.search("qz|yx", lines[-1])


@pytest.mark.slow
@pytest.mark.nodatabase
def test_an_unreachable_database_is_an_error_with_its_remedy_that_does_not_prevent_a_start():
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        for url, remedy in (
            ("host=/nowhere", " does not start, its log or df says why: "),
            ("host=nowhere.invalid", ": correct the host in DATABASE_URL, or its DNS"),
            (f"host=127.0.0.1 port={frozen.getsockname()[1]}", ": the server is cut off, frozen"),
        ):
            line = warned(url)[-1]
            assert line.startswith("connection  ERROR ")
            assert remedy in line


def test_more_connections_than_the_server_allows_are_an_error_that_does_not_prevent_a_start(
    database_url,
):
    line = warned(database_url, WEB_CONCURRENCY="256", WEB_THREADS="256")[1]
    assert re.match(r"connection  ERROR the processes may open \d+ connections, and the ", line)


def test_without_migrations_check_suggests_that_database_url_may_name_the_wrong_database(empty):
    assert check(empty)[1][3].endswith(
        ": run the command migrate, or correct the name of the database in DATABASE_URL"
    )


def test_a_wrong_name_of_the_database_is_an_error_that_prevents_a_start(database_url):
    url = make_conninfo(database_url, dbname="nowhere")
    code, lines = check(url, "--start")
    assert code == 1
    assert re.fullmatch(r'connection  ERROR .*FATAL: .*"nowhere" does not exist.*', lines[-1])


def test_a_missing_table_is_an_error_that_prevents_a_start(other):
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("ALTER TABLE plans RENAME TO renamed")
    code, lines = check(other, "--start")
    assert (code, len(lines)) == (1, 6)
    assert lines[3].startswith("schema      ERROR the table plans is missing although all migra")


def test_a_read_only_database_is_an_error_that_does_not_prevent_a_start(other):
    with psycopg.connect(other, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    lines = warned(other)
    assert lines[1].startswith("connection  ERROR every request is 503, as the database is read-on")
    assert len(lines) == 6


def test_a_missing_column_or_index_is_an_error_that_does_not_prevent_a_start(other):
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("ALTER TABLE meetings RENAME agenda TO renamed")
        connection.execute("DROP INDEX tasks_by_parent")
    line = warned(other)[3]
    assert "column meetings.agenda, index tasks_by_parent: restore the backup again if" in line


# What a restore lacks that ended early: pg_restore creates foreign keys and triggers last.
HALF = """
DO $$ DECLARE statement text; BEGIN
    FOR statement IN
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
          FROM pg_constraint WHERE contype = 'f'
         UNION ALL
        SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
          FROM pg_trigger WHERE NOT tgisinternal
    LOOP EXECUTE statement; END LOOP;
END $$
"""
# Each way to lose a trigger or a constraint, and the parts that check names then.
LOST = {
    "ALTER TABLE tasks DISABLE TRIGGER next_version": {"trigger tasks.next_version"},
    "DROP TRIGGER add_feed ON webhooks": {"trigger webhooks.add_feed"},
    "ALTER TABLE tokens DROP CONSTRAINT tokens_user_id_fkey": {
        "constraint tokens.tokens_user_id_fkey"
    },
    # This is what `pg_restore --data-only --disable-triggers` leaves if it ends early.
    "ALTER TABLE tokens DISABLE TRIGGER ALL": {"constraint tokens.tokens_user_id_fkey"},
    "ALTER TABLE plans DROP CONSTRAINT plans_per_day_check": {
        "constraint plans.plans_per_day_check"
    },
    "ALTER TABLE usage DROP CONSTRAINT usage_pkey": {
        "constraint usage.usage_pkey",
        "index usage_pkey",
    },
    HALF: set(),
}


@pytest.mark.parametrize("change", LOST)
def test_without_a_trigger_or_a_constraint_check_migrate_and_healthz_fail(other, start, change):
    client = start(Settings.read({"DATABASE_URL": other})).test_client()
    assert client.get("/healthz").status_code == 200
    with psycopg.connect(other, autocommit=True) as connection:
        if change == HALF:
            query = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype='f'"
            keys = connection.execute(query).fetchall()
            triggers = [
                (table, name)
                for table, parts in catalogue()["tables"].items()
                for name in parts.get("trigger", ())
            ]
            assert min(len(keys), len(triggers)) > 9
        connection.execute(change)
    lost = LOST[change] or {
        *(f"constraint {table}.{name}" for table, name in keys),
        *(f"trigger {table}.{name}" for table, name in triggers),
    }
    code, lines = check(other, "--start")
    assert code == 1
    text = "missing, invalid or disabled although all migrations are applied: "
    found, _, remedy = lines[3].partition(f"schema      ERROR {text}")[2].partition(": ")
    assert set(found.split(", ")) == lost
    assert remedy.startswith("restore the backup again if its restore ended early")
    ran = CliRunner().invoke(main, ["migrate"], env={"DATABASE_URL": other})
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == f"Error: {text}{found}: {remedy}\n"
    message = "A table, function, trigger or constraint is missing; the command status names it"
    assert error_message(client.get("/healthz"), 503) == message


def test_migrate_warns_of_a_missing_index_and_fails_without_a_table_or_a_function(other):
    def migrate():
        ran = CliRunner().invoke(main, ["migrate"], env={"DATABASE_URL": other})
        return ran.exit_code, ran.stderr.splitlines()

    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("DROP INDEX tasks_by_parent")
        code, (warning, end) = migrate()
        assert (code, end) == (0, "nothing to do: the schema is up to date")
        assert warning.startswith("warning: missing, invalid or disabled although all migrations")
        connection.execute("ALTER TABLE plans RENAME TO renamed")
        code, (error,) = migrate()
        assert code == 1
        assert error.startswith("Error: the table plans is missing although all migrations are")


def test_for_a_role_at_its_connection_limit_the_remedy_is_alter_role(other, stranger):
    role, url = stranger
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(grants(connection.info.dbname, role))
        connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
    line = warned(url)[-1]
    assert f'too many connections for role "{role}": as a superuser ALTER ROLE' in line
    assert "raise max_connections" not in line


def test_for_a_role_without_connect_the_remedy_is_a_grant(other, stranger):
    role, url = stranger
    with psycopg.connect(other, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(grants(name, role))
        connection.execute(f"REVOKE CONNECT ON DATABASE {name} FROM {role}")
    code, lines = check(url)
    assert code == 1
    assert f'permission denied for database "{name}"' in lines[-1]
    assert ": as a superuser GRANT CONNECT ON DATABASE name TO " in lines[-1]
    assert "start PostgreSQL" not in lines[-1]


@pytest.mark.parametrize(
    ("grant", "lacks"),
    [
        ("SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public", "sequence event_pos"),
        ("USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public", "tables attempts, "),
        ("CONNECT ON DATABASE {name}", "schema public"),
    ],
)
def test_missing_rights_on_tables_or_sequences_are_an_error_that_prevents_a_start(
    other, stranger, grant, lacks
):
    role, url = stranger
    with psycopg.connect(other, autocommit=True) as connection:
        if lacks.startswith("schema"):
            connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.execute(f"GRANT {grant.format(name=connection.info.dbname)} TO {role}")
    code, lines = check(url, "--start")
    assert code == 1
    assert lines[3].startswith("schema      ok")
    assert lines[4].startswith("rights      ERROR the user of DATABASE_URL lacks rights on the ")
    assert f" on the {lacks}" in lines[4]


def test_a_missing_key_is_an_error_that_does_not_prevent_a_start(database_url, cast, connection):
    lost = fingerprint("a key that was lost, of 32 or more characters")
    subscribe(connection, cast["acme"], "http://127.0.0.1/", key_fingerprint=lost)
    line = warned(database_url, WEBHOOK_KEY=KEY)[-1]
    assert line.startswith(f"key         ERROR WEBHOOK_KEY does not list the key {lost}")


@pytest.mark.nodatabase
def test_the_systemd_units_run_check_before_they_start_the_service():
    command = "/opt/task-service/current/bin/task-service"
    for program in ("web", "worker"):
        unit = Path(PROJECT, f"docs/deploy/task-service-{program}.service").read_text()
        assert f"\nExecStartPre={command} check --start\nExecStart={command} {program}\n" in unit


@pytest.mark.nodatabase
def test_a_missing_file_of_certificate_authorities_has_its_own_remedy():
    """The server offers TLS, so libpq looks for the file of certificate authorities."""

    def offer_tls(listener):
        for _ in range(2):
            with suppress(OSError), listener.accept()[0] as client:
                client.recv(8)
                client.sendall(b"S")
                client.recv(8)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=offer_tls, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        address = f"host=127.0.0.1 port={port} sslmode=verify-full sslrootcert=/nowhere"
        code, lines = check(address)
    assert code == 1
    assert 'root certificate file "/nowhere" does not exist: DATABASE_URL needs' in lines[-1]


def test_check_warns_of_a_python_that_is_newer_than_the_tested_versions(database_url, monkeypatch):
    assert not any(line.startswith("python") for line in check(database_url)[1])
    monkeypatch.setattr(sys, "version_info", (3, 99, 1, "final", 0))
    code, lines = check(database_url)
    assert code == 0
    (line,) = [line for line in lines if line.startswith("python")]
    assert line.startswith("python      warning Python 3.99 is newer than 3.11 to 3.1")


@pytest.mark.slow
def test_check_and_migrate_name_a_locale_that_knows_case_in_ascii_only_and_the_remedy(database_url):
    """Such a database works, except that a search for é does not find É."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    remedy = "CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"
    with psycopg.connect(database_url, autocommit=True) as server:
        # The provider of the template would ignore the locale.
        for locale, faults in (("C", 1), ("C.UTF-8", 0)):
            create = remedy.replace("name", name).replace("C.UTF-8", locale)
            server.execute(f"{create} LOCALE_PROVIDER libc")
            try:
                url = make_conninfo(database_url, dbname=name)
                migrated = CliRunner().invoke(main, ["migrate"], env={"DATABASE_URL": url})
                assert migrated.exit_code == 0
                assert migrated.stderr.count("warning: the locale") == faults
                if faults:
                    assert migrated.stderr.endswith(f"made with {remedy}\n")
                    (line,) = [line for line in warned(url) if line.startswith("encoding")]
                    assert line.startswith("encoding    ERROR the locale of the database knows")
                    assert line.endswith(remedy)
                else:
                    assert check(url)[0] == 0
            finally:
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def nginx_with(folder, days, monkeypatch):
    """Serve TLS as nginx of this host would, with a new certificate that is valid for some days."""
    key, shown = folder / f"{days}.key", folder / f"{days}.crt"
    request = shlex.split(
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=api.example.com -days 1"
    )
    first = folder / "first.crt"
    for command in (
        [*request, "-keyout", key, "-out", first],
        ["openssl", "x509", "-days", str(days), "-in", first, "-signkey", key, "-out", shown],
    ):
        subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with suppress(OSError):
                while client := listener.accept()[0]:
                    # The command ends a connection once it has seen the certificate.
                    with suppress(OSError):
                        context.wrap_socket(client, server_side=True).close()

        Thread(target=answer, daemon=True).start()
        site = folder / "server.conf"
        site.write_text("server_name api.example.com;\n")
        monkeypatch.setattr(certificate, "SITE", site)
        monkeypatch.setattr(certificate, "NGINX", listener.getsockname())
        yield


@pytest.mark.needs("openssl")
def test_status_and_check_know_an_expired_certificate(
    database_url, status_of, tmp_path, monkeypatch
):
    problem = (
        "the certificate of api.example.com has expired, so clients refuse the service: renew it,"
        " for example with certbot renew, and reload nginx"
    )
    with nginx_with(tmp_path, 0, monkeypatch):
        assert f"PROBLEM       {problem}\n" in status_of(database_url).stdout
        # An expired certificate does not prevent a start.
        assert f"certificate ERROR {problem}" in warned(database_url)
    with nginx_with(tmp_path, 13, monkeypatch):
        problem = r"the certificate of api\.example\.com expires on .* GMT: renew it"
        assert re.search(rf"(?m)^PROBLEM       {problem}", status_of(database_url).stdout)
        code, lines = check(database_url)
        assert code == 0
        assert any(re.match(f"certificate warning {problem}", line) for line in lines)
    with nginx_with(tmp_path, 15, monkeypatch):
        page = status_of(database_url).stdout
        assert check(database_url)[0] == 0
    assert re.search(r"(?m)^certificate   of api\.example\.com, valid until .* GMT$", page)
    assert "of api.example.com expires" not in page
    # While nginx is down, other alerts say so.
    assert check(database_url)[0] == 0
