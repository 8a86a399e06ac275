"""Start offsets: where a pipeline begins to read the partitions that are new to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tidegate.core.boundaries import to_milliseconds
from tidegate.core.cluster_answers import Survey
from tidegate.core.cursor import Watermarks
from tidegate.core.fold import Fold
from tidegate.errors import ConfigurationError
from tidegate.runs.run import Run
from tidegate.runs.spec_protocol import IngestSpec, StartSpec
from tidegate.settings.old_names import word_of_today

Marks = Mapping[str, Mapping[int, Watermarks]]
"""The watermarks of the partitions that begin now, by topic."""


def start_offsets(
    run: Run, fold: Fold, seen: Survey, notices: list[str]
) -> dict[str, dict[int, int]]:
    """Return where `start` begins the partitions that are new to the ledger, by topic.

    Of a topic that the ledger knows, these are only partitions that `assign` names. `seen` has the
    partitions that the pipeline reads. What users should know is added to `notices`. Raises
    ConfigurationError, with all partitions for which `start` says nothing, or nothing possible.
    """
    new = {topic: marks for topic in run.topics if (marks := _new(run.spec, fold, seen, topic))}
    start = run.spec.start
    # `latest` is for what there was at the first run: what a pattern discovers later loses nothing.
    late = run.spec.pattern is not None and bool(fold.origins)
    if isinstance(start, str):
        word = "earliest" if late else start
        return {t: {p: _edge(word, m) for p, m in marks.items()} for t, marks in new.items()}
    if not new:
        return {}
    if start.offsets is not None:
        return _given_offsets(run.spec, start.offsets, new)
    if start.group is not None:
        committed = run.kafka.committed(start.group)
        found = {t: {p: committed.get(t, {}).get(p) for p in marks} for t, marks in new.items()}
        _refuse_beyond(run, start.group, found, new)
        if not any(t in committed for t in new):
            otherwise = "earliest" if late else start.otherwise or "earliest"
            notices.append(
                f"start.group: group {start.group!r} has committed no offset of "
                f"{', '.join(new)}: begins at {otherwise}"
            )
        return _or_otherwise(run.spec, start, new, found, late=late)
    if start.timestamps is not None:
        _refuse_unnamed(run.spec, "start.timestamps", start.timestamps, new)
    _refuse_future(run.spec, start, new)
    times = {t: {p: to_milliseconds(_time(start, t, p)) for p in new[t]} for t in new}
    return _or_otherwise(run.spec, start, new, run.kafka.offsets_since(times))


def _new(spec: IngestSpec, fold: Fold, seen: Survey, topic: str) -> Mapping[int, Watermarks]:
    """Return the partitions of a topic that have no origin, and get one by `start`."""
    known = fold.topic_ids.get(topic)
    if spec.assign is None:
        return {} if known or topic in seen.leaderless else seen.watermarks[topic]
    if known not in (None, seen.topic_ids.get(topic)):
        return {}
    recorded = fold.origins.get(known or "", {})
    return {p: m for p, m in seen.watermarks.get(topic, {}).items() if p not in recorded}


def _edge(word: str, marks: Watermarks) -> int:
    return marks.start if word_of_today(word) == "earliest" else marks.end


def _time(start: StartSpec, topic: str, partition: int) -> datetime:
    time = start.timestamps[topic][partition] if start.timestamps else start.timestamp
    assert time is not None
    return time


def _or_otherwise(
    spec: IngestSpec,
    start: StartSpec,
    new: Marks,
    found: Mapping[str, Mapping[int, int | None]],
    *,
    late: bool = False,
) -> dict[str, dict[int, int]]:
    """Return the offsets found, and those of `otherwise` for partitions without one."""
    otherwise = start.otherwise or ("latest" if start.group is None else "earliest")
    if otherwise == "fail":
        silent = [(t, p) for t, of in found.items() for p, o in sorted(of.items()) if o is None]
        if start.group is not None:
            said = [f"{t}-{p}: group {start.group!r} has committed no offset" for t, p in silent]
        else:
            said = [
                f"{t}-{p}: no record since {_time(start, t, p).isoformat()}, and the log ends at "
                f"offset {new[t][p].end}"
                for t, p in silent
            ]
        _refuse(spec, "start", said)
    if late:  # only of a group: a topic without a record since a time has none to lose
        otherwise = "earliest"
    return {
        topic: {
            p: _edge(otherwise, m) if (offset := found[topic][p]) is None else offset
            for p, m in marks.items()
        }
        for topic, marks in new.items()
    }


def _refuse_beyond(
    run: Run, group: str, found: Mapping[str, Mapping[int, int | None]], new: Marks
) -> None:
    """Raise ConfigurationError for offsets of a group behind the end of the log: of another log.

    A group that is consuming may be behind the end of the survey, which was made before.
    """

    def beyond(marks: Marks) -> list[tuple[str, int, int]]:
        return [
            (t, p, o)
            for t, of in found.items()
            for p, o in sorted(of.items())
            if o is not None and p in marks[t] and o > marks[t][p].high
        ]

    if suspects := beyond(new):
        topics = sorted({topic for topic, _, _ in suspects})
        marks = {**new, **run.kafka.survey(topics, run.spec.isolation).watermarks}
        _refuse(
            run.spec,
            "start.group",
            [
                f"{t}-{p}: group {group!r} is at offset {o}, beyond the log's end "
                f"{marks[t][p].high}: it has read another topic of this name; reset the group, or "
                "give another start"
                for t, p, o in beyond(marks)
            ],
        )


def _refuse_future(spec: IngestSpec, start: StartSpec, new: Marks) -> None:
    """Raise ConfigurationError for times that have no offset yet."""
    now, what = datetime.now(UTC), "is in the future: it has no offset yet"
    if start.timestamp and start.timestamp > now:
        _refuse(spec, "start.timestamp", [f"{start.timestamp.isoformat()} {what}"])
    if start.timestamps:
        times = ((t, p, _time(start, t, p)) for t in new for p in sorted(new[t]))
        late = [f"{t}-{p}: {at.isoformat()} {what}" for t, p, at in times if at > now]
        _refuse(spec, "start.timestamps", late)


def _given_offsets(
    spec: IngestSpec, given: Mapping[str, Mapping[int, int]], new: Marks
) -> dict[str, dict[int, int]]:
    _refuse_unnamed(spec, "start.offsets", given, new)
    offsets = {
        topic: {
            p: {-2: m.start, -1: m.end}.get(at := given[topic][p], at) for p, m in marks.items()
        }
        for topic, marks in new.items()
    }
    _refuse(
        spec,
        "start.offsets",
        [
            f"{topic}-{p}: {offsets[topic][p]} is not in [{m.start}, {m.end}]"
            for topic, marks in new.items()
            for p, m in sorted(marks.items())
            if not m.start <= offsets[topic][p] <= m.end
        ],
    )
    return offsets


def _refuse_unnamed(
    spec: IngestSpec, key: str, given: Mapping[str, Mapping[int, object]], new: Marks
) -> None:
    """Raise ConfigurationError for new partitions that are not named, and named ones that are not.

    The partitions that `assign` names were compared when the file was read: those that do not exist
    are excluded, and others may have an origin.
    """
    complaints = []
    for topic, marks in new.items():
        named = given.get(topic, {}).keys()
        for p in sorted(marks.keys() - named if spec.assign else marks.keys() ^ named):
            complaints.append(f"{topic}-{p} {'has no start' if p in marks else 'does not exist'}")
    _refuse(spec, key, complaints)


def _refuse(spec: IngestSpec, key: str, complaints: Iterable[str]) -> None:
    if listed := "; ".join(complaints):
        raise ConfigurationError(f"pipeline {spec.name!r}: {key}: {listed}")
