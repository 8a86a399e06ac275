"""What a run sends to Airflow's own metrics, as it arrives."""

import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tidegate.core.ended_run import EndedRun, RunError
from tidegate.orchestration import run_stats

RUN = EndedRun(
    run="r", dag="d", began="2026-03-14T12:00:00+00:00", ended="2026-03-14T12:01:00+00:00",
    error=None, lane="live", rows=7, bytes=900,
)  # fmt: skip


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server on a port of its own, to which Airflow sends."""
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.statsd_logger import get_statsd_logger

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        stats.initialize(factory=get_statsd_logger, export_legacy_names=False)
        yield server
        stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def received(server: socket.socket, count: int) -> set[str]:
    return {server.recv(1000).decode() for _ in range(count)}


def test_plain_statsd_has_the_pipeline_in_the_name(statsd: socket.socket) -> None:
    """It loses tags: all pipelines would write one gauge."""
    run_stats.send_run("orders", RUN)
    assert received(statsd, 5) == {
        "airflow.tidegate.orders.last_run_timestamp_seconds:1773489660.0|g",
        "airflow.tidegate.orders.last_run_failed:0.0|g",
        "airflow.tidegate.orders.last_run_rows:7.0|g",
        "airflow.tidegate.orders.last_run_bytes:900.0|g",
        "airflow.tidegate.orders.last_run_seconds.whole:60.0|g",
    }


def test_others_have_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    stats = mock.Mock()
    monkeypatch.setattr(run_stats, "task_stats", lambda: stats)
    run_stats.send_run("orders", RUN)
    sent = {call.args[0]: (call.args[1], call.kwargs["tags"]) for call in stats.gauge.mock_calls}
    assert sent["tidegate.last_run_rows"] == (7.0, {"pipeline": "orders"})
    tags = {"pipeline": "orders", "step": "whole"}
    assert sent["tidegate.last_run_seconds"] == (60.0, tags)


def test_no_run_fails_by_it(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def away() -> Any:
        raise OSError("no such host")

    monkeypatch.setattr(run_stats, "task_stats", away)
    run_stats.send_run("orders", RUN)
    run_stats.send_run("orders", None)
    assert "its numbers were not sent" in caplog.text
    assert RunError.of(OSError("x")).name == "Internal"
