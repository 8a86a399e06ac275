"""The how-to of the first pipeline works as it stands: topic, records, commands and query."""

import os
import subprocess
from pathlib import Path

from support.cli_user import Terminal
from support.doc_pages import PROJECT, command_lines, fenced, page
from tidegate_local.kafka import Broker

HOW_TO = page("docs/how-to/own-kafka.md")


def test_the_first_pipeline(broker: Broker, tmp_path: Path) -> None:
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
    assert [words[0] for words in commands] == [
        "doctor", "explain", "run", "status", "verify", "sql",
    ]  # fmt: skip
    for words in commands:
        done = terminal.run(*words)
    assert done.stdout in fenced(HOW_TO, "")
