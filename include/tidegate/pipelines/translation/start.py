"""Where the first run begins, and windows: from Spark's options, and from a client's."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tidegate.pipelines.translation.draft import Draft, per_partition
from tidegate.pipelines.translation.given import Given

EARLIEST, LATEST = -2, -1
_WORDS = {
    "earliest": "earliest", "smallest": "earliest", "beginning": "earliest",
    "latest": "latest", "largest": "latest", "end": "latest", "none": "fail", "error": "fail",
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_READ = "not what Spark takes here, so it is not known where to begin"
STARTS = ("startingtimestamp", "startingoffsetsbytimestamp", "startingoffsets")
"""In the order of Spark's precedence."""
ENDS = ("endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets")
STRATEGY = "startingoffsetsbytimestampstrategy"


def of_spark(draft: Draft, given: Mapping[str, Given], *, is_stream: bool) -> None:
    """Set `start` from Spark's options, of which the most specific kind of start counts."""
    chosen = next((name for name in STARTS if name in given), None)
    for name in STARTS:
        if name in given and name != chosen:
            draft.drop(given[name], f"{given[chosen or name].name} has precedence in Spark, too")
    strategy = given.get(STRATEGY)
    if strategy and chosen not in STARTS[:2]:
        draft.drop(strategy, "it is for a start by timestamps")
    if chosen is None:
        if is_stream:
            draft.set(("start",), "latest", None, "the default of a stream of Spark's")
        return
    setting = given[chosen]
    if (value := draft.text(setting)) is None:
        draft.need(setting, _NOT_READ)
    elif chosen == "startingoffsets":
        _offsets(draft, setting, value)
    else:
        _timestamps(draft, setting, value, strategy)


def of_client(draft: Draft, reset: Given | None, group: Given | None, default: str) -> None:
    """Set `start` from `auto.offset.reset` and `group.id` of a consumer.

    `default` is what the consumer does without `auto.offset.reset`. Where the group has stopped
    comes first, as for the consumer itself.
    """
    word = _WORDS.get((reset.value or "").lower()) if reset else default
    if reset and word is None:
        draft.need(reset, "neither earliest (smallest), latest (largest) nor none")
        return
    name = draft.text(group) if group else None
    if group and name:
        why = "continue where the group has stopped; stop its consumers before the first run"
        draft.set(("start", "group"), name, group, why)
        if word != "earliest":  # Tidegate's own
            why = "for partitions in which the group has no offset"
            draft.set(("start", "otherwise"), word, reset, why)
        elif reset:
            draft.drop(reset, "earliest is what start.group does without an offset of the group")
    elif word == "fail" and reset:
        draft.need(reset, "none is for a consumer group, and no group.id is given")
    elif reset:
        draft.set(("start",), word, reset, "where the first run begins")
    else:
        draft.set(("start",), word, None, "the default of a consumer without auto.offset.reset")


def windows(draft: Draft, given: Mapping[str, Given], topics: list[str]) -> None:
    """Note the commands of a backfill that ends where a batch job did."""
    chosen = next((each for each in ENDS if each in given), None)
    for each in ENDS:
        if each in given and each != chosen:
            draft.drop(given[each], f"{given[chosen or each].name} has precedence in Spark, too")
    if chosen is None:
        return
    setting = given[chosen]
    value = draft.text(setting)
    if value is None:
        return
    if value.lower() == "latest":
        draft.drop(setting, "a run reads to the end of the log that its plan has found")
        return
    commands = _commands(chosen, value, topics)
    if not commands:
        draft.refuse(setting, "not what Spark takes here; `tidegate backfill` reads a window")
        return
    draft.drop(setting, "a run reads to the end of the log; the window is a backfill, below")
    draft.commands.append("Only the window of the job, in place of a run:")
    draft.commands += [f"tidegate backfill {draft.form['name']} {each}" for each in commands]


def _commands(chosen: str, value: str, topics: list[str]) -> list[str]:
    """Return the options of `tidegate backfill` for an end; empty if the end is not readable."""
    if chosen == "endingtimestamp":
        end = time(value)
        return [f"--topic {topic} --end {end}" for topic in topics] if end else []
    ends = per_partition(value) or {}
    if chosen == "endingoffsets":
        if any(min(each.values(), default=0) < 0 for each in ends.values()):
            return []
        return [
            f"--topic {shlex.quote(topic)} --end {shlex.quote(json.dumps({topic: numbers}))}"
            for topic, numbers in sorted(ends.items())
        ]
    at: dict[tuple[str, str], list[int]] = defaultdict(list)
    for topic, numbers in sorted(ends.items()):
        for partition, milliseconds in sorted(numbers.items()):
            if (end := time(milliseconds)) is None:
                return []
            at[topic, end].append(partition)
    return [
        f"--topic {shlex.quote(topic)} --partitions {','.join(map(str, partitions))} --end {end}"
        for (topic, end), partitions in at.items()
    ]


def time(milliseconds: int | str) -> str | None:
    """Return milliseconds since 1970 as an ISO time; None if there is no such time."""
    try:
        moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    except (ValueError, OverflowError):
        return None
    digits = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=digits) + "Z"


def _offsets(draft: Draft, setting: Given, value: str) -> None:
    if word := _WORDS.get(value.lower()):
        draft.set(("start",), word, setting, "where the first run begins")
        return
    offsets = per_partition(value)
    numbers = {number for each in (offsets or {}).values() for number in each.values()}
    if not offsets or not numbers:
        draft.need(setting, _NOT_READ)
    elif numbers in ({EARLIEST}, {LATEST}):
        word = "earliest" if numbers == {EARLIEST} else "latest"
        draft.set(("start",), word, setting, "where the first run begins")
    else:
        draft.set(("start", "offsets"), offsets, setting, "where the first run begins")


def _timestamps(draft: Draft, setting: Given, value: str, strategy: Given | None) -> None:
    why = "where the first run begins"
    if setting.name.lower() == "startingtimestamp":
        if (moment := time(value)) is None:
            draft.need(setting, _NOT_READ)
            return
        draft.set(("start", "timestamp"), moment, setting, why)
    else:
        numbers = per_partition(value) or {}
        times = {t: {p: time(number) for p, number in each.items()} for t, each in numbers.items()}
        if not times or None in {each for of in times.values() for each in of.values()}:
            draft.need(setting, _NOT_READ)
            return
        draft.set(("start", "timestamps"), times, setting, why)
    word = (strategy.value or "").lower() if strategy else "error"
    if word not in ("error", "latest"):
        draft.need(strategy or setting, "neither error nor latest")
    elif word == "error":
        why = "" if strategy else "the default of Spark for a partition without a later record"
        draft.set(("start", "otherwise"), "fail", strategy, why)
    elif strategy:
        draft.drop(strategy, "latest is what `start` does without a later record")
