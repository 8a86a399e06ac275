"""Settings of Spark itself that matter here: Kafka's pools, and what Tidegate decides.

Source: Spark's integration guide for Kafka and `kafka010.package` of the connector 4.0. Other names
that begin with `spark.` pass unjudged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.settings.setting import Answer, Check, Place, Setting, boolean, duration, text, whole

# By default Spark keeps the consumers of a task, and the records that they fetched last (up to
# 10,000 a partition), for five minutes: many chunks, topics or partitions would fill a driver of
# 1 GB. Here it drops what the next task does not use at once.
CONSUMER_CACHES = {
    "spark.kafka.consumer.cache.timeout": "500ms",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "100ms",
    "spark.kafka.consumer.fetchedData.cache.timeout": "0",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "100ms",
}
RUN_ONCE = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
}
"""Of an egress: what a task has sent cannot be taken back, so the next attempt does the rest."""


def _never(consequence: str) -> Check:
    """Return the caution about a duration that is not positive."""
    return lambda value: consequence if re.fullmatch(r"\s*(-.*|0+\D*)", value) else None


_POOLS: tuple[tuple[str, str, Check | None, str], ...] = (
    (
        "spark.kafka.consumer.cache.timeout", "5m",
        _never("idle consumers are never closed: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.consumer.cache.evictorThreadRunInterval", "1m",
        _never("idle consumers are never closed: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.consumer.fetchedData.cache.timeout", "5m", None,
        "0 drops at once what no task uses; Spark's documentation has no word on it",
    ),
    (
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval", "1m",
        _never("fetched records are never dropped: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.producer.cache.timeout", "10m", None,
        "a producer that a task uses is never closed, however short this is",
    ),
    (
        "spark.kafka.producer.cache.evictorThreadRunInterval", "1m",
        _never("idle producers are never closed before the application ends"), "",
    ),
)  # fmt: skip
_DIRECT_STREAMS = (
    "spark.streaming.backpressure.enabled",
    "spark.streaming.kafka.consumer.cache.enabled",
    "spark.streaming.kafka.consumer.cache.maxCapacity",
    "spark.streaming.kafka.consumer.poll.ms",
    "spark.streaming.kafka.maxRatePerPartition",
    "spark.streaming.kafka.maxRetries",
)


def _decided(
    name: str, value: str | None, why: str, use: str = "", place: Place = Place.SPARK
) -> Setting:
    return Setting(
        name=name, place=place, answer=Answer.REFUSED, default=value,
        why=f"Tidegate sets it: {why}", use=use,
    )  # fmt: skip


def _no_effect(name: str, why: str, use: str = "") -> Setting:
    return Setting(
        name=name, place=Place.SPARK, answer=Answer.WARNED, why=f"it has no effect: {why}", use=use
    )


SPARK: tuple[Setting, ...] = (
    *(
        Setting(
            name=name, place=Place.SPARK, check=duration, caution=caution, why=why,
            default=CONSUMER_CACHES.get(name), outside=outside,
        )
        for name, outside, caution, why in _POOLS
    ),
    Setting(
        name="spark.kafka.consumer.cache.capacity", place=Place.SPARK, check=whole(1),
        outside="64", why="a soft limit: consumers in use are never closed",
    ),
    Setting(
        name="spark.sql.kafkaConsumerCache.capacity", place=Place.SPARK, answer=Answer.TRANSLATED,
        becomes="spark.kafka.consumer.cache.capacity", why="the name until Spark 3.0",
    ),
    Setting(
        name="spark.kafka.consumer.cache.jmx.enable", place=Place.SPARK, check=boolean,
        outside="false", why="shows the pool of consumers as an MBean of the driver's and the "
        "executors' Java",
    ),
    _decided("spark.submit.deployMode", "client", "elsewhere there is no job file"),
    _decided("spark.master", None, "by the Spark connection", "`spark.connection`"),
    _decided(
        "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS",
        "Spark's own, INT96, has no statistics to prune by",
    ),
    _decided(
        "spark.sql.parquet.writeLegacyFormat", "false",
        "the lake's files have one layout, and headers are a list in it",
    ),
    _decided(
        "spark.sql.maxConcurrentOutputFileWriters", "8", "so that tasks need not sort by topic"
    ),
    Setting(
        name="spark.jars", place=Place.SPARK, check=text,
        why="files of your own; Tidegate adds those of Kafka's connector",
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.WARNED, check=text, use="`spark.jars`",
            why="Spark fetches packages when an application starts: each run needs the network, "
            "and no digest is compared",
        )
        for name in ("spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings")
    ),
    _no_effect("spark.app.name", "Tidegate names the application after the pipeline and the run"),
    _no_effect(
        "spark.sql.streaming.disabledV2Writers",
        "it concerns streams, and an egress always writes by the sink's V1",
    ),
    _no_effect(
        "spark.sql.sources.useV1SourceList",
        "of Kafka Tidegate sets it for each step: V2 to read, V1 to write",
    ),
    *(
        _no_effect(name, "it is of direct streams; a run has a plan", "`max_records`, `schedule`")
        for name in _DIRECT_STREAMS
    ),
    Setting(
        name="spark.sql.streaming.kafka.useDeprecatedOffsetFetching", place=Place.SPARK,
        answer=Answer.WARNED, check=boolean, outside="false",
        why="true looks offsets up with a consumer, which needs READ on the group as well",
    ),
)  # fmt: skip

_SAME_ROWS: Mapping[str, str | None] = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.files.maxPartitionNum": None,
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": "2147483647",
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
SENDING: tuple[Setting, ...] = (
    *(
        _decided(
            name, value, "Spark retries nothing, for what a task has sent cannot be taken back",
            "`retries`, which sends the rest", Place.SENDING,
        )
        for name, value in RUN_ONCE.items()
    ),
    *(
        _decided(
            name, value, "a retry must make the same records of the same rows", "", Place.SENDING
        )
        for name, value in _SAME_ROWS.items()
    ),
)  # fmt: skip
"""Of an egress alone."""
