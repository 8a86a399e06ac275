"""What a run has read and written, for OpenLineage, where Airflow's provider for it is installed.

Datasets have the names of its convention, so that other tools mean the same by them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate import flows
from tidegate.core import layout
from tidegate.core.json_codec import Document
from tidegate.ingest.report import FileReport
from tidegate.pipelines import pipeline_files
from tidegate.runs.report_store import read_report

if TYPE_CHECKING:
    from tidegate.runs.run import EgressRun, Run
    from tidegate.runs.spec_protocol import EgressSpec, IngestSpec

_FACET = "tidegate_offsets"
_OF_A_FACET = {
    "_producer": "tidegate",
    "_schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetFacet",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetOfARun:
    """A topic, a topic's directory of a lake, or the root of files, by its names in OpenLineage.

    `event` is the extra of the topic's asset event. What is not known is None.
    """

    namespace: str
    name: str
    bytes: int | None = None
    files: int | None = None
    event: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Commit(Document):
    """What is used of a commit in the report of an ingest."""

    files: tuple[FileReport, ...] = ()


@dataclass(frozen=True)
class _Report(Document):
    """What is used of the report of an ingest."""

    commits: tuple[_Commit, ...] = ()


Datasets = tuple[list[DatasetOfARun], list[DatasetOfARun]]
"""What a run has read, and what it has written."""


def emit_lineage(run: Run | EgressRun, published: Any) -> None:
    """Attribute what a run has read and written to its Airflow task. Never raises."""
    try:
        from airflow.providers.openlineage.api import emit_dataset_lineage, is_openlineage_active

        if not is_openlineage_active():
            return
        of_kind = _of_ingest if run.spec.kind == "ingest" else _of_egress
        inputs, outputs = of_kind(run, published)
        emit_dataset_lineage(
            inputs=[_event_dataset(each, is_input=True) for each in inputs],
            outputs=[_event_dataset(each, is_input=False) for each in outputs],
        )
    except ModuleNotFoundError:  # nobody has asked for it
        return
    except Exception:  # the run is committed: what others are told must not fail it
        logger.exception("run %s: its lineage was not sent", run.run_id)


def _of_ingest(run: Any, published: Any) -> Datasets:
    store = run.store()
    report = _Report.from_json(read_report(store, run.key, published.report.generation) or {})
    files = [file for commit in report.commits for file in commit.files]
    inputs, outputs = [], []
    for topic in published.plan.topics:
        event, sizes = published.asset_event(topic), [f.bytes for f in files if f.topic == topic]
        inputs.append(_topic(run, topic, event))
        place = split_uri(store.uri(f"{layout.DATA}topic={topic}"))
        outputs.append(DatasetOfARun(*place, sum(sizes), len(sizes), event))
    return inputs, outputs


def _of_egress(run: Any, published: Any) -> Datasets:
    outputs = [_topic(run, topic, published.asset_event(topic)) for topic in run.spec.target.names]
    return [DatasetOfARun(*split_uri(uri)) for uri in _sources(run.spec)], outputs


def _sources(spec: EgressSpec) -> list[str]:
    """Return the URIs of what an egress reads: of a lake by topic, if they are named."""
    if spec.source.lake is None:
        return [spec.source.path or ""]
    source: IngestSpec = pipeline_files.load_ingest(spec.source.lake)
    store = flows.store(source)
    topics = spec.source.topics or source.topics
    return [store.uri(f"{layout.DATA}topic={topic}") for topic in topics] or [
        store.uri(layout.DATA.rstrip("/"))
    ]


def _topic(run: Any, topic: str, event: Mapping[str, Any]) -> DatasetOfARun:
    server = run.kafka.bootstrap_servers.split(",")[0]
    return DatasetOfARun(f"kafka://{server}", topic, event=event)


def split_uri(uri: str) -> tuple[str, str]:
    """Return namespace and name of a directory, or of objects below a prefix of a bucket."""
    scheme, sep, rest = uri.rpartition("://")
    if not sep or scheme == "file":
        return "file", rest
    bucket, _, prefix = rest.partition("/")
    return f"{scheme}://{bucket}", prefix.strip("/")


def _event_dataset(of_run: DatasetOfARun, *, is_input: bool) -> Any:
    from openlineage.client import event_v2, facet_v2

    read = facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet
    wrote = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
    event = of_run.event
    named = {
        "namespace": of_run.namespace,
        "name": of_run.name,
        "facets": {_FACET: {**_OF_A_FACET, **event}} if event else {},
    }
    numbers = (event.get("rows"), of_run.bytes, of_run.files)
    if is_input:
        return event_v2.InputDataset(**named, inputFacets={"inputStatistics": read(*numbers)})
    return event_v2.OutputDataset(**named, outputFacets={"outputStatistics": wrote(*numbers)})
