"""The measures of pipelines in OpenMetrics, for Prometheus: of a command, a file and the page."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tidegate import flows, statuses
from tidegate.pipelines.spec import Spec
from tidegate.runs.measures import HELP, PREFIX, Measure, measures
from tidegate.runs.pipeline_state import DagState, judge_error

logger = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Collected(Collector):
    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = list(measures)

    def collect(self) -> Iterator[Metric]:
        for name, text in HELP.items():
            family = GaugeMetricFamily(PREFIX + name, text)
            for each in self._measures:
                if each.name == name:
                    family.add_sample(PREFIX + name, dict(each.labels), each.value)
            if family.samples:
                yield family


def open_metrics(measures: Iterable[Measure]) -> bytes:
    """Return measures as a document of OpenMetrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(measures))
    document: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return document


def read_measures(
    names: Iterable[str],
    kafka_of: flows.KafkaOf,
    dags: Mapping[str, DagState],
    *,
    at_once: int,
) -> list[Measure]:
    """Return the measures of pipelines, by reading the status of each, `at_once` in parallel.

    Of one that cannot be read they are its state alone, and its error is logged.
    """

    def look(spec: Spec) -> list[Measure]:
        status, runs = statuses.look_at(spec, kafka_of, dags.get(spec.name))
        return measures(spec.name, status.state, status, runs)

    found = []
    for name, result in flows.for_each(names, look, at_once=at_once):
        if isinstance(result, Exception):
            logger.warning("%s: %s", name, result)
            result = measures(name, judge_error(result).state, None, ())
        found += result
    return found
