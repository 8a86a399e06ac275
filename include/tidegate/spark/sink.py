"""Spark's Kafka sink, V1: V2 would put the password into the event log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

OBSERVED = "sent"
"""The name of what is observed of a frame, by `DataFrame.observe`, and returned."""


def save_records(frame: DataFrame, options: Mapping[str, str]) -> list[Any] | None:
    """Write the records of a frame. Return what was observed of them, in its order, if anything.

    This is what `save()` does in the end. It executes a copy of the frame, whose metrics nobody
    gets.
    """
    jvm: Any = frame.sparkSession._jvm
    java: Any = frame._jdf
    connector = jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider()
    append = jvm.org.apache.spark.sql.SaveMode.Append
    given = jvm.PythonUtils.toScalaMap(dict(options))
    connector.createRelation(java.sqlContext(), append, given, java)
    metrics = java.queryExecution().observedMetrics()
    if not metrics.contains(OBSERVED):
        return None
    row = metrics.apply(OBSERVED)
    return [row.get(i) for i in range(row.size())]
