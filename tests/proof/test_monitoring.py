"""The rules for Prometheus and the metric queries of the dashboard, run by promtool."""

import json
import re
import subprocess

import pytest
from click.testing import CliRunner
from pages import PROJECT, read

from service.__main__ import main

pytestmark = [
    pytest.mark.proof,
    pytest.mark.needs("promtool"),
]
RULES = "docs/deploy/prometheus-rules.yml"
ALERTS = re.findall(r"- alert: (\w+)\n(?: +#.*\n)? +expr: (.+)\n(?: +for: (\w+)\n)?", read(RULES))
# Figures with which an alert fires; the others are those of a service that is well.
FIRING = {
    "DatabaseDoesNotAnswer": {"up": 0},
    "AnythingIsWrong": {"problems": 1},
    "FiguresAreOld": {'node_textfile_mtime_seconds{file="/x/task-service.prom"}': -301},
    "SchemaIsOlderThanTheCode": {"migrations_pending": 1},
    "SchemaWasChanged": {"tables_unusable": 1},
    "DatabaseTakesNoWrites": {"database_disk_full": 1},
    "NoWebProcess": {"web_processes": 0},
    "NoWorker": {"worker_silent_seconds": 121},
    "EventsAreLate": {"deliveries_overdue": 1},
    "ReceiversFail": {"webhooks_failing": 1},
    "ConnectionsRunOut": {"connections_used": 81, "connections_allowed": 100},
    "SessionBlocksOthers": {"longest_wait_for_lock_seconds": 5.1},
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
    """The metrics of a service without a process that serves, as a file of Prometheus has them."""
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


@pytest.mark.parametrize(("alert", "wait"), [(alert, wait) for alert, _, wait in ALERTS])
def test_an_alert_fires_beyond_its_threshold_and_not_while_all_is_well(
    alert, wait, metrics, tmp_path
):
    well = {
        line.split()[0].removeprefix("task_service_"): float(line.split()[1])
        for line in metrics.splitlines()
        if not line.startswith("#")
    }
    # The processes that serve, and the file of the metrics.
    well |= {"web_processes": 1, "workers": 1, "worker_silent_seconds": 0, "problems": 0}
    well[next(iter(FIRING["FiguresAreOld"]))] = 0
    tests = []
    for figures, fires in (well, False), (well | FIRING[alert], True):
        series = [
            {"series": name if name.startswith("node_") else f"task_service_{name}",
             "values": f"{number:.15g}x70"}
            for name, number in figures.items()
        ]  # fmt: skip
        at = wait or "0m"
        tests.append({"interval": "1m", "input_series": series, "alert_rule_test": [
            {"eval_time": at, "alertname": alert, "exp_alerts": [{}] if fires else []}
        ]})  # fmt: skip
    file = tmp_path / "tests"
    file.write_text(json.dumps({"rule_files": [str(PROJECT / RULES)], "tests": tests}))
    promtool("test", "rules", str(file))
