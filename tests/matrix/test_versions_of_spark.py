"""Each line of Spark that is supported: an ingest, an egress of its lake, one of Parquet files.

`make test-matrix` runs it, and keeps what was tried for docs/versions.md. Environments are made
once; the first time, PySpark and a JDK are fetched.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from support import matrix, oracle_client, topic_reader, topic_records
from support.cli_user import Terminal
from support.matrix import SparkRow
from tidegate_local.kafka import Broker

pytestmark = pytest.mark.matrix

RECORDS = 3_000
ANY = {
    "max.message.bytes": "2000000",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
}
KEPT = {"timestamps": "source"}
COLUMNS = {
    "timestamp": "timestamp",
    "key": "key",
    "value": "if(value is null, null, concat(value, x''))",
    "headers": "transform(headers, h -> named_struct('key', h.key, 'value', h.value))",
}


@pytest.mark.parametrize("row", matrix.SPARK, ids=str)
def test_both_ways(
    row: SparkRow, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """What an independent client reads is equal; driver and JVM are those of the row."""
    try:
        made = matrix.environment(row)
    except matrix.Missing as reason:
        pytest.skip(str(reason))
    says, events = tmp_path / "says", tmp_path / "events"
    events.mkdir()
    terminal = Terminal(tmp_path, broker.bootstrap, processes=True)
    terminal.environ = matrix.environ(made, says, events, own_spark=not row.package)
    if row.package:
        terminal.program = made.python.with_name("tidegate")
    jars = ["--no-archive"] if row.package else ["--spark-home", str(made.spark)]
    terminal.run("jars", *jars)

    incoming = topic()  # for its name
    with topic_records.fill(broker.bootstrap, f"{incoming}-in", records=RECORDS) as filled:
        pass
    rows = filled.visible.total()
    terminal.pipeline("in", [f"{incoming}-in"], max_records=RECORDS)
    assert terminal.json("run", "in")["rows"] == rows
    oracle_client.agree(broker.bootstrap, terminal.lake, "in", [f"{incoming}-in"])

    # Those without a time are kept back.
    sent = content(broker, f"{incoming}-in")
    timed = +Counter({each: each[0] >= 0 and n for each, n in sent.items()})
    for name, source in (
        ("lake", {"source": {"lake": "in"}, "on_bad_row": "quarantine"}),
        ("files", {"source": {"path": str(terminal.lake), "format": "parquet"},
                   "columns": COLUMNS, "tombstones": True, "on_bad_row": "quarantine"}),
    ):  # fmt: skip
        target = topic(partitions=topic_records.PARTITIONS, config=ANY)
        if name == "files":
            (data,) = terminal.lake.glob("**/data")
            source["source"]["path"] = f"{data}/"
        terminal.egress(name, **source, target={"topic": target, **KEPT})
        assert terminal.json("run", name)["rows"] == timed.total()
        assert content(broker, target) == timed
        assert terminal.json("verify", name, "--against-kafka")["differences"] == 0

    if row.spark < "4":
        whole = {"path": str(terminal.lake), "format": "json"}
        terminal.egress("json", source=whole, target={"topic": target})
        error = terminal.json("run", "json", code=2)["error"]
        assert f"Spark {row.spark[:3]}: files of JSON" in error["message"]

    used = matrix.applications(events)
    assert len(used) == 3
    assert {(each["spark"], each["java"].split(".")[0]) for each in used} == {(row.spark, row.java)}
    drivers = [json.loads(line) for line in says.read_text().splitlines()]
    assert len(drivers) == 3
    (driver,) = {tuple(sorted(each.items())) for each in drivers}
    is_of = dict(driver)
    assert is_of["prefix"] == str(made.python.parents[1])
    assert is_of["pyspark"].startswith(str(made.spark))
    assert (".zip/tidegate/" in is_of["tidegate"]) != row.package
    manifest, *_ = (terminal.lake / "in").rglob("manifests/*.json")
    versions = json.loads(manifest.read_text())["versions"]
    matrix.record(
        "spark",
        asdict(row),
        {
            **used[0],
            "python": is_of["python"],
            "connector": versions["connector"],
            "kafka-clients": versions["kafka-clients"],
            "tried": ["ingest", "egress of a lake", "egress of Parquet files"],
        },
    )


def content(broker: Broker, topic: str) -> Counter[tuple[int, object]]:
    """Count the records that are committed, by their timestamps and what they hold."""
    found = topic_reader.read(broker.bootstrap, topic, isolation="read_committed")
    return Counter((each.timestamp, each.content) for each in found)
