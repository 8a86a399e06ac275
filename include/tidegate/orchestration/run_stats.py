"""The numbers of a run that has ended, to Airflow's own metrics: StatsD, Datadog or OpenTelemetry.

What a task sends is silent when nothing runs. `tidegate metrics` and the page's `/metrics` are not.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.configuration import conf

from tidegate.core.ended_run import EndedRun
from tidegate.runs.measures import run_measures

_WITH_TAGS = ("otel_on", "statsd_datadog_enabled")

logger = logging.getLogger(__name__)


def send_run(pipeline: str, run: EndedRun | None) -> None:
    """Send the measures of a run as gauges. Never raises.

    Plain StatsD loses tags, and all pipelines would write one gauge: there the name has the
    pipeline, and the step, `tidegate.orders.last_run_seconds.plan`. Elsewhere they are tags.
    """
    if run is None:
        return
    try:
        stats = task_stats()
        has_tags = any(conf.getboolean("metrics", key, fallback=False) for key in _WITH_TAGS)
        for name, labels, value in run_measures(run):
            if value is None:
                continue
            if has_tags:
                tags = {"pipeline": pipeline, **labels}
                stats.gauge(f"tidegate.{name}", float(value), tags=tags)
            else:
                stats.gauge(".".join(("tidegate", pipeline, name, *labels.values())), float(value))
    except Exception:  # the run has ended: what it sends must not fail it
        logger.exception("run %s: its numbers were not sent", run.run)


def task_stats() -> Any:
    """Return Airflow's metrics of a task."""
    try:
        from airflow.sdk.observability import stats

        return stats
    except ImportError:  # Airflow before 3.3
        from airflow.stats import Stats

        return Stats
