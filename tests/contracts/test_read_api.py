"""The snippet of docs/python-api.md that needs neither Kafka nor Spark.

The other one is run by tests/integration/test_python_api.py.
"""

from pathlib import Path

import pytest

from support.doc_pages import fenced, page
from tidegate.lake.store import LocalStore


def test_read_a_pipeline_and_its_lake(
    store: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snippet, _ = fenced(page("docs/python-api.md"), "python")
    path = str(tmp_path / "p.yaml")
    exec(snippet.replace("include/pipelines/orders.yaml", path), {})
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[0] for line in shown] == ["t-0 [0, 10) 10"]
    Path(path).write_text("{name: p, kind: ingest, topics: [t], lake: here}")
    with pytest.raises(SystemExit, match="lake: 'here': neither an absolute path nor a URL"):
        exec(snippet.replace("include/pipelines/orders.yaml", path), {})
