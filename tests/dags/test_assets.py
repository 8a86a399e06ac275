"""What publish tells those who wait: an event per topic, of a pattern by an alias."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from tidegate.core.entries import Account
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.ingest.publish import Published
from tidegate.ingest.report import CommitReport, IngestReport
from tidegate.orchestration import assets, factory, tasks
from tidegate.pipelines.spec import parse_spec

LEAST = {"name": "p", "kind": "ingest", "lake": "/lake"}
THROUGH = {"a.b": "2024-05-01T00:00"}
COMMIT = CommitReport(
    chunk=0, commit=2, rows=5, topics={"a.b": {0: Account(0, 5, 5, 0)}}, undecodable={}
)
REPORT = IngestReport(
    pipeline="p", run="r", run_key="k", generation=1, plan_id="i", lane="live", rows=5,
    commits=(COMMIT,), covered_by={}, missing=(), left_out=(),
)  # fmt: skip


def published() -> Published:
    """A run that read a.b and had nothing of a.c."""
    plan = Plan(
        pipeline="p", kind="ingest", lane="live", window_date="2024-05-01", cluster_id="c",
        isolation="read_committed", topics={"a.b": "id"},
        chunks=((OffsetRange("a.b", 0, 0, 5),),), destination="", byte_settings={},
    )  # fmt: skip
    offsets = {"a.b": {0: 5}, "a.c": {0: 0}}
    return Published(plan, {0: 2}, offsets, REPORT, THROUGH)


def test_an_egress_of_a_lake_reads_the_assets_of_its_source(pipelines: Path) -> None:
    """So that Airflow's graph of assets goes from topic to topic."""
    (pipelines / "p.yaml").write_text(json.dumps({**LEAST, "topics": ["a.b", "a.c"]}))
    out = {"name": "out", "kind": "egress", "lake": "/lake", "target": {"topic": "t"}}

    def inlets(source: dict[str, object]) -> list[str]:
        dag = factory.pipeline_dag(parse_spec({**out, "source": source}))
        return [each.uri for each in dag.get_task("plan").inlets]

    assert inlets({"lake": "p"}) == ["tidegate://p/a.b", "tidegate://p/a.c"]
    assert inlets({"lake": "p", "topics": ["a.c", "former"]}) == ["tidegate://p/a.c"]
    assert inlets({"lake": "gone"}) == []
    assert inlets({"path": "/in/*.json", "format": "json"}) == []


@pytest.mark.parametrize("by", ["topics", "pattern"])
def test_events(by: str) -> None:
    """Of a pattern only for the topics in the plan: there may be hundreds."""
    spec: Any = parse_spec({**LEAST, "topics": ["a.b", "a.c"]} if by == "topics" else
                      {**LEAST, "pattern": r"a\..*"})  # fmt: skip
    events, task = OutletEventAccessors(), mock.Mock(outlets=assets.outlets(spec))
    context: Any = {"ti": mock.Mock(), "outlet_events": events, "task": task}
    with (
        mock.patch("tidegate.ingest.publish.publish", autospec=True, return_value=published()),
        mock.patch("tidegate.runs.run.open_run", autospec=True),
    ):
        tasks.publish(lambda _: SimpleNamespace(spec=spec), context)
    extra = {
        "ranges": {"0": [0, 5]}, "rows": 5, "commit": 2, "complete_through": "2024-05-01T00:00",
    }  # fmt: skip
    if by == "topics":
        assert events[assets.asset("p", "a.b")].extra == extra
        assert events[assets.asset("p", "a.c")].extra["rows"] == 0
    else:
        (event,) = events[AssetAlias("tidegate://p")].asset_alias_events
        assert (event.dest_asset_key.uri, event.extra) == ("tidegate://p/a.b", extra)


def test_the_dag_of_a_pattern(pipelines: Path) -> None:
    """Its description and its one outlet."""
    spec: Any = parse_spec({**LEAST, "pattern": r"a\..*", "exclude": r"a\.x"})
    dag = factory.pipeline_dag(spec)
    assert dag.description == r"/a\..*/ without /a\.x/ → /lake"
    assert [type(each).__name__ for each in dag.get_task("publish").outlets] == ["AssetAlias"]
