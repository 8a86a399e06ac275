"""Settings that are neither about topics nor about where to begin and end."""

from __future__ import annotations

import re
from dataclasses import replace

from tidegate.pipelines.translation import connection
from tidegate.pipelines.translation.draft import Draft, cron
from tidegate.pipelines.translation.given import Given
from tidegate.settings.kafka_clients import COMMON, CONSUMER, PRODUCER
from tidegate.settings.setting import Place
from tidegate.settings.table import find

_PROGRESS = "the ledger keeps the progress, and is written with the data"
_FILES = "files of the lake are Parquet, in directories of their own"
_BYTES = "keys and values stay bytes: decode them in a view, or by `columns` of an egress"
DROPPED = {
    "checkpointlocation": f"{_PROGRESS}; to begin where the stream has stopped, give start.offsets "
    "the offsets in its directory `offsets`, of the last batch that is in `commits`",
    "checkpoint": _PROGRESS,
    "path": "the lake is the key `lake`",
    "format": _FILES,
    "partitionby": _FILES,
    "compression": _FILES,
    "maxrecordsperfile": _FILES,
    "queryname": "runs are named by their pipeline",
    "schema": _BYTES,
    "failonnodata": "a run without new records does nothing",
    "--class": "no program is submitted",
}
_STREAMS = "spark.streaming.", "spark.sql.streaming."
_UNITS = {
    "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000,
    "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "day": 86_400_000,
}  # fmt: skip
_PACKAGES = ("spark.jars.packages", "spark.jars")
_OWN = (
    r"(?:spark-(?:sql|streaming|token-provider)-kafka-0-\d+(?:-assembly)?|spark-hadoop-cloud"
    r"|kafka-clients|commons-pool2|hadoop-aws|aws-java-sdk(?:-[a-z][a-z0-9]*)*)(?:_\d+\.\d+)?"
)
_OWN_PACKAGE = re.compile(rf"software\.amazon\.awssdk:.*|[\w.-]+:{_OWN}:.*")
_OWN_JAR = re.compile(rf"(?:.*/)?{_OWN}-\d[^/]*\.jar")
_INTERVAL = re.compile(r"(?:interval\s+)?(\d{1,9})\s*([a-z]+)", re.IGNORECASE)


def pass_on(draft: Draft, place: Place, name: str, each: Given) -> None:
    """Translate a setting that is neither about topics nor about where to begin and end."""
    bare = name.removeprefix("kafka.")
    if not each.name:
        draft.refuse(each, "not a setting")
    elif connection.belongs(bare):
        draft.connect(each, bare)
    elif name == "failondataloss":
        value = (draft.text(each) or "").lower()
        if value in ("true", "false"):
            on_expired = "skip" if value == "false" else "fail"
            draft.set(("on_expired",), on_expired, each, "records that are gone: a gap, or a fault")
        elif value:
            draft.refuse(each, "neither true nor false")
    elif name == "maxoffsetspertrigger":
        _max_records(draft, each)
    elif name == "trigger":
        schedule(draft, each, _milliseconds(each.value))
    elif name == "outputmode":
        appends = each.value.lower() == "append"
        (draft.drop if appends else draft.refuse)(each, "the lake is only ever appended to")
    elif name in DROPPED:
        draft.drop(each, DROPPED[name])
    elif name in _PACKAGES:
        _packages(draft, place, each)
    elif name.startswith("spark."):
        spark = _spark(place)
        if name.startswith(_STREAMS) and not find(spark, each.name):
            draft.drop(each, "of streams: a run reads to the end of the log, by max_records")
        else:
            draft.judged(spark, each)
    elif find(place, each.name) or find(place, f"kafka.{bare}"):
        known = find(place, each.name)
        draft.judged(place, each, each.name if known else f"kafka.{each.name}")
    elif "." in name or name in {**COMMON, **CONSUMER, **PRODUCER}:
        draft.judged(place, each)  # nothing is known about it; the table offers the nearest
    else:
        draft.unknown(each)


def _spark(place: Place) -> Place:
    return Place.SENDING if place is Place.SINK else Place.SPARK


def _packages(draft: Draft, place: Place, each: Given) -> None:
    """Keep the packages or jars of a job, but for those that Tidegate brings itself."""
    value = draft.text(each)
    if value is None:
        return
    own = _OWN_JAR if each.name == "spark.jars" else _OWN_PACKAGE
    given = [part.strip() for part in value.split(",")]
    kept = [part for part in given if part and not own.fullmatch(part)]
    if len(kept) < len(given):
        draft.drop(each, "without those of Kafka's connector and of S3: Tidegate adds the ones of "
                   "its own Spark, and there must not be two")  # fmt: skip
    if kept:
        draft.judged(_spark(place), replace(each, value=",".join(kept)))


def _max_records(draft: Draft, each: Given) -> None:
    value = draft.text(each)
    if value and re.fullmatch("[1-9][0-9]{0,17}", value):
        why = "offsets per commit; a run has as many commits as it needs"
        draft.set(("max_records",), int(value), each, why)
    elif value:
        draft.refuse(each, "not a whole number above 0")


def schedule(draft: Draft, each: Given, milliseconds: int) -> None:
    """Set `schedule` from the interval of a trigger; without one, note why there is none."""
    if expression := cron(milliseconds):
        draft.set(("schedule",), expression, each, "a run at each interval, in UTC")
    elif each.value.lower() == "once":
        draft.drop(each, "each run ends; `schedule` says when Airflow starts one")
    else:
        draft.drop(each, "no cron expression has this interval; `schedule` says when a run starts")


def _milliseconds(text: str) -> int:
    if not (match := _INTERVAL.fullmatch(text.strip())):
        return 0
    unit = match[2].lower()
    return int(match[1]) * _UNITS.get(unit, _UNITS.get(unit.removesuffix("s"), 0))
