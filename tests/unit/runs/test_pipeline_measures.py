"""The numbers of pipelines for a team's tools, and the documents that carry them."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.doc_pages import PROJECT, fenced, page
from tidegate.core.ended_run import EndedRun, RunError
from tidegate.egress.status import EgressStatus
from tidegate.ingest.status import IngestStatus
from tidegate.metrics import open_metrics
from tidegate.runs.measures import HELP, PREFIX, Measure, measures

INGEST, EGRESS = map(json.loads, fenced(page("docs/json.md#status"), "json"))
MONITORING = PROJECT / "docs/examples/monitoring"
NOW = datetime.now(UTC)


def ago(**age: int) -> str:
    return (NOW - timedelta(**age)).isoformat(timespec="seconds")


GOOD = EndedRun(
    run="r", dag="d", began=ago(seconds=60), ended=ago(seconds=10), error=None, lane="live",
    planned=ago(seconds=55), published=ago(seconds=15), rows=7, bytes=900, lag=5,
    expires_at=ago(hours=-2), complete_through=ago(seconds=58),
)  # fmt: skip
RED = replace(GOOD, run="x", error=RunError("E", "m", "terminal"), complete_through=None)


def values(found: list[Measure], name: str) -> dict[str, float]:
    """Return the values of a measure by its last label."""
    return {[*each.labels.values()][-1]: each.value for each in found if each.name == name}


def test_the_measures_of_an_ingest() -> None:
    """A run that has failed says nothing of what is complete: that is of the last good one."""
    status = IngestStatus.from_json(INGEST)
    found = measures("flights", status.state, status, (GOOD, RED))
    states = values(found, "state")
    assert [state for state, value in states.items() if value] == ["losing"]
    assert len(states) == 9
    assert values(found, "lag_records") == {"flights": 125}
    assert values(found, "excluded_partitions") == {"flights": 1}
    assert values(found, "undecodable_rows") == {"flights": 3}
    assert values(found, "last_run_seconds") == {"plan": 5, "spark": 40, "verdict": 5}
    assert values(found, "last_run_failed") == {"flights": 1}
    assert values(found, "last_run_rows") == {"flights": 7}
    (age,) = values(found, "complete_through_age_seconds").values()
    assert 58 <= age < 3_600
    (left,) = values(found, "expiry_seconds").values()
    assert 3_600 < left <= 7_200
    assert values(found, "open_transaction_age_seconds")["flights"] > 1_000_000
    assert {each.labels["pipeline"] for each in found} == {"flights"}
    assert {each.name for each in found} <= HELP.keys()


def test_the_measures_of_an_egress() -> None:
    status = EgressStatus.from_json(EGRESS)
    found = measures("out", status.state, status, ())
    assert values(found, "waiting_files") == {"out": 4}
    assert values(found, "excluded_partitions") == {"out": 1}
    assert values(found, "last_entry") == {"out": 3}
    assert not values(found, "last_run_rows")


def test_what_is_not_known_has_no_sample() -> None:
    """An old number would look like a new one."""
    status = IngestStatus.from_json(INGEST)
    (topic,) = status.topics.values()
    blind = replace(topic.partitions[0], end=None, high=None, lag=None, open_since=None)
    away = replace(
        status,
        topics={"flights": replace(topic, partitions={0: blind})},
        problems=(),
        broker="no broker answered",
    )
    found = measures("flights", "unknown", away, ())
    assert not values(found, "lag_records")
    assert not values(found, "excluded_partitions")
    only = measures("flights", "unknown", None, ())
    assert {each.name for each in only} == {"state"}


def test_the_document_is_open_metrics() -> None:
    """Names and labels with quotes and newlines survive; it ends as the format wants."""
    odd = 'a "b"\n\\c'
    document = open_metrics([Measure("lag_records", {"pipeline": "p", "topic": odd}, 5.0)])
    assert document.endswith(b"# EOF\n")
    (family,) = text_string_to_metric_families(document.decode())
    (sample,) = family.samples
    assert (family.name, family.type) == ("tidegate_lag_records", "gauge")
    assert (sample.labels, sample.value) == ({"pipeline": "p", "topic": odd}, 5.0)


def test_the_docs_have_every_measure() -> None:
    """And rules and dashboard use only those that there are."""
    text = page("docs/how-to/watch.md")
    assert set(re.findall(rf"\| `{PREFIX}(\w+)`", text)) == HELP.keys()
    for name in ("tidegate.rules.yml", "grafana.json"):
        used = set(re.findall(rf"{PREFIX}(\w+)(?=\W)", (MONITORING / name).read_text()))
        assert used
        assert used <= HELP.keys(), name


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (Debian: prometheus)")
def test_each_alert_is_fired_by_a_made_history() -> None:
    for command in ("check rules tidegate.rules.yml", "test rules tidegate.rules.test.yml"):
        done = subprocess.run(
            ["promtool", *command.split()],
            cwd=MONITORING, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    rules = (MONITORING / "tidegate.rules.yml").read_text()
    tests = (MONITORING / "tidegate.rules.test.yml").read_text()
    alerts = re.findall(r"alert: (\w+)", rules)
    assert len(alerts) == 10
    assert set(re.findall(r"alertname: (\w+)", tests)) == set(alerts)
