"""What a run has read and written, by the names of OpenLineage."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tidegate.orchestration import lineage
from tidegate.orchestration.lineage import DatasetOfARun, split_uri
from tidegate.pipelines.spec import parse_spec

EVENT = {"rows": 5, "ranges": {"0": [0, 5]}, "commit": 2, "complete_through": None}
SOURCE = {"name": "p", "kind": "ingest", "topics": ["a", "b"], "lake": "/lake"}
BACK = {"name": "out", "kind": "egress", "lake": "/lake", "target": {"topic": "copy"}}


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("/lake/p/data", ("file", "/lake/p/data")),
        ("file:///lake/p/data", ("file", "/lake/p/data")),
        ("s3://bucket/lake/p/data/", ("s3://bucket", "lake/p/data")),
        ("/in/a#b/file-?.csv", ("file", "/in/a#b/file-?.csv")),
    ],
)
def test_names_of_places(uri: str, names: tuple[str, str]) -> None:
    assert split_uri(uri) == names


def datasets(form: dict[str, Any]) -> lineage.Datasets:
    kafka = SimpleNamespace(bootstrap_servers="one:9092,two:9092")
    run = SimpleNamespace(spec=parse_spec(form), kafka=kafka)
    return lineage._of_egress(run, SimpleNamespace(asset_event=lambda _: EVENT))


def test_of_an_egress(pipelines: Path) -> None:
    """Of a lake it reads the directories of topics that the ingest writes; of files their root."""
    (pipelines / "p.yaml").write_text(json.dumps(SOURCE))
    read, sent = datasets({**BACK, "source": {"lake": "p"}})
    assert [(each.namespace, each.name) for each in read] == [
        ("file", "/lake/p/data/topic=a"),
        ("file", "/lake/p/data/topic=b"),
    ]
    assert sent == [DatasetOfARun("kafka://one:9092", "copy", event=EVENT)]
    read, _ = datasets({**BACK, "source": {"lake": "p", "topics": ["b"]}})
    assert [each.name for each in read] == ["/lake/p/data/topic=b"]
    by_pattern = {**SOURCE, "topics": [], "pattern": ".*"}
    (pipelines / "p.yaml").write_text(json.dumps(by_pattern))
    assert datasets({**BACK, "source": {"lake": "p"}})[0] == [DatasetOfARun("file", "/lake/p/data")]
    files = {"path": "s3://in/orders/*.json", "format": "json"}
    assert datasets({**BACK, "source": files})[0] == [DatasetOfARun("s3://in", "orders/*.json")]


def test_no_run_fails_by_it() -> None:
    """Neither without the provider nor by an error of it."""
    run: Any = SimpleNamespace(run_id="r", spec=SimpleNamespace(kind="other"))
    api, package = mock.Mock(is_openlineage_active=lambda: True), "airflow.providers.openlineage"
    with mock.patch.object(lineage.logger, "exception") as told:
        lineage.emit_lineage(run, None)
        told.assert_not_called()
        with mock.patch.dict("sys.modules", {package: mock.Mock(), f"{package}.api": api}):
            lineage.emit_lineage(run, None)
        told.assert_called_once()
        broken = mock.Mock(spec=[])  # it has no such function
        with mock.patch.dict("sys.modules", {package: mock.Mock(), f"{package}.api": broken}):
            lineage.emit_lineage(run, None)
        assert told.call_count == 2
