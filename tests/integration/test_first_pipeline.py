"""The how-to of the first pipeline works as it stands: topic, records, commands and query."""

import os
import subprocess
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from support.cli_user import Terminal
from support.doc_pages import PROJECT, command_lines, fenced, page
from tidegate_local.kafka import Broker

HOW_TO = page("docs/how-to/first-pipeline.md")


def test_the_first_pipeline(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it but what needs Airflow; the query has typed columns."""
    (fill,) = (block for block in fenced(HOW_TO, "sh") if "topics create" in block)
    subprocess.run(
        ["bash", "-ec", fill],
        cwd=PROJECT,
        env={**os.environ, "BROKER": broker.bootstrap},
        timeout=60,
        check=True,
    )
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.pipelines.mkdir()
    (file,) = fenced(HOW_TO, "yaml")
    terminal.pipelines.joinpath("orders.yaml").write_text(
        file.replace("${TIDEGATE_LAKE}", str(terminal.lake))
    )
    commands = [words for words in command_lines(HOW_TO) if words[0] != "local"]
    assert [words[0] for words in commands] == ["doctor", "explain", "run", "status", "verify"]
    for words in commands:
        terminal.run(*words)
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate/lake").symlink_to(terminal.lake)
    monkeypatch.chdir(tmp_path)
    (query,) = fenced(HOW_TO, "sql")
    with duckdb.connect() as db:
        assert db.execute(query).fetchall() == [
            ("Ada", 2, Decimal("15.75")), ("Grace", 1, Decimal("7.00"))
        ]  # fmt: skip
