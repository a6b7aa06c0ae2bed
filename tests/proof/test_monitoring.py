"""The rules for Prometheus and the metric queries of the dashboard, checked with promtool."""

import json
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner
from support.database import open_pool
from support.project import PROJECT, environment, read, replaced

from service.__main__ import main

pytestmark = [pytest.mark.proof, pytest.mark.needs("promtool")]
RULES, PAGE = "docs/deploy/prometheus-rules.yml", "docs/operations/running.md"
(GROUP,) = yaml.safe_load(read(RULES))["groups"]
ALERTS = {rule["alert"]: rule for rule in GROUP["rules"] if "alert" in rule}
FAILED = 'requests_total{route="/api/tasks",status="500"}'
BUSY = 'requests_total{route="/api/tasks",status="503"}'
DUMP = 'backup_timestamp_seconds{kind="pg_dump"}'
# By alert: the figures with which it fires. All other figures are those of a healthy service. A
# text is a series in promtool's notation: -1+2x70 stands for -1, 1, 3 and so on, _ for no value.
FIRING = {
    "ServiceIsDown": {"healthz_status": 0},
    "DatabaseDoesNotAnswer": {"up": 0, "healthz_status": 503},
    "NothingIsReported": {"up": "_x70"},
    "ServerErrors": {FAILED: "1x70"},
    "ClientsGetNoAnswer": {"public_healthz_status": 502},
    "RequestsFail": {"unanswered_total": "0+1x70"},
    "BackupIsOld": {DUMP: -26 * 3600 - 1},
    "DatabaseIsCorrupted": {"database_corrupted": 1},
    "CertificateExpires": {"certificate_expires_timestamp_seconds": 14 * 86400 - 1},
    "CertificateHasExpired": {"certificate_expires_timestamp_seconds": -1},
    "KeyIsMissing": {"webhooks_without_key": 1},
    "StandbyIsLost": {"standbys": "2 1x70"},
    "AnythingIsWrong": {"problems": 1},
    "FiguresAreOld": {'node_textfile_mtime_seconds{file="/x/task-service.prom"}': -301},
    "SchemaIsOlderThanTheCode": {"migrations_pending": 1},
    "SchemaWasChanged": {"objects_unusable": 1},
    "DatabaseTakesNoWrites": {"database_disk_full": 1},
    "NoWebProcess": {"web_processes": 0},
    "NoWorker": {"workers": 0},
    "ProcessIsSilent": {"processes_silent": 1},
    "EventsAreLate": {"deliveries_overdue": 1},
    "ReceiversFail": {"webhooks_failing": 1},
    "ConnectionsRunOut": {"connections_used": 81, "connections_allowed": 100},
    "SessionBlocksOthers": {"longest_wait_for_lock_seconds": 1},
    "WritesWaitForAStandby": {"longest_wait_for_syncrep_seconds": 5.1},
    "StandbyIsMissing": {"standbys_needed": 1},
    "TwoServersAcceptWrites": {"servers_primary": 2},
    "ServerIsSilent": {"servers_silent": 1},
    "StandbyIsBehind": {"standby_behind_bytes": 100_000_001},
    "ArchiveFails": {"archive_fails": 1},
    "TransactionDoesNotEnd": {"oldest_transaction_seconds": 301},
    "PruningHasStopped": {"oldest_idempotency_key_seconds": 90_001},
    "ClocksDiffer": {"clock_ahead_seconds": -5.1},
}


@pytest.fixture
def metrics(build, database_url):
    """Return the metrics that ``status`` prints about a service whose processes have ended."""
    pool = open_pool(build())
    pool.counters.requests.append(("GET", "/api/tasks", 200, 0.02, 0.01))
    with pool.connection() as connection:
        pool.counters.save(connection)
    ran = CliRunner().invoke(main, ["status", "--metrics"], env={"DATABASE_URL": database_url})
    assert ran.exit_code == 0
    return ran.stdout


def promtool(*arguments, text=None):
    ran = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_accepts_the_metrics(metrics):
    promtool("check", "metrics", text=metrics)


def test_promtool_accepts_what_the_script_writes(metrics, database_url, tmp_path):
    """The addresses are those of this machine, where nothing answers."""
    server, dump = tmp_path / "server.conf", tmp_path / "service.dump"
    server.write_text("server_name api.example.com;\n")
    dump.write_text("")
    command = f"{sys.executable} -m service"
    script = replaced(
        read("docs/deploy/task-service-metrics"),
        ("PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/bin\n", ""),
        ("/var/lib/prometheus/node-exporter", str(tmp_path)),
        ("/etc/nginx/task-service/server.conf", str(server)),
        ("/var/backups/task-service/service.dump", str(dump)),
        ("/var/log/nginx/task-service-unanswered.log", "/dev/null"),
        ("cd /\n", f"cd {PROJECT}\n"),
        ("task-service status", f"{command} status"),
        (
            "systemctl show -p Listen task-service-web.socket",
            "echo 'Listen=127.0.0.1:1 (Stream)'",
        ),
        (":443:127.0.0.1:443", ":443:127.0.0.1:1"),
    )
    subprocess.run(["sh", "-c", script], env=environment(DATABASE_URL=database_url), check=True)
    written = tmp_path.joinpath("task-service.prom").read_text()
    for name in ("healthz_status", "public_healthz_status", "unanswered_total", "up"):
        assert f"\ntask_service_{name} " in written
    assert f"\ntask_service_{DUMP} " in written
    promtool("check", "metrics", text=written)


def test_promtool_accepts_the_rules_and_every_metric_query_of_the_dashboard(tmp_path):
    promtool("check", "rules", str(PROJECT / RULES))
    queries = [
        {"record": f"query:{number}", "expr": target["expr"]}
        for number, target in enumerate(
            target
            for panel in json.loads(read("docs/deploy/grafana.json"))["panels"]
            for target in panel["targets"]
            if panel["datasource"]["type"] == "prometheus"
        )
    ]
    assert queries
    tmp_path.joinpath("queries").write_text(
        json.dumps({"groups": [{"name": "queries", "rules": queries}]})
    )
    promtool("check", "rules", str(tmp_path / "queries"))


@pytest.fixture
def well(metrics):
    """Return the figures of a healthy service, including figures that the page's script adds."""
    figures = {
        line.split()[0].removeprefix("task_service_"): float(line.split()[1])
        for line in metrics.splitlines()
        if not line.startswith("#")
    }
    figures |= {"web_processes": 1, "workers": 1, "problems": 0, "unanswered_total": 0}
    figures |= {"healthz_status": 200, "public_healthz_status": 200, DUMP: 0}
    figures |= {"certificate_expires_timestamp_seconds": 15 * 86400}
    figures[next(iter(FIRING["FiguresAreOld"]))] = "0+60x70"
    return figures


def series(figures):
    return [
        {"series": name if name.startswith("node_") else f"task_service_{name}",
         "values": number if isinstance(number, str) else f"{number:.15g}x70"}
        for name, number in figures.items()
    ]  # fmt: skip


def check_rules(folder, *tests):
    file = folder / "tests"
    file.write_text(json.dumps({"rule_files": [str(PROJECT / RULES)], "tests": tests}))
    promtool("test", "rules", str(file))


@pytest.mark.parametrize(
    ("alert", "figures", "later"),
    [
        *((alert, FIRING.get(alert, {}), 0) for alert in ALERTS),
        # Here the number of errors grows again a long time after the first error.
        ("ServerErrors", {FAILED: "1+1x70"}, 20),
        ("RequestsFail", {BUSY: "1+1x70"}, 0),
        ("SessionBlocksOthers", {"longest_lock_seconds": 5.1}, 0),
        ("BackupIsOld", {DUMP: "_x70"}, 0),
        ("ClocksDiffer", {"clock_leapt_seconds": 3601}, 0),
    ],
)
def test_an_alert_fires_only_beyond_its_threshold(alert, figures, later, well, tmp_path):
    rule = ALERTS[alert]
    wait = rule.get("for", "0m")
    minutes = int(wait[:-1]) * (60 if wait[-1] == "h" else 1) + 1 + later
    # An error that happened long ago fires no alert.
    old = {FAILED: "1x70"} if later else {}
    tests = []
    for shown, fires in ((well | old, False), (well | figures, True)):
        labels = {"route": "/api/tasks", "status": "500"} if alert == "ServerErrors" else {}
        fired = {"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"]}
        tests.append({"interval": "1m", "input_series": series(shown), "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": [fired] if fires else []}
        ]})  # fmt: skip
    check_rules(tmp_path, *tests)


def fired(figures, expected, severity="page|ticket"):
    """Return a test of promtool that exactly these alerts have fired within an hour."""
    alerts = f'ALERTS{{alertstate="firing",severity=~"{severity}"}}'
    query = f"count by (alertname) (count_over_time({alerts}[60m]))"
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in expected]
    return {"interval": "1m", "input_series": series(figures), "promql_expr_test": [
        {"expr": query, "eval_time": "60m", "exp_samples": samples}
    ]}  # fmt: skip


def once(bad, good, samples=1):
    """Return a series that is bad for this many minutes from the tenth minute on, and else good."""
    return f"{good}x9 {bad}x{samples - 1} {good}x59"


# What the file of metrics shows during ordinary events. A restart or a rollback takes at most 8 s,
# an upgrade with its dump 45 s, and a failover 36 s (faults.md and the tests of deployment).
# The file is written once a minute.
ORDINARY = {
    "restart": {
        "web_processes": once(0, 1), "workers": once(0, 1), "healthz_status": once(0, 200),
        "public_healthz_status": once(0, 200), "problems": once(2, 0),
    },
    "upgrade": {
        "web_processes": once(0, 1), "workers": once(0, 1), "problems": once(4, 0),
        "healthz_status": once(503, 200), "public_healthz_status": once(503, 200),
        "migrations_pending": once(1, 0), "longest_wait_for_lock_seconds": once(2, 0),
        "longest_lock_seconds": once(43, 0), "oldest_transaction_seconds": once(43, 0),
        "unanswered_total": "0x9 3x59",
    },
    "failover": {
        "up": once(0, 1), "healthz_status": once(503, 200), "problems": once(5, 0, 2),
        "public_healthz_status": once(503, 200), "servers_silent": once(1, 0, 3),
        "standbys": once(0, 2, 2), "standbys_synchronous": once(0, 1, 2), "standbys_needed": 1,
        "longest_wait_for_syncrep_seconds": once(20, 0), "database_read_only": once(1, 0),
        "deliveries_overdue": once(5, 0, 2), "archive_fails": once(1, 0, 2),
        "standby_behind_bytes": once(200_000_000, 0, 2), BUSY: "_x9 7x9 42x59",
        "unanswered_total": "0x9 3x59",
    },
}  # fmt: skip


@pytest.mark.parametrize("event", ORDINARY)
def test_an_ordinary_restart_upgrade_rollback_or_failover_fires_no_alert(event, well, tmp_path):
    check_rules(tmp_path, fired(well | ORDINARY[event], []))


# By cause: the figures that last for an hour, and the alerts that fire: one that pages, or tickets.
CAUSES = {
    "PostgreSQL is down": (
        {"up": 0, "healthz_status": 503, "public_healthz_status": 503, "servers_silent": 1,
         "problems": 2, "web_processes": "_x70", "workers": "_x70", BUSY: "1+9x70"},
        {"DatabaseDoesNotAnswer"},
    ),
    "others take all connections while the service answers": (
        {"up": 0, "servers_silent": 1, "problems": 2}, {"AnythingIsWrong"},
    ),
    "nginx is down": ({"public_healthz_status": 0}, {"ClientsGetNoAnswer"}),
    "nginx passes requests to a wrong place": (
        {"public_healthz_status": 502, "unanswered_total": "0+30x70"}, {"ClientsGetNoAnswer"},
    ),
    "no web process is running": (
        {"web_processes": 0, "healthz_status": 0, "public_healthz_status": 502, "problems": 1,
         "unanswered_total": "0+30x70"},
        {"NoWebProcess"},
    ),
    "a frozen worker": (
        {"workers": 0, "processes_silent": 1, "deliveries_overdue": 3, "problems": 3}, {"NoWorker"},
    ),
    "a frozen web process": ({"processes_silent": 1, "problems": 1}, {"ProcessIsSilent"}),
    "the database is read-only": (
        {"database_read_only": 1, "healthz_status": 503, "public_healthz_status": 503,
         "problems": 1, "web_processes": "_x70", "workers": "_x70", BUSY: "1+9x70"},
        {"DatabaseTakesNoWrites"},
    ),
    "the disk of the database is full": (
        {"database_disk_full": 1, "problems": 1, BUSY: "1+9x70"}, {"DatabaseTakesNoWrites"},
    ),
    "the clock of the database on another host is ten days ahead": (
        {"clock_ahead_seconds": 864_000, "clock_leapt_seconds": 864_000, "problems": 2},
        {"ClocksDiffer"},
    ),
    "the clock of the only machine is ten days ahead": (
        {"clock_leapt_seconds": 864_000, "problems": 1}, {"ClocksDiffer"},
    ),
    "WEBHOOK_KEY is lost": (
        {"deliveries_overdue": 3, "webhooks_without_key": 1, "problems": 2},
        {"EventsAreLate", "KeyIsMissing"},
    ),
    "new code on the old schema": (
        {"migrations_pending": 1, "healthz_status": 503, "public_healthz_status": 503,
         "problems": 1, BUSY: "1+9x70"},
        {"SchemaIsOlderThanTheCode"},
    ),
    "a session that holds a lock": (
        {"longest_lock_seconds": 900, "longest_wait_for_lock_seconds": 3, "problems": 1,
         BUSY: "1+9x70"},
        {"SessionBlocksOthers"},
    ),
    "the last synchronous standby is lost": (
        {"standbys_needed": 1, "standbys": "1 0x70", "longest_wait_for_syncrep_seconds": 40,
         "problems": 3, "servers_silent": 1, BUSY: "1+9x70"},
        {"StandbyIsMissing", "ServerIsSilent"},
    ),
    "a machine of three is lost": (
        {"servers_silent": 1, "standbys": "2 1x70", "problems": 1}, {"ServerIsSilent"},
    ),
    "rows of a host that is gone, or of another life": ({"problems": 2}, {"AnythingIsWrong"}),
    "the certificate has expired": (
        {"certificate_expires_timestamp_seconds": -1, "problems": 1}, {"CertificateHasExpired"},
    ),
    "a forgotten transaction": (
        {"oldest_transaction_seconds": "0+60x70", "problems": "0x5 1x65"},
        {"TransactionDoesNotEnd"},
    ),
    "a problem without an alert of its own": ({"problems": 1}, {"AnythingIsWrong"}),
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_one_cause_pages_the_operator_at_most_once(cause, well, tmp_path):
    figures, alerts = CAUSES[cause]
    pages = {alert for alert in alerts if ALERTS[alert]["labels"]["severity"] == "page"}
    assert len(pages) <= 1
    check_rules(
        tmp_path,
        fired(well | figures, sorted(alerts)),
        fired(well | figures, sorted(pages), severity="page"),
    )


def test_alerts_that_page_wait_longer_than_ordinary_events_take():
    """They wait two minutes, except two alerts that ordinary events cannot fire."""
    short = {
        alert
        for alert, rule in ALERTS.items()
        if rule["labels"]["severity"] == "page" and rule.get("for", "0m") < "2m"
    }
    assert short == {"ServerErrors", "TwoServersAcceptWrites"}
    assert {rule["labels"]["service"] for rule in ALERTS.values()} == {"task-service"}
