"""Where the first run begins, and windows: from Spark's options, and from a client's."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.core.windows import parse_edges, resolve_ranges
from tidegate.pipelines.translation.draft import TOPIC, Draft, per_partition
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
CHECKPOINTS = ("checkpointlocation", "spark.sql.streaming.checkpointLocation")
_UNBOUNDED = "the job ends there, and a run of the pipeline reads to the end of the log"
_NO_WINDOW = (
    f"{_UNBOUNDED}; no window of `tidegate backfill` is the same: it needs a start and an end of "
    "each partition, both as offsets, or both as times that are past"
)
_Edges = Mapping[str, Mapping[Any, int | str]]
"""Offsets or ISO times by topic and partition; None: of all partitions."""


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


def is_earliest(reset: Given) -> bool:
    """Return whether a consumer without offsets begins at the start of the log."""
    return _WORDS.get(reset.value.lower()) == "earliest"


def of_client(draft: Draft, reset: Given | None, group: Given | None, default: str) -> None:
    """Set `start` from `auto.offset.reset` and `group.id` of a consumer.

    `default` is what the consumer does without `auto.offset.reset`. Where the group has stopped
    comes first, as for the consumer itself.
    """
    word = _WORDS.get(reset.value.lower()) if reset else default
    if reset and word is None:
        draft.need(reset, "neither earliest (smallest), latest (largest) nor none")
        return
    name = draft.text(group) if group else None
    if group and name is None and group.value.strip():
        draft.need(group, "the group is not known, and so not where it has stopped")
    elif group and name:
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


def without(draft: Draft, given: Mapping[str, Given]) -> None:
    """Note the settings of a client that do not say where to begin."""
    for name in ("group.id", "auto.offset.reset"):
        if name in given:
            draft.drop(given[name], "start.offsets says where to begin")


def of_checkpoint(draft: Draft, given: Mapping[str, Given]) -> set[str]:
    """Return the names of a stream's checkpoint that are missing as offsets, and note them.

    None is missing if `start` is not behind what the stream has read.
    """
    start: Any = draft.form.get("start")
    offsets = start.get("offsets", {}) if isinstance(start, dict) else {}
    skips = start == "latest" or any(LATEST in each.values() for each in offsets.values())
    names = {*CHECKPOINTS} & given.keys() if skips else set()
    for name in sorted(names):
        draft.need(given[name], "the stream has stopped at the offsets in the directory `offsets` "
                   "there, of the last batch that is in `commits`: give them to start.offsets; "
                   "latest would skip records")  # fmt: skip
    return names


def windows(draft: Draft, given: Mapping[str, Given], topics: list[str]) -> None:
    """Note the commands of a backfill that begins and ends where a batch job did."""
    chosen = next((each for each in ENDS if each in given), None)
    for each in ENDS:
        if each in given and each != chosen:
            draft.drop(given[each], f"{given[chosen or each].name} has precedence in Spark, too")
    if chosen is None:
        return
    setting = given[chosen]
    value = draft.text(setting)
    if value is None:
        if setting.value != "":
            draft.need(setting, _NO_WINDOW)
        return
    ends = _ends(chosen, value, topics)
    starts = _starts(draft.form.get("start"), topics)
    offsets = {edge for each in (ends or {}).values() for edge in each.values()}
    if value.lower() == "latest" or offsets == {LATEST}:
        draft.drop(setting, "a run reads to the end of the log that its plan has found")
    elif ends is None:
        draft.need(setting, f"not what Spark takes here; {_UNBOUNDED}")
    elif commands := _commands(starts, ends, topics):
        draft.drop(setting, "a run reads to the end of the log; the window is a backfill, below")
        draft.commands.append("Only the window of the job, in place of a run:")
        draft.commands += [f"tidegate backfill {draft.form['name']} {each}" for each in commands]
    else:
        draft.need(setting, _NO_WINDOW)


def _starts(start: Any, topics: list[str]) -> _Edges:
    """Return where the windows begin; nothing for a word, and for a start that is not known."""
    if not isinstance(start, dict):
        return {}
    if "timestamp" in start:
        return {topic: {None: start["timestamp"]} for topic in topics}
    edges: _Edges = start.get("timestamps") or start.get("offsets") or {}
    return edges


def _ends(chosen: str, value: str, topics: list[str]) -> _Edges | None:
    """Return where the windows end; None if that is not what Spark takes."""
    if chosen == "endingtimestamp":
        end = time(value)
        return {topic: {None: end} for topic in topics} if end else None
    if chosen == "endingoffsetsbytimestamp":
        return _times(value)
    offsets = per_partition(value) or {}
    known = all(each and min(each.values()) >= LATEST for each in offsets.values())
    return offsets if offsets and known else None


def _commands(starts: _Edges, ends: _Edges, topics: Collection[str]) -> list[str]:
    """Return the options of `tidegate backfill` for the windows; none if it refuses one of them."""
    if ends.keys() != {*topics} or not all(map(TOPIC.fullmatch, topics)):
        return []
    commands = []
    for topic, end in sorted(ends.items()):
        for (first, last), partitions in _windows(topic, starts.get(topic, {}), end).items():
            if not _is_window(topic, first, last):
                return []
            some = f" --partitions {','.join(map(str, partitions))}" if partitions else ""
            edges = f"--start {shlex.quote(first)} --end {shlex.quote(last)}"
            commands.append(f"--topic {topic}{some} {edges}")
    return commands


def _windows(
    topic: str, start: Mapping[Any, int | str], end: Mapping[Any, int | str]
) -> dict[tuple[str, str], list[int]]:
    """Return partitions by the edges of their window, as `tidegate backfill` reads these.

    No partition: all that the edges name, or that there are.
    """
    if all(isinstance(each, int) for each in end.values()):
        return {(json.dumps({topic: start}), json.dumps({topic: end})): []}
    windows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for p in sorted({*start, *end} - {None}):
        first, last = (str(each.get(p, each.get(None, ""))) for each in (start, end))
        windows[first, last].append(p)
    return windows or {(str(start.get(None, "")), str(end[None])): []}


def _is_window(topic: str, start: str, end: str) -> bool:
    edges = parse_edges(topic, start, end, datetime.now(UTC))
    if not edges.timestamps:
        resolve_ranges(topic, edges.partitions, edges, {}, edges.complaints)
    return not edges.complaints


def _times(text: str) -> dict[str, dict[int, str]] | None:
    """Return ISO times by topic and partition, from Spark's JSON; None if it is none."""
    times: dict[str, dict[int, str]] = defaultdict(dict)
    for topic, numbers in (per_partition(text) or {}).items():
        for partition, number in numbers.items():
            if (at := time(number)) is None:
                return None
            times[topic][partition] = at
    return {**times} or None


def time(milliseconds: int | str) -> str | None:
    """Return milliseconds since 1970 as an ISO time; None if there is no such time.

    Those below 0 are none: a broker takes -1 for the end of the log, and -2 for its start.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    except (ValueError, OverflowError):
        return None
    if moment < _EPOCH:
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
        if (times := _times(value)) is None:
            draft.need(setting, _NOT_READ)
            return
        draft.set(("start", "timestamps"), times, setting, why)
    word = strategy.value.lower() if strategy else "error"
    if word not in ("error", "latest"):
        draft.need(strategy or setting, "neither error nor latest")
    elif word == "error":
        why = "" if strategy else "the default of Spark for a partition without a later record"
        draft.set(("start", "otherwise"), "fail", strategy, why)
    elif strategy:
        draft.drop(strategy, "latest is what `start` does without a later record")
