"""The options of Spark's Kafka source: the offsets of a window, consumer settings, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from tidegate.core.offsets import Window, bounds, spark_offsets
from tidegate.errors import ConfigurationError
from tidegate.spark.option_table import OptionTable

# A given option overrides these. Spark ignores the case of names.
_DEFAULTS = {
    "kafka.max.poll.records": "10000",  # 500: Spark polls twenty times as often
    # At the log's end a waiting fetch holds up Spark's look-ups behind it: 500 ms a partition.
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.partition.fetch.bytes": str(2 * 1024 * 1024),  # more falls out of the cores' caches
    "kafka.receive.buffer.bytes": "-1",  # else Spark sets 64 KiB, which throttles long round trips
    "kafkaconsumer.polltimeoutms": "30000",  # else 120 s until a missing record is a failure
}
_PLANNED = [
    "assign",
    "subscribe",
    "subscribepattern",
    "startingoffsets",
    "endingoffsets",
    "startingtimestamp",
    "endingtimestamp",
    "startingoffsetsbytimestamp",
    "endingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "failondataloss",
    "includeheaders",
    "minpartitions",
    "maxrecordsperpartition",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
]
_OPTIONS = OptionTable(
    kind="an option",
    refused={
        **dict.fromkeys(_PLANNED, "the plan decides what is read"),
        "kafka.auto.offset.reset": "the plan's offsets are the only start",
        "kafka.key.deserializer": "keys are read as bytes",
        "kafka.value.deserializer": "values are read as bytes",
        "kafka.enable.auto.commit": "the ledger keeps the progress",
        "kafka.interceptor.classes": "an interceptor may change or hide records",
    },
    required=("kafka.bootstrap.servers", "kafka.isolation.level"),
    ignore_case=True,
)
_SECRET = re.compile(r"jaas|password|secret|keystore\.key", re.IGNORECASE)
_QUOTED = re.compile(r'(?:password|secret)\w*\s*=\s*"((?:[^"\\]|\\.)+)"', re.IGNORECASE)


def render(
    window: Window, given: Mapping[str, str], *, max_records_per_task: int
) -> dict[str, str]:
    """Return the source's options for exactly this window.

    `given` has the brokers and the isolation level, and any other client settings, as `kafka.…`.
    Raises ConfigurationError with all options that are missing, given twice or refused.
    """
    if wrong := _OPTIONS.complaints(given):
        raise ConfigurationError("Kafka options for Spark: " + "; ".join(wrong), options=wrong)
    starts, ends = bounds([window])
    return {
        **_DEFAULTS,
        **{name.lower(): value for name, value in given.items()},
        "assign": json.dumps({topic: sorted(starts[topic]) for topic in sorted(starts)}),
        "startingoffsets": spark_offsets(starts),
        "endingoffsets": spark_offsets(ends),
        "failondataloss": "true",
        "includeheaders": "true",
        "maxrecordsperpartition": str(max_records_per_task),
    }


def redact(text: str, given: Mapping[str, str]) -> str:
    """Return `text` without the secrets among the options, which an exception may quote."""
    for secret in sorted(_secrets(given), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _secrets(given: Mapping[str, str]) -> Iterator[str]:
    for name, value in given.items():
        if value and _SECRET.search(name):
            yield value
            for quoted in re.findall(_QUOTED, value):
                yield quoted
                yield re.sub(r"\\(.)", r"\1", quoted)
