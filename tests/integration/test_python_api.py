"""The snippet of docs/python-api.md that runs a pipeline."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support import oracle_client, topic_records
from support.doc_pages import fenced, page
from tidegate_local.kafka import Broker


def test_run_a_pipeline(
    broker: Broker,
    topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Explained, run, and compared with Kafka (req 3.10)."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 100, partitions=2)
    file = tmp_path / "orders.yaml"
    file.write_text(f"{{name: orders, kind: ingest, topics: [{name}], lake: {tmp_path}/lake}}")
    _, snippet = fenced(page("docs/python-api.md"), "python")
    for written, here in (
        ("include/pipelines/orders.yaml", str(file)),
        ("localhost:9092", broker.bootstrap),
    ):
        assert written in snippet
        snippet = snippet.replace(written, here)
    exec(snippet, {"__name__": "snippet"})
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == ("100", "100")
    oracle_client.agree(broker.bootstrap, tmp_path / "lake", "orders", [name])
