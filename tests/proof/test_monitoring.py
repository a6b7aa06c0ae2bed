"""The rules for Prometheus and the metric queries of the dashboard, run by promtool."""

import json
import subprocess

import pytest
import yaml
from click.testing import CliRunner
from support.project import PROJECT, read

from service.__main__ import main

pytestmark = [pytest.mark.proof, pytest.mark.needs("promtool")]
RULES = "docs/deploy/prometheus-rules.yml"
ALERTS = {rule["alert"]: rule for rule in yaml.safe_load(read(RULES))["groups"][0]["rules"]}
FAILED = 'requests_total{route="/api/tasks",status="503"}'
# Figures with which an alert fires; the others are those of a service that is well. A text is a
# series of promtool: -1+2x70 is -1, 1, 3 and so on, and _ is no value.
FIRING = {
    "ServiceIsDown": {"healthz_status": 0},
    "DatabaseDoesNotAnswer": {"up": 0},
    "NothingIsReported": {"up": "_x70"},
    "ServerErrors": {FAILED: "1x70"},
    "DatabaseIsCorrupted": {"database_corrupted": 1},
    "CertificateExpires": {"certificate_expires_timestamp_seconds": 14 * 86400 - 1},
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
    "ServersDisagree": {"servers_primary": 2},
    "StandbyIsBehind": {"standby_behind_bytes": 100_000_001},
    "ArchiveFails": {"archive_fails": 1},
    "TransactionDoesNotEnd": {"oldest_transaction_seconds": 301},
    "PruningHasStopped": {"oldest_idempotency_key_seconds": 90_001},
    "ClocksDiffer": {"clock_ahead_seconds": -5.1},
}


@pytest.fixture
def metrics(app, database_url):
    """The metrics of a service whose processes have ended, as a file of Prometheus has them."""
    pool = app.extensions["pool"]
    pool.open()
    pool.counters.requests.append(("GET", "/api/tasks", 200, 0.02, 0.01))
    with pool.connection() as connection:
        pool.counters.save(connection, due=False)
    ran = CliRunner().invoke(main, ["status", "--metrics"], env={"DATABASE_URL": database_url})
    assert ran.exit_code == 0
    return ran.stdout


def promtool(*arguments, text=None):
    ran = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_accepts_the_metrics(metrics):
    promtool("check", "metrics", text=metrics)


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


@pytest.mark.parametrize(
    ("alert", "figures", "later"),
    [
        *((alert, FIRING.get(alert, {}), 0) for alert in ALERTS),
        # More errors of a series that is old.
        ("ServerErrors", {FAILED: "1+1x70"}, 20),
        ("SessionBlocksOthers", {"longest_lock_seconds": 5.1}, 0),
    ],
)
def test_an_alert_fires_beyond_its_threshold_alone(alert, figures, later, metrics, tmp_path):
    rule = ALERTS[alert]
    wait = rule.get("for", "0m")
    minutes = int(wait[:-1]) * (60 if wait[-1] == "h" else 1) + 1 + later
    well = {
        line.split()[0].removeprefix("task_service_"): float(line.split()[1])
        for line in metrics.splitlines()
        if not line.startswith("#")
    }
    # The processes that serve, and the file of the metrics with the lines that the page adds.
    well |= {"web_processes": 1, "workers": 1, "problems": 0}
    well |= {"healthz_status": 200, "certificate_expires_timestamp_seconds": 15 * 86400}
    well[next(iter(FIRING["FiguresAreOld"]))] = 0
    # Errors of long ago.
    old = {FAILED: "1x70"} if later else {}
    tests = []
    for shown, fires in ((well | old, False), (well | figures, True)):
        series = [
            {"series": name if name.startswith("node_") else f"task_service_{name}",
             "values": number if isinstance(number, str) else f"{number:.15g}x70"}
            for name, number in shown.items()
        ]  # fmt: skip
        labels = {"route": "/api/tasks", "status": "503"} if alert == "ServerErrors" else {}
        fired = {"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"]}
        tests.append({"interval": "1m", "input_series": series, "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": [fired] if fires else []}
        ]})  # fmt: skip
    file = tmp_path / "tests"
    file.write_text(json.dumps({"rule_files": [str(PROJECT / RULES)], "tests": tests}))
    promtool("test", "rules", str(file))
