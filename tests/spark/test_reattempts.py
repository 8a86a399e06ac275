"""A task that fails, and is tried again in the same executor, reads the same rows by a consumer of
its own.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support import topic_records
from support.calls import staging
from tidegate.core.offsets import OffsetRange
from tidegate.launch.spark_submit import submit
from tidegate.pipelines.spec import parse_spec
from tidegate.spark import kafka_source
from tidegate_local.kafka import Broker

ROWS, PARTITIONS = 1_000, 2
PROBE = """
import json, sys
from pathlib import Path
from pyspark import TaskContext
from tidegate.spark import session

job = json.loads(Path(sys.argv[1]).read_text())
spark = session.start("again")

def fails_once(rows):
    first = TaskContext.get().attemptNumber() == 0
    for n, row in enumerate(rows):
        if first and n == 50:
            raise ValueError("the first attempt")
        yield row.partition, row.offset, row.value.decode()

frame = spark.read.format("kafka").options(**job["source"]).load()
found = frame.select("partition", "offset", "value").rdd.mapPartitions(fails_once).collect()
loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
companion = loader.loadClass("org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$")

def field(of, instance, name):
    found = next(f for f in of.getDeclaredFields() if f.getName().endswith(name))
    found.setAccessible(True)
    return found.get(instance)

consumers = field(companion, field(companion, None, "MODULE$"), "consumerPool")
pool = field(consumers.getClass(), consumers, "pool")
print("FOUND " + json.dumps({"rows": sorted(found), "created": pool.getCreatedCount()}))
spark.stop()
"""


@pytest.mark.slow
def test_the_rows_are_the_same(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Neither the consumer nor the fetched records of the failed attempt are used again."""
    topic_records.numbers(broker.bootstrap, topic, ROWS, partitions=PARTITIONS)
    form = {"name": "again", "kind": "ingest", "topics": [topic], "lake": str(tmp_path / "lake")}
    conf = {"spark.kafka.consumer.cache.timeout": "5m"}  # else idle ones go all the same
    settings = parse_spec({**form, "spark": {"conf": conf}}).spark.settings
    window = tuple(OffsetRange(topic, p, 0, ROWS // PARTITIONS) for p in range(PARTITIONS))
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.group.id": f"tidegate-{topic}",
    }
    source = kafka_source.source_options(window, given, max_records_per_task=ROWS)
    script, job = tmp_path / "probe.py", tmp_path / "job.json"
    script.write_text(PROBE)
    job.write_text(json.dumps({"source": source}))
    output: list[str] = []
    application = replace(staging(job, settings, ROWS, name="again"), application=str(script))
    submit(application, master="local[2,2]", log=output.append)
    (line,) = (each for each in output if each.startswith("FOUND "))
    found = json.loads(line.removeprefix("FOUND "))
    assert any("the first attempt" in each for each in output)
    offsets = [(p, offset) for p, offset, _ in found["rows"]]
    assert offsets == [(p, n) for p in range(PARTITIONS) for n in range(ROWS // PARTITIONS)]
    assert len({value for _, _, value in found["rows"]}) == ROWS
    assert found["created"] == 2 * PARTITIONS
