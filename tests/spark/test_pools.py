"""Spark's pools of Kafka clients have the settings of `spark.conf`, read back from the pools."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support import client_configs, topic_reader, topic_records
from support.calls import staging
from support.cli_user import Terminal
from tidegate.core.offsets import OffsetRange
from tidegate.launch.spark_submit import submit
from tidegate.pipelines.spec import parse_spec
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE
from tidegate.spark import kafka_source
from tidegate_local.kafka import Broker

PARTITIONS, RECORDS, TASKS = 6, 600, 4
CONF = {
    "spark.kafka.consumer.cache.capacity": 2,
    "spark.kafka.consumer.cache.timeout": "3s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "200ms",
    "spark.kafka.consumer.cache.jmx.enable": True,
    "spark.kafka.consumer.fetchedData.cache.timeout": "4s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "300ms",
    "spark.kafka.producer.cache.timeout": "5s",
    "spark.kafka.producer.cache.evictorThreadRunInterval": "-1",
}
# The pools take their settings from the first use in a Java process, so each case has its own.
PROBE = """
import json, sys, time
from pathlib import Path
from tidegate.spark import session

job = json.loads(Path(sys.argv[1]).read_text())
spark = session.start("pools")
jvm = spark.sparkContext._jvm
loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
package = "org.apache.spark.sql.kafka010."

def field(of, instance, name):
    names = (name, "$" + name)
    found = next(f for f in of.getDeclaredFields() if f.getName().endswith(names))
    found.setAccessible(True)
    return found.get(instance)

def module(name):
    companion = loader.loadClass(package + name + "$")
    return companion, field(companion, None, "MODULE$")

rows = sum(spark.read.format("kafka").options(**job["source"]).load().count() for _ in range(2))
companion, readers = module("consumer.KafkaDataConsumer")
consumers, fetched = (field(companion, readers, n) for n in ("consumerPool", "fetchedDataPool"))
config = field(consumers.getClass(), consumers, "poolConfig")
pool = field(consumers.getClass(), consumers, "pool")
left = pool.getNumIdle() + pool.getNumActive()
companion, senders = module("producer.InternalKafkaProducerPool")
producers = field(companion, senders, "pool")
params = jvm.java.util.HashMap()
params.put("bootstrap.servers", job["bootstrap"])
for each in ("key.serializer", "value.serializer"):
    params.put(each, "org.apache.kafka.common.serialization.ByteArraySerializer")
evictor = field(producers.getClass(), producers, "scheduled").isDefined()
kept = field(producers.getClass(), producers, "cache")
senders.release(senders.acquire(params))
until = time.monotonic() + (10 if evictor else 0)
while not kept.isEmpty() and time.monotonic() < until:
    time.sleep(0.05)
idle = kept.size()
twice = [senders.acquire(params) for _ in range(2)]
same = twice[0].equals(twice[1])
senders.release(twice[0])
kept.clear()  # as if another had taken its place
senders.release(twice[1])
try:
    twice[1].producer().send(jvm.org.apache.kafka.clients.producer.ProducerRecord("t", b"x"))
    closed = "no"
except Exception as error:
    closed = str(error)
bean = pool.getJmxName()  # null if it is not registered
print("POOLS " + json.dumps({
    "rows": rows,
    "created": pool.getCreatedCount(),
    "freed": pool.getDestroyedCount() - pool.getDestroyedByEvictorCount(),
    "left": left,
    "capacity": config.softMaxSize(),
    "idle": config.getMinEvictableIdleDuration().toMillis(),
    "evictor": config.getDurationBetweenEvictionRuns().toMillis(),
    "jmx": config.getJmxEnabled(),
    "bean": bean and bean.toString(),
    "fetched": field(fetched.getClass(), fetched, "minEvictableIdleTimeMillis"),
    "fetched evictor": field(fetched.getClass(), fetched, "evictorThreadRunIntervalMillis"),
    "producer": field(producers.getClass(), producers, "cacheExpireTimeoutMillis"),
    "producer evictor": evictor,
    "idle producers": idle,
    "same producer": same,
    "closed": closed,
}))
spark.stop()
"""


def pools(
    broker: Broker, topic: str, home: Path, conf: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Read a topic of six partitions twice, by four tasks at once, and take a producer; return the
    pools' settings, what they hold then, and Spark's output.
    """
    topic_records.numbers(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    form = {"name": "pools", "kind": "ingest", "topics": [topic], "lake": str(home / "lake")}
    settings = parse_spec({**form, "spark": {"conf": dict(conf)}}).spark.settings
    window = tuple(
        OffsetRange(topic, p, 0, end)
        for p, end in topic_reader.ends(broker.bootstrap, topic).items()
    )
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.group.id": f"tidegate-{topic}",  # as all chunks of a plan have it
    }
    source = kafka_source.source_options(window, given, max_records_per_task=RECORDS)
    script, job = home / "probe.py", home / "job.json"
    script.write_text(PROBE)
    job.write_text(json.dumps({"source": source, "bootstrap": broker.bootstrap}))
    output: list[str] = []
    application = replace(staging(job, settings, RECORDS, name="pools"), application=str(script))
    submit(application, master=f"local[{TASKS}]", log=output.append)
    (line,) = (each for each in output if each.startswith("POOLS "))
    return json.loads(line.removeprefix("POOLS ")), output


def test_there_is_a_value_for_every_setting() -> None:
    """Of the pools; a new one of the table must be read back, too."""
    of_pools = {
        each.name
        for each in TABLE
        if each.place is Place.SPARK
        and each.answer is Answer.ACCEPTED
        and each.name.startswith("spark.kafka.")
    }
    assert of_pools == CONF.keys()


@pytest.mark.slow
def test_pools_have_the_settings_of_a_pipeline(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Capacity 2 for four tasks at once is exceeded, idle consumers make room, and nothing is lost;
    without an evictor an idle producer stays, and one that is no longer in its pool is closed when
    it is released, with a warning.
    """
    found, output = pools(broker, topic, tmp_path, CONF)
    assert "kafka010-cached-simple-kafka-consumer-pool" in found.pop("bean")
    assert "after producer has been closed" in found.pop("closed")
    assert found.pop("created") >= PARTITIONS
    assert found.pop("freed") > 0
    assert found.pop("left") <= TASKS
    assert found == {
        "rows": 2 * RECORDS, "capacity": 2, "idle": 3_000, "evictor": 200, "jmx": True,
        "fetched": 4_000, "fetched evictor": 300, "producer": 5_000, "producer evictor": False,
        "idle producers": 1, "same producer": True,
    }  # fmt: skip
    assert [each for each in output if "Pool exceeds its soft max size" in each]
    assert [each for each in output if "is not a member of the cache. Closing" in each]


@pytest.mark.slow
def test_consumers_are_used_again(broker: Broker, topic: str, tmp_path: Path) -> None:
    """By the next read of their partition, as the next chunk of a plan is: same group, same pool.
    An idle producer is closed.

    That the same executor reads a partition again is not to be had: Spark prefers executors in
    streams only.
    """
    conf = {
        "spark.kafka.consumer.cache.timeout": "1m",
        "spark.sql.kafkaConsumerCache.capacity": 7,  # the old name
        "spark.kafka.producer.cache.timeout": "500ms",
        "spark.kafka.producer.cache.evictorThreadRunInterval": "100ms",
    }
    found, _ = pools(broker, topic, tmp_path, conf)
    assert (found["rows"], found["created"], found["bean"]) == (2 * RECORDS, PARTITIONS, None)
    assert (found["capacity"], found["freed"], found["left"]) == (7, 0, PARTITIONS)
    assert (found["producer evictor"], found["idle producers"]) == (True, 0)


@pytest.mark.slow
def test_a_producer_in_use_outlives_the_time_out_of_its_pool(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """One task sends for more than 1.5 s with a time-out of 500 ms: by one producer, each row once.

    Every record is a request of its own, one after the other, so that the task is slow.
    """
    count = 60_000
    topic_records.create(broker.bootstrap, topic, partitions=1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("".join(f"{n}\n" for n in range(count)))
    terminal = Terminal(tmp_path, broker.bootstrap, processes=True)
    options = {"kafka.batch.size": 0, "kafka.max.in.flight.requests.per.connection": 1}
    conf = {
        "spark.log.level": "INFO",
        "spark.kafka.producer.cache.timeout": "500ms",
        "spark.kafka.producer.cache.evictorThreadRunInterval": "100ms",
    }
    terminal.egress(
        "out", source={"path": str(tmp_path / "in"), "format": "text"},
        target={"topic": topic, "options": options}, order_by=["value"], spark={"conf": conf},
    )  # fmt: skip
    done = terminal.run("run", "out")
    sent = topic_reader.read(broker.bootstrap, topic)
    assert sorted(int(each.value or b"") for each in sent) == list(range(count))
    times = [each.timestamp for each in sent]
    assert max(times) - min(times) > 1_500
    assert len(client_configs.logged(client_configs.output_of(done), "ProducerConfig")) == 1
