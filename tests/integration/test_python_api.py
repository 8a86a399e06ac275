"""The snippets of docs/python-api.md that run a pipeline."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support import oracle_client, topic_records
from support.doc_pages import fenced, page
from tidegate_local.kafka import Broker


@pytest.fixture
def orders(
    broker: Broker, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The pipeline `orders` of a topic with 100 records. Its topic."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 100, partitions=2)
    file = tmp_path / "orders.yaml"
    file.write_text(f"{{name: orders, kind: ingest, topics: [{name}], lake: {tmp_path}/lake}}")
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    return name


@pytest.mark.parametrize(
    "number",
    [pytest.param(1, id="the calls"), pytest.param(2, id="the parts", marks=pytest.mark.slow)],
)
def test_run_a_pipeline(
    number: int, orders: str, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planned or explained, run, and compared with Kafka; what was printed has the numbers."""
    snippet = fenced(page("docs/python-api.md"), "python")[number]
    assert "localhost:9092" in snippet
    snippet = snippet.replace("localhost:9092", broker.bootstrap)
    exec(
        snippet.replace("include/pipelines/orders.yaml", f"{tmp_path}/orders.yaml"),
        {"__name__": "snippet"},
    )
    lines = capsys.readouterr().out.splitlines()
    planned = {1: lines[1], 2: lines[0]}[number]
    assert planned.split()[0] == lines[-1] == "100"
    oracle_client.agree(broker.bootstrap, tmp_path / "lake", "orders", [orders])
    read, *_ = fenced(page("docs/python-api.md"), "python")
    exec(read, {})
    assert "100" in capsys.readouterr().out.splitlines()
