"""Settings of Spark itself that matter here: Kafka's pools, and what Tidegate decides.

Source: Spark's integration guide for Kafka and `kafka010.package` of the connector 4.0. Other names
that begin with `spark.` pass unjudged.
"""

from __future__ import annotations

from tidegate.settings.setting import Answer, Place, Setting, boolean, duration, whole

# By default Spark keeps the consumers of a task, and the records that they fetched last (up to
# 10,000 a partition), for five minutes: many chunks, topics or partitions would fill a driver of
# 1 GB. Here it drops what the next task does not use at once.
CONSUMER_CACHES = {
    "spark.kafka.consumer.cache.timeout": "500ms",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "100ms",
    "spark.kafka.consumer.fetchedData.cache.timeout": "0",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "100ms",
}
_OUTSIDE = {
    "spark.kafka.consumer.cache.timeout": "5m",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1m",
    "spark.kafka.consumer.fetchedData.cache.timeout": "5m",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1m",
    "spark.kafka.producer.cache.timeout": "10m",
    "spark.kafka.producer.cache.evictorThreadRunInterval": "1m",
}
_ONCE = "Spark retries nothing, for what a task has sent cannot be taken back"


def _decided(name: str, value: str, why: str) -> Setting:
    return Setting(
        name=name, place=Place.SPARK, answer=Answer.REFUSED, default=value,
        why=f"Tidegate sets it: {why}",
    )  # fmt: skip


def _no_effect(name: str, why: str) -> Setting:
    return Setting(
        name=name, place=Place.SPARK, answer=Answer.WARNED, why=f"it has no effect: {why}"
    )


SPARK: tuple[Setting, ...] = (
    *(
        Setting(
            name=name, place=Place.SPARK, check=duration,
            default=CONSUMER_CACHES.get(name), outside=outside,
        )
        for name, outside in _OUTSIDE.items()
    ),
    Setting(
        name="spark.kafka.consumer.cache.capacity", place=Place.SPARK, check=whole(1),
        outside="64", why="a soft limit: consumers in use are never closed",
    ),
    Setting(
        name="spark.kafka.consumer.cache.jmx.enable", place=Place.SPARK, check=boolean,
        outside="false",
    ),
    _decided("spark.submit.deployMode", "client", "elsewhere there is no job file"),
    _no_effect(
        "spark.sql.streaming.disabledV2Writers", "an egress always writes by the sink's V1"
    ),
    _no_effect("spark.sql.sources.useV1SourceList", "Tidegate sets it for each step"),
    Setting(
        name="spark.sql.streaming.kafka.useDeprecatedOffsetFetching", place=Place.SPARK,
        answer=Answer.WARNED, check=boolean, outside="false",
        why="true looks offsets up with a consumer, which needs READ on the group as well",
    ),
)  # fmt: skip

SENDING: tuple[Setting, ...] = (
    _decided("spark.task.maxFailures", "1", _ONCE),
    _decided("spark.stage.maxConsecutiveAttempts", "1", _ONCE),
    _decided("spark.speculation", "false", _ONCE),
    _decided("spark.dynamicAllocation.enabled", "false", _ONCE),
)
"""Of an egress alone."""
