"""The snippet of docs/python-api.md that needs neither Kafka nor Spark.

The other one is run by tests/integration/test_python_api.py.
"""

from pathlib import Path

import pytest

import tidegate
from support.doc_pages import fenced, page
from tidegate.lake.store import LocalStore


def test_the_package_is_typed() -> None:
    """A type checker reads the annotations of a package with this file alone (req 3.10)."""
    assert (Path(tidegate.__file__).parent / "py.typed").is_file()


def test_read_a_pipeline_and_its_lake(
    store: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spec, committed files, and their ranges (req 3.9, 3.10)."""
    snippet, _ = fenced(page("docs/python-api.md"), "python")
    path = str(tmp_path / "p.yaml")
    exec(snippet.replace("include/pipelines/orders.yaml", path), {})
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[0] for line in shown] == ["t-0 [0, 10) 10"]
    Path(path).write_text("{name: p, kind: ingest, topics: [t], lake: here}")
    with pytest.raises(SystemExit, match="lake: 'here': neither an absolute path nor a URL"):
        exec(snippet.replace("include/pipelines/orders.yaml", path), {})
