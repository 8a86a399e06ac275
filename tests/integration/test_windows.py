"""Any window again: told before it is done, done once, whatever else runs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import records
from terminal import Terminal
from tidegate.local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


def test_explain_is_what_the_run_then_does(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """The same plan by its id, the same rows, cursors and files; and nothing was written."""
    name = topic(partitions=2, config={"retention.ms": "86400000"})
    records.numbers(broker.bootstrap, name, 1_000, partitions=2)
    terminal.pipeline("told", [name], max_records=400)
    told = terminal.json("explain", "told")
    assert not terminal.lake.exists()
    assert "1,000 records in 3 chunks" in terminal.run("explain", "told").stdout
    done = terminal.json("run", "told")
    assert (told["plan_id"], told["records"]) == (done["plan_id"], done["rows"])
    assert [c["records"] for c in told["chunks"]] == [c["rows"] for c in done["commits"]]
    assert told["files"] == len(terminal.json("files", "told"))
    stands = terminal.json("status", "told")["topics"][name]["partitions"]
    for p, each in told["topics"][name]["partitions"].items():
        assert each["cursor_after"] == stands[p]["cursor"] == 500
        expires = datetime.fromisoformat(each["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=23) < expires <= timedelta(hours=24)
    again = terminal.json("explain", "told")
    assert (again["records"], again["chunks"]) == (0, [])
