"""The blocks of deployment.md and running.md, run on each Debian with systemd."""

import json
import re

import pytest
from support.debian import RELEASES, booted, missing, supply
from support.processes import wait_until
from support.project import PROJECT, blocks, read

from service.commands.check import PLACES, UNITS
from service.version import version
from service.webhooks.secrets import derive_secret

pytestmark = [
    pytest.mark.proof,
    pytest.mark.nodatabase,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

CURL = (
    "curl -sS --cacert /etc/nginx/service.crt --resolve api.example.com:443:127.0.0.1"
    " https://api.example.com"
)
# What check prints about an installed file that differs from the file of the release.
DIFFERENT = " not as in this release:"
HEALTHY = '{"status":"ok"}'
PASSWORD = "sed -n 's|.*//service:\\([^@]*\\)@.*|\\1|p' /etc/task-service/env"
KEY = "sed -n 's/^WEBHOOK_KEY=//p' /etc/task-service/env"
# Inserts a webhook, whose URL the API would reject, and prints its id.
SUBSCRIBE = (
    'runuser -u postgres -- psql -XAtq service -c "INSERT INTO webhooks (workspace_id, url,'
    " key_fingerprint) SELECT id, 'http://127.0.0.1:9000/', repeat('0', 16) FROM workspaces"
    " WHERE slug = 'umbrella' RETURNING id\""
)
# MISTAKE replaces the line TARGET of running.md: before the block that restores the state
# of a certain second, a workspace is deleted by mistake.
TARGET = "target='2026-11-22 14:03:11+00'\n"
MISTAKE = """
token=$(task-service token create rosa@example.com)
for number in $(seq 20); do
    curl -sSf -o /dev/null -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \\
        -d '{"title": "Test the parachute"}' http://127.0.0.1:8000/api/tasks
done
query() { runuser -u postgres -- psql -XAtqc "$1" service; }
id=$(query "SELECT id FROM workspaces WHERE slug = 'umbrella'")
rows() { runuser -u postgres -- pg_dump -p "$1" --data-only --inserts service | grep "$id" | sort; }
rows 5432 >/tmp/before
target=$(query "SELECT date_trunc('second', clock_timestamp()) + interval '1 second'")
sleep 2
task-service workspace delete --yes umbrella
rows 5432 >/tmp/deleted || true
"""
# DAMAGE replaces the line EARLIER: before the block that restores the whole server, a table is
# dropped. It also writes the rows that the server has at the target time.
EARLIER = "target='2026-11-22 14:05:11+00'\n"
DAMAGE = """
task-service workspace create Late --slug late
runuser -u postgres -- pg_dump --inserts -t workspaces -t tasks service | grep INSERT >/tmp/whole
target=$(query "SELECT date_trunc('second', clock_timestamp()) + interval '1 second'")
sleep 2
query 'DROP TABLE tasks CASCADE'
task-service workspace create Later --slug later
"""
# NEW_SERVER comes before the block that restores to a new server: it takes away what a new server,
# on which the program is installed, does not have.
TO_A_NEW_SERVER = "(set -eo pipefail\ngrep -v 'ROLE postgres' /var/backups/task-service/globals.sql"
NEW_SERVER = """
systemctl stop task-service-web.socket task-service-web task-service-worker
systemctl disable -q task-service-web.socket task-service-web task-service-worker
runuser -u postgres -- psql -q -c 'DROP DATABASE service' -c 'DROP ROLE service' -c 'DROP ROLE app'
chown root: /etc/task-service/env
deluser --quiet task-service
rm -r /etc/nginx/task-service /etc/nginx/service.* /etc/nginx/conf.d/*
rm -r /etc/systemd/system/task-service* /usr/local/sbin/task-service*
systemctl daemon-reload
systemctl restart nginx
"""
TAKE_BACK = "TASK_SERVICE_ENV=/etc/task-service/copy task-service workspace export "
# The rights and settings of the database itself, which are no part of its contents.
OF_THE_DATABASE = """
runuser -u postgres -- psql -q service \\
    -c 'CREATE ROLE app' -c 'GRANT CONNECT ON DATABASE service TO app' \\
    -c "ALTER DATABASE service SET work_mem = '5MB'" \\
    -c "ALTER ROLE app IN DATABASE service SET work_mem = '6MB'"
"""
SHOW_THEM = """
runuser -u postgres -- psql -XAtq service \\
    -c "SELECT grantee::regrole::text FROM pg_database, aclexplode(datacl)
         WHERE datname = 'service' AND privilege_type = 'CONNECT' ORDER BY 1" \\
    -c "SELECT setrole::regrole, setconfig
          FROM pg_db_role_setting JOIN pg_database ON setdatabase = pg_database.oid
         WHERE datname = 'service' ORDER BY setconfig"
"""
# Sends requests one after the other, each on a new connection, until the file `enough` exists.
REQUESTS = """
import collections, pathlib, urllib.request
statuses = collections.Counter()
while not pathlib.Path("/tmp/enough").exists() or not statuses:
    try:
        with urllib.request.urlopen("http://127.0.0.1:8000/healthz", timeout=40) as response:
            statuses[response.status] += 1
    except OSError as error:
        statuses[repr(error)] += 1
print(dict(statuses))
"""


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: f"debian_{release.number}")
def debian(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("debian")
    supply(request.param, folder)
    with booted(request.param, folder) as debian:
        yield debian


@pytest.fixture(scope="module")
def deployed(debian):
    """Run all blocks of deployment.md; the machine's ``output`` is what they printed."""
    debian.output = debian.run("".join(blocks("docs/operations/deployment.md")))
    return debian


def processes(debian, unit):
    """Return the main process of a unit, and the command lines of all processes of Python."""
    return debian.run(f"systemctl show --value -p MainPID {unit}; pgrep -fa bin/python")


def send(debian, path, *options):
    """Send a request through nginx; return the status, the headers and the JSON of the response."""
    quoted = " ".join(f"'{option}'" for option in options)
    head, _, body = debian.run(f"{CURL}{path} -i {quoted}").partition("\n\n")
    status, *lines = head.splitlines()
    headers = dict(re.split(": *", line.lower(), maxsplit=1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body)


def test_the_deployment_page_turns_a_bare_debian_into_a_service_that_answers_over_tls(deployed):
    assert deployed.output.count(HEALTHY) == 4
    assert deployed.output.count('"email":"rosa@example.com"') == 2
    assert "Checksums enabled in cluster" in deployed.output


def test_the_deployment_page_names_the_versions_that_this_debian_has(deployed):
    """The blocks of the page find the version themselves, so only the text has to be right."""
    release = deployed.release
    text = " ".join(read("docs/operations/deployment.md").split())
    nginx = deployed.run("nginx -v 2>&1").strip().rpartition("/")[2].rpartition(".")[0]
    named = f"Debian {release.number} (PostgreSQL {release.postgres}, nginx {nginx}, Python"
    assert f"{named} {release.python})" in text
    assert deployed.run("pg_lsclusters -h | cut -d ' ' -f 1") == f"{release.postgres}\n"


def test_nginx_accepts_the_installed_files_without_a_warning(deployed):
    assert deployed.run("nginx -q -t 2>&1") == ""


def test_after_an_upgrade_of_debian_one_command_moves_the_site_to_the_new_directive(deployed):
    """The nginx of Debian 13 then reads the files that `install` wrote on Debian 12."""
    if deployed.release.codename == "bookworm":
        pytest.skip("the nginx of Debian 12 knows only the old parameter")
    (command,) = re.findall(r"`(sed -i [^`]+ http2[^`]+)`", read("docs/operations/deployment.md"))
    files = "/etc/nginx/task-service/server.conf /etc/nginx/conf.d/other-names.conf"
    deployed.run(f"sed -i 's/^http2 on;/# On nginx 1.25.1 x/; s/ ssl\\b/ ssl http2/' {files}")
    assert "deprecated" in deployed.run("nginx -q -t 2>&1")
    deployed.run(" ".join(command.split()))
    assert deployed.run("nginx -q -t 2>&1") == ""
    deployed.run("systemctl reload nginx")
    asked = f"{CURL}/healthz -o /dev/null -w '%{{http_version}}'"
    assert deployed.run(asked) == "2"


def test_other_machines_can_reach_only_port_443(deployed):
    listening = deployed.run("ss -Hltn").splitlines()
    addresses = [line.split()[3] for line in listening]
    outside = [address for address in addresses if not address.startswith(("127.0.0.1:", "[::1]:"))]
    assert sorted(outside) == ["0.0.0.0:443", "[::]:443"]


INSTALL = "sh /opt/task-service/current/lib/python3.*/site-packages/service/deploy/install"


def test_nginx_speaks_http_2_hides_its_version_and_refuses_other_host_names(deployed):
    asked = deployed.run(f"{CURL}/healthz -o /dev/null -D - -w '%{{http_version}}\n'").splitlines()
    assert "server: nginx" in asked
    named = deployed.run("openssl x509 -noout -ext subjectAltName -in /etc/nginx/service.crt")
    assert "DNS:api.example.com" in named
    assert asked[-1] == "2"
    other = f"{CURL} -k".replace("api.example.com", "other.example.com")
    assert "unrecognized name" in deployed.run(f"{other} 2>&1 || true")
    refused = f"{CURL} --http1.1 -H 'Host: x.example.com' -o /dev/null -w '%{{http_code}}'"
    assert deployed.run(f"{refused} 2>/dev/null || true") == "000"


def test_a_second_installation_changes_nothing_and_reloads_nginx_only_if_a_file_differs(deployed):
    seen = "sha256sum /etc/task-service/env /etc/nginx/{*/*,*.crt}; pgrep -P $(pgrep -o nginx)"
    before = deployed.run(seen)
    printed = deployed.run(f"{INSTALL} --first api.example.com; {INSTALL}")
    assert printed.splitlines()[:2] == [
        "/etc/task-service/env stays as it is",
        "/etc/nginx/task-service stays as it is",
    ]
    assert deployed.run(seen) == before
    # After an installation that was interrupted before the folder was complete, another one writes
    # the folder again and changes nothing else.
    log = "/var/log/nginx/task-service.log"
    deployed.run(f"echo kept >>{log}")
    again = f"rm -r /etc/nginx/task-service; {INSTALL} --first api.example.com; grep kept {log}"
    assert "kept" in deployed.run(again)
    files = [line for line in before.splitlines() if "/" in line]
    before = deployed.run(seen)
    assert [line for line in before.splitlines() if "/" in line] == files
    file = "/etc/nginx/conf.d/task-service.conf"
    deployed.run(
        f"cp -p {file} /tmp/site; echo '# older' >>{file}; {INSTALL}; cmp {file} /tmp/site"
    )
    wait_until(lambda: deployed.run(seen) != before)


# Makes the machine one with nginx but without the files of `install`. The site of somebody else
# answers requests for all names.
SOMEBODY = """
systemctl stop nginx
cp -a /etc/nginx /tmp/nginx
rm -r /etc/nginx/task-service /etc/nginx/conf.d/*
cat >/etc/nginx/sites-enabled/somebody <<NGINX
server {{
    {listen}
    server_name somebody.example.com;
    ssl_certificate /etc/nginx/service.crt;
    ssl_certificate_key /etc/nginx/service.key;
    return 200 somebody;
}}
NGINX
{also}
systemctl start nginx
"""
# Prints the checksums of all files of nginx, and the answers to a client that knows no host name.
SEEN = """
find /etc/nginx -type f -exec sha256sum {} + | sort
for host in 127.0.0.1 '[::1]'; do curl -skm 5 https://$host/ || echo nobody; done
nginx -q -t
"""
AS_IT_WAS = (
    "systemctl stop nginx; rm -r /etc/nginx; mv /tmp/nginx /etc/nginx; systemctl start nginx"
)
BOTH = "listen 443 ssl{0}; listen [::]:443 ssl{0};"


@pytest.fixture
def somebody(deployed):
    def start(listen, also=":"):
        deployed.run(SOMEBODY.format(listen=listen, also=also))
        return deployed.run(SEEN)

    yield start
    deployed.run(AS_IT_WAS)


@pytest.mark.parametrize(
    "listen",
    [
        BOTH.format(" default_server"),
        BOTH.format("\tdefault_server").replace("listen ", "listen\t"),
        BOTH.format(" default"),
        BOTH.format("\n        default_server"),
        'listen "*:443" ssl default_server; listen [::]:443 default_server ssl;',
        "listen [::]:443 ssl default_server ipv6only=off;",
    ],
    ids=["plain", "tabs", "old_parameter", "two_lines", "quoted", "one_socket_for_both"],
)
def test_an_installation_keeps_the_default_server_of_another_site(deployed, somebody, listen):
    before = somebody(listen).splitlines()
    deployed.run(f"{INSTALL} --first api.example.com")
    after = deployed.run(SEEN).splitlines()
    assert before[-1] == after[-1] == "somebodysomebody"
    assert "other-names.conf" not in "".join(after)
    # nginx must be able to start, not only to reload: it has to bind all its addresses again.
    deployed.run("systemctl restart nginx")
    assert deployed.run(SEEN).splitlines() == after
    assert deployed.run(f"{CURL}/healthz") == HEALTHY


@pytest.mark.parametrize(
    ("listen", "also", "message"),
    [
        (BOTH.format(""), ":", "write default_server into the line 'listen 443 ssl' of the site"),
        (
            "listen 443 ssl default_server; listen [::]:443 ssl;",
            ":",
            "write default_server into the line 'listen [::]:443 ssl' of the site",
        ),
        (
            BOTH.format(" default_server"),
            "echo 'upstream service { server 127.0.0.1:9; }' >/etc/nginx/conf.d/zzz.conf",
            "nginx rejects",
        ),
        (
            "listen 80;",
            "echo 'upstream service { server 127.0.0.1:9; }' >/etc/nginx/conf.d/zzz.conf",
            "nginx rejects",
        ),
    ],
    ids=[
        "no_default_server",
        "no_default_server_for_ipv6",
        "rejected_by_nginx",
        "rejected_by_nginx_without_another_site",
    ],
)
def test_an_installation_that_nginx_would_reject_leaves_all_files_of_nginx_unchanged(
    deployed, somebody, listen, also, message
):
    before = somebody(listen, also)
    printed = deployed.run(f"{INSTALL} --first api.example.com 2>&1 || echo status $?")
    assert printed.endswith("status 1\n")
    assert "\nError: " in f"\n{printed}"
    assert message in printed
    assert deployed.run(SEEN) == before


def test_an_installation_fails_if_the_configuration_of_nginx_was_invalid_before(deployed, somebody):
    somebody("listen 80;")
    deployed.run("echo 'nonsense;' >/etc/nginx/conf.d/broken.conf")
    printed = deployed.run(f"{INSTALL} --first api.example.com 2>&1 || echo status $?")
    assert "Error: nginx rejects the configuration of this machine" in printed
    assert deployed.run("ls /etc/nginx/conf.d") == "broken.conf\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"{INSTALL} --frist x", "usage: install [--first NAME], where NAME is the host name"),
        (f"{INSTALL} --first a/b", "'a/b' is not a host name; write one like api.example.com"),
        (f"{INSTALL} --first ''", "'' is not a host name"),
        (f"runuser -u nobody -- {INSTALL}", "only root can install"),
        (
            f"mv /etc/task-service/env /tmp/away; {INSTALL} --first api.example.com || code=$?\n"
            "mv /tmp/away /etc/task-service/env; exit $code",
            "PostgreSQL already has a role or a database 'service'",
        ),
        (
            "echo 'listen nowhere;' >>/etc/nginx/task-service/server.conf\n"
            "echo '# older' >>/etc/nginx/conf.d/task-service.conf\n"
            f"{INSTALL} || code=$?; sed -i '$d' /etc/nginx/task-service/server.conf\n"
            f"tail -1 /etc/nginx/conf.d/task-service.conf | grep older; {INSTALL}; exit $code",
            "nginx rejects",
        ),
    ],
    ids=[
        "unknown_option",
        "invalid_name",
        "empty_name",
        "not_root",
        "database_exists",
        "invalid_server_conf",
    ],
)
def test_an_installation_that_cannot_succeed_prints_one_sentence(deployed, script, message):
    output = deployed.run(f"( {script}\n) 2>/tmp/errors || echo status $?; cat /tmp/errors")
    assert "status 1\n" in output
    assert f"\nError: {message}" in output


WRAPPED = "task-service user list"


@pytest.mark.parametrize(
    "folder", ["~root", "~root/source"], ids=["closed", "below_a_closed_folder"]
)
def test_a_command_runs_in_a_folder_that_only_root_may_enter(deployed, folder):
    """A clone that root made has mode 755, so only the folder above it is closed."""
    deployed.run("chmod 700 ~root; install -d -m 755 ~root/source")
    assert "rosa@example.com" in deployed.run(f"cd {folder}; {WRAPPED}")
    deployed.run(
        f"cd {folder}; PORT=8005 task-service web >/tmp/web.log 2>&1 &\n"
        "curl -sSf --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8005/healthz\n"
        "kill $!; wait $!"
    )


def test_a_command_resolves_a_relative_path_from_the_folder_in_which_root_runs_it(deployed):
    deployed.run(
        "install -d -m 755 /tmp/readable; cd /tmp/readable\n"
        """echo '{"type": "workspace", "name": "Empty", "slug": "empty"}' >lines\n"""
        "task-service load lines"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("s|:[^:@]*@|:wrong@|", 'password authentication failed for user "service"'),
        ("s|/service'|/absent'|", 'database "absent" does not exist'),
        ("s|:5432|:5433|", "Connection refused"),
    ],
)
@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_commands_say_what_is_wrong_with_the_database_with_and_without_tls(
    deployed, change, message, mode
):
    """libpq looks for a client certificate below HOME, which must not be the home of root."""
    deployed.run(
        "mkdir -p ~root/.postgresql\n"
        "touch ~root/.postgresql/postgresql.crt ~root/.postgresql/postgresql.key\n"
        f'sed "{change}" /etc/task-service/env >/tmp/changed\n'
        "chgrp task-service /tmp/changed; chmod 640 /tmp/changed"
    )
    printed = deployed.run(
        f"cd ~root; TASK_SERVICE_ENV=/tmp/changed PGSSLMODE={mode} {WRAPPED} 2>&1 || echo status $?"
    )
    *_, error, status = printed.splitlines()
    assert message in error
    assert "certificate" not in printed
    assert status == "status 1"


def test_commands_can_connect_to_the_database_over_tls(deployed):
    assert "rosa@example.com" in deployed.run(f"PGSSLMODE=require {WRAPPED}")


def test_a_command_names_a_missing_file_of_settings(deployed):
    printed = deployed.run(f"TASK_SERVICE_ENV=/etc/absent {WRAPPED} 2>&1 || echo status $?")
    assert printed.splitlines() == [
        "Error: cannot read the settings in /etc/absent; TASK_SERVICE_ENV names another file",
        "status 1",
    ]


def test_the_source_distribution_has_every_page_that_the_readme_names(deployed):
    listed = deployed.run("tar -tzf dist/*.tar.gz").splitlines()
    named = re.findall(r"`((?:docs/)?[A-Za-z/-]+\.md)`", PROJECT.joinpath("README.md").read_text())
    existing = {name for name in named if PROJECT.joinpath(name).exists()}
    assert existing - {name.partition("/")[2] for name in listed} == set()


def test_systemd_accepts_the_units_and_rates_their_exposure_as_the_page_says(deployed):
    units = "task-service-web.service task-service-worker.service"
    assert deployed.run(f"systemd-analyze verify {units} task-service-web.socket 2>&1") == ""
    rated = deployed.run(f"systemd-analyze security --no-pager {units}")
    assert re.findall(r"Overall exposure level for \S+ ([0-9.]+)", rated) == ["1.1", "1.1"]


def test_a_drop_in_of_the_operator_overrides_the_unit(deployed):
    """``systemctl edit`` writes it under this name."""
    folder = "/etc/systemd/system/task-service-web.service.d"
    deployed.run(f"mkdir {folder}; printf '[Service]\\nTasksMax=99' >{folder}/override.conf")
    for unit, tasks in (("web", "99"), ("worker", "512")):
        show = f"systemctl daemon-reload; systemctl show --value -p TasksMax task-service-{unit}"
        assert deployed.run(show).strip() == tasks
    deployed.run(f"rm -r {folder}; systemctl daemon-reload")


def test_web_and_worker_run_without_a_capability_as_a_user_that_owns_no_file(deployed):
    for unit in ("task-service-web", "task-service-worker"):
        pid = deployed.run(f"systemctl show --value -p MainPID {unit}").strip()
        status = deployed.run(f"cat /proc/{pid}/status")
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        assert deployed.run(f"systemctl show --value -p LimitCORE {unit}").strip() == "0"
        assert deployed.run(f"ps -o user:20= -p {pid}").strip() == "task-service"
    assert deployed.run("find /etc /opt /tmp /var -user task-service") == ""


FILES = {"ENV": "/etc/task-service/env", "PROGRAM": "/opt/task-service/1.3.0/bin/task-service"}


@pytest.mark.parametrize(
    ("broken", "logged"),
    [
        ("sed -i \"s/WEB_THREADS='4'/WEB_THREADS='four'/\" $ENV", "WEB_THREADS='four': must be"),
        ("openssl rand 3000 >$ENV", "DATABASE_URL is not set"),
        ("rm $ENV", "DATABASE_URL is not set"),
        ("chmod 0 $PROGRAM", "control process exited with error code"),
    ],
)
def test_after_a_failed_restart_requests_get_502_until_the_cause_is_removed(
    deployed, broken, logged
):
    names = "; ".join(f"{name}={path}" for name, path in FILES.items())
    output = deployed.run(
        f"{names}; cp -p $ENV /tmp/env; cp -p $PROGRAM /tmp/program; {broken}\n"
        "systemctl restart task-service-web 2>&1 && echo restarted || echo failed\n"
        "journalctl --sync; journalctl -q -o cat -u task-service-web -n 20\n"
    )
    assert "failed\n" in output
    assert logged in output
    for _ in range(3):
        status, _, _ = send(deployed, "/healthz", "-m", "5")
        assert status == 502
    deployed.run(
        f"{names}; cp -p /tmp/env $ENV; cp -p /tmp/program $PROGRAM\n"
        "systemctl restart task-service-web\n"
        "systemctl is-active task-service-web.socket\n"
    )
    assert send(deployed, "/healthz")[0] == 200


SETTINGS = r"""# A='comment'
; B=comment
C='it''s' "two \"words\" \$(id)"
 D = plain \'x\' $(touch /tmp/executed) `id`
E=
export F=1
G="a\
b"c
H='a
b'
I=a#b;c
"""


def test_commands_read_the_settings_as_systemd_does_and_execute_nothing_in_them(deployed):
    deployed.share.joinpath("settings").write_text(SETTINGS)
    deployed.run(
        "install -d -m 755 /tmp/fake/bin; chmod 755 /tmp/fake\n"
        "printf '#!/bin/sh\\nexec env\\n' >/tmp/fake/bin/task-service\n"
        "chmod 755 /tmp/fake/bin/task-service"
    )
    for_units, for_commands = (
        set(re.findall(r"(?m)^[A-I]=.*", deployed.run(command)))
        for command in (
            "systemd-run -q --pipe --wait -p EnvironmentFile=/mnt/settings env",
            "TASK_SERVICE_ENV=/mnt/settings TASK_SERVICE_RELEASE=../../tmp/fake task-service",
        )
    )
    assert for_commands == for_units
    assert len(for_units) == 6
    assert deployed.run("ls /tmp/executed 2>/dev/null || true") == ""


def test_commands_refuse_a_comment_that_each_systemd_reads_in_its_own_way(deployed):
    """For systemd 252 the comment continues on the next line, for 257 that line is a setting."""
    deployed.share.joinpath("settings").write_text("# the database \\\nDATABASE_URL=x\n")
    refused = "TASK_SERVICE_ENV=/mnt/settings task-service status 2>&1 || true"
    assert deployed.run(refused) == (
        "Error: /mnt/settings has a comment that ends with a backslash, which not every"
        " version of systemd reads in the same way; remove the backslash\n"
    )


def test_all_requests_succeed_while_web_restarts(deployed):
    deployed.run("rm -f /tmp/enough")
    output = deployed.run(
        # If a command fails, the requests end, too: later tests stop the service.
        "trap 'touch /tmp/enough' EXIT\n"
        f"python3 -c '{REQUESTS}' >/tmp/statuses &\n"
        "for number in 1 2 3; do\n"
        # gunicorn waits 30 s for a connection that does not end.
        "    timeout 29 systemctl restart task-service-web task-service-worker\n"
        "    systemctl reload task-service-web\n"
        "    curl -sSf http://127.0.0.1:8000/healthz\n"
        "done\n"
        "touch /tmp/enough\n"
        "wait\n"
        "cat /tmp/statuses"
    )
    assert re.fullmatch(r"\{200: [0-9]+\}", output.replace(HEALTHY, "").strip())


def test_a_changed_setting_takes_effect_after_a_restart_and_not_after_a_reload(deployed):
    count = "pgrep -c -P $(systemctl show --value -p MainPID task-service-web)"
    deployed.run("sed -i \"s/WEB_CONCURRENCY='2'/WEB_CONCURRENCY='3'/\" /etc/task-service/env")
    deployed.run("systemctl reload task-service-web; curl -sSf http://127.0.0.1:8000/healthz")
    wait_until(lambda: deployed.run(count).strip() == "2")
    deployed.run("systemctl restart task-service-web")
    wait_until(lambda: deployed.run(count).strip() == "3")
    deployed.run("sed -i \"s/WEB_CONCURRENCY='3'/WEB_CONCURRENCY='2'/\" /etc/task-service/env")
    deployed.run("systemctl restart task-service-web")


def test_changed_code_takes_effect_after_a_reload(deployed):
    deployed.run(
        "sed -i 's/This path does not exist/Nothing is here/'"
        " /opt/task-service/1.3.0/lib/python3.*/site-packages/service/web/messages.toml\n"
        "systemctl reload task-service-web"
    )
    token = "$(task-service token create rosa@example.com)"
    command = f'curl -sS -H "Authorization: Bearer {token}" http://127.0.0.1:8000/api/nothing'
    wait_until(lambda: '"Nothing is here"' in deployed.run(command))


@pytest.fixture(scope="module")
def operated(deployed):
    """Run all blocks of running.md on the machine, with a release 1.3.1 to upgrade to.

    Before the blocks, the test inserts a webhook, because some blocks rotate the secrets of all
    webhooks. The two releases have different systemd units.
    """
    deployed.key = deployed.run(KEY)
    deployed.password = deployed.run(PASSWORD)
    deployed.webhook = deployed.run(SUBSCRIBE).strip()
    deployed.run(
        f"task-service webhook disable {deployed.webhook}\n"
        "sed -i 's/^version = 1.3.0$/version = 1.3.1/' setup.cfg\n"
        "echo '# 1.3.1' >>docs/deploy/task-service-web.service\n"
        "build-venv/bin/python -m build --wheel --outdir dist"
    )
    deployed.run(OF_THE_DATABASE)
    deployed.database = deployed.run(SHOW_THEM)
    steps = blocks("docs/operations/running.md")
    # After the way back from a new major version of PostgreSQL, the two blocks of the way there
    # run again.
    (back,) = [number for number, block in enumerate(steps) if "pg_dropcluster --stop" in block]
    steps[back + 1 : back + 1] = steps[back - 2 : back]
    script = "".join(steps)
    replacements = (
        (TO_A_NEW_SERVER, f"{NEW_SERVER}{TO_A_NEW_SERVER}"),
        (TARGET, MISTAKE),
        (TAKE_BACK, f"rows 5433 >/tmp/copy\n{TAKE_BACK}"),
        (EARLIER, DAMAGE),
    )
    for text, before in replacements:
        assert script.count(text) == 1
        script = script.replace(text, before)
    deployed.output = deployed.run(script)
    return deployed


def test_the_operations_page_backs_up_restores_upgrades_and_rolls_back(operated):
    assert operated.output.count(HEALTHY) == 10
    assert "/opt/task-service/1.3.0/" in processes(operated, "task-service-web")
    assert DIFFERENT not in operated.output


def test_each_restored_database_has_the_rights_and_settings_of_the_earlier_one(operated):
    """The blocks restore to a new server, into a second database and into a new version."""
    assert operated.database.split() == [
        "app", "service", "-|{work_mem=5MB}", "app|{work_mem=6MB}",
    ]  # fmt: skip
    assert operated.run(SHOW_THEM) == operated.database


def test_the_remedy_that_the_command_check_prints_replaces_files_of_another_release(operated):
    units = "web.service", "web.socket", "worker.service"
    names = [*(f"task-service-{unit}" for unit in units), "task-service.slice"]
    for place in (*PLACES.values(), *(UNITS / name for name in names)):
        line = operated.run(f"echo '#' >>{place}; task-service check").splitlines()[1]
        assert f"warning {place}{DIFFERENT}" in line
        operated.run(line.partition("as root run ")[2])
        assert DIFFERENT not in operated.run("task-service check")


def test_after_the_last_block_the_service_uses_the_new_password_of_the_database(operated):
    assert operated.run(PASSWORD) != operated.password
    connect = "psql -XAt -h 127.0.0.1 -U service service -c 'SELECT 1'"
    assert operated.run(f"PGPASSWORD=$({PASSWORD}) {connect}") == "1\n"
    old = operated.run(f"PGPASSWORD={operated.password.strip()} {connect} 2>&1 || true")
    assert 'password authentication failed for user "service"' in old


def test_the_block_for_an_export_writes_a_file_that_load_can_read(operated):
    second = operated.run("sed -n 2p umbrella.jsonl")
    assert json.loads(second)["slug"] == "umbrella"


def test_a_stopped_service_stays_stopped_when_a_client_connects_and_nginx_logs_why(operated):
    """While the socket unit runs, a client would start the service again.

    docs/operations/running.md quotes the message in the log.
    """
    operated.run("systemctl stop task-service-web.socket task-service-web")
    # Each attempt to start the service starts the socket. By default, systemd allows five starts
    # of it in 10 s, and the unit has to allow more.
    unit = "task-service-web.socket"
    operated.run(f"for n in 1 2 3 4 5 6; do systemctl start {unit}; systemctl stop {unit}; done")
    assert send(operated, "/healthz")[0] == 502
    logged = operated.run("tail -1 /var/log/nginx/error.log")
    assert "connect() failed (111: Connection refused) while connecting to upstream" in logged
    active = "systemctl is-active task-service-web || true"
    assert operated.run(active) == "inactive\n"
    operated.run("systemctl start task-service-web.socket task-service-web")
    operated.run("curl -sSf http://127.0.0.1:8000/healthz")


def test_a_workspace_deleted_by_mistake_is_restored_to_the_second_before(operated):
    before = operated.run("cat /tmp/before")
    assert before.count("Test the parachute") >= 20
    assert operated.run("cat /tmp/deleted") == ""
    assert operated.run("cat /tmp/copy") == before
    id = operated.run(
        "runuser -u postgres -- psql -XAtqc \"SELECT id FROM workspaces WHERE slug = 'umbrella'\""
        " service"
    ).strip()
    tables = r"INSERT INTO public\.(workspaces|members|tasks) .*"
    returned = operated.run(
        f"runuser -u postgres -- pg_dump --data-only --inserts service | grep {id} | sort"
    )
    assert [one[0] for one in re.finditer(tables, returned)] == [
        one[0] for one in re.finditer(tables, before)
    ]


def test_the_whole_server_is_restored_to_the_second_before_the_damage(operated):
    dump = "runuser -u postgres -- pg_dump --inserts -t workspaces -t tasks service | grep INSERT"
    whole = operated.run("cat /tmp/whole")
    assert operated.run(dump) == whole
    assert "'late'" in whole


def test_status_reports_an_archive_that_fails_until_it_works_again(operated):
    fails = "task_service_archive_fails 1\n"
    status = "task-service status --metrics"
    # Each new file wakes PostgreSQL's archiver.
    switch = (
        "runuser -u postgres -- psql -XAtq"
        " -c \"SELECT pg_create_restore_point('new')\" -c 'SELECT pg_switch_wal()'"
    )
    assert fails not in operated.run(status)
    operated.run(f"mv /srv/pgbackrest /srv/away\n{switch}")
    try:
        wait_until(lambda: fails in operated.run(status))
        page = operated.run("task-service status", check=False)
    finally:
        operated.run(f"mv /srv/away /srv/pgbackrest\n{switch}")
    assert re.search(
        r"(?m)^PROBLEM       PostgreSQL cannot archive the WAL file [0-9A-F]{24}:", page
    )
    wait_until(lambda: fails not in operated.run(status))


def test_status_reports_no_problem_and_its_metrics_are_written_to_a_file(operated):
    release = re.escape(version())
    assert re.search(rf"(?m)^version       {release}$", operated.output)
    assert re.search(rf"(?m)^worker        \S+:[0-9]+ version {release} since ", operated.output)
    assert "PROBLEM" not in operated.output
    metrics = operated.run("cat /var/lib/prometheus/node-exporter/task-service.prom")
    assert {"task_service_up 1", "task_service_problems 0"} <= set(metrics.splitlines())


def test_each_line_for_cron_works_with_the_environment_of_cron(operated):
    lines = operated.run("cat /etc/cron.d/task-service").splitlines()
    assert len(lines) == 4
    operated.run("rm /var/lib/prometheus/node-exporter/task-service.prom")
    for line in lines:
        user, command = re.fullmatch(r"(?:\S+ ){5}(\w+) (.*)", line).groups()
        operated.run(f"cd /; runuser -u {user} -- env -i PATH=/usr/bin:/bin sh -c '{command}'")
    operated.run("test -s /var/lib/prometheus/node-exporter/task-service.prom")


def test_the_blocks_that_change_the_webhook_key_leave_only_the_new_key_and_print_the_secrets(
    operated,
):
    key = operated.run(KEY)
    assert re.fullmatch("'[0-9a-f]{64}'\n", key)
    assert key != operated.key
    rotated = re.findall(r"umbrella (\S+) (whsec_\S+)\n", operated.output)
    secret = derive_secret(key.strip().strip("'"), operated.webhook, 2)
    assert rotated == [(operated.webhook, secret)]


def test_a_copy_without_webhook_key_posts_nothing(operated):
    operated.run(
        "systemctl stop task-service-worker\n"
        f"grep -v WEBHOOK_KEY /etc/task-service/env >/etc/task-service/copy\n"
        f"task-service webhook rotate $({SUBSCRIBE})"
    )
    attempts = []
    for settings in ("copy", "env"):
        output = operated.run(
            f"export TASK_SERVICE_ENV=/etc/task-service/{settings} PORT=8003\n"
            "task-service web >/tmp/web.log 2>&1 &\n"
            "token=$(task-service token create rosa@example.com)\n"
            "curl -sSf --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null"
            ' -H "Content-Type: application/json"'
            f' -H "Authorization: Bearer $token" -d \'{{"title": "{settings}"}}\''
            " http://127.0.0.1:8003/api/tasks\n"
            "kill $!; wait $!\n"
            "runuser -u postgres -- psql -XAt service -c 'SELECT count(*) FROM attempts'"
        )
        attempts.append(output.split()[-1])
    assert attempts == ["0", "1"]
