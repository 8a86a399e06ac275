"""Replay of an egress: resolve and validate what is sent again.

It is a window of a lake, or files that were sent. Anything that the lake covers can be sent, even
if Kafka has deleted it. Kafka is asked only if the window's edges are times.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core import windows
from tidegate.core.boundaries import Boundary
from tidegate.core.fold import REPLAY, Fold
from tidegate.core.nearest import did_you_mean
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOutFile, Plan, SourceFile
from tidegate.core.requests import FileReplay, Replay
from tidegate.core.source_root import Root
from tidegate.core.work import delivery_state
from tidegate.egress.backlog import Backlog, unchanged_files
from tidegate.egress.byte_settings import line_ends
from tidegate.egress.lake_source import SourceLake, Unsent, open_source_lake
from tidegate.errors import ConfigurationError, LakeUnavailable, WindowRefused
from tidegate.lake import boundary_files, deliveries, sources
from tidegate.lake.ledger import written_at
from tidegate.runs.boundary_search import Topic, refuse_leaderless, resolve_boundaries
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.replay_id import id_complaints, refuse_another
from tidegate.runs.requested_windows import without_files
from tidegate.runs.run import EgressRun, OpenRun
from tidegate.runs.spec_protocol import EgressSpec, Pipelines, Spec
from tidegate.runs.topics import choose_topic

_NAMED = 20

logger = logging.getLogger(__name__)


def replay_settings(
    spec: EgressSpec,
    topic: str | None,
    pipelines: Pipelines,
    kafka_of: Callable[[Spec], Kafka],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings of a run that replays what is `given`: files, or a window of a lake.

    ConfigurationError for what the pipeline's source does not have, and for a lake of several
    topics without the name of one.
    """
    if spec.source.lake is None:
        others = {**given, "topic": topic}
        if of_lakes := [name for name in ("topic", "partitions", "where") if others.get(name)]:
            raise ConfigurationError(
                f"pipeline {spec.name!r} sends files: {', '.join(of_lakes)} is for a lake; give "
                "the names of files, or globs, or the times between which they were sent"
            )
        fields = {name: given[name] for name in ("id", "files", "start", "end")}
        return {"asked": FileReplay(**fields)}
    window = without_files(spec.name, given)
    source = pipelines.load_ingest(spec.source.lake)
    chosen = choose_topic(spec.name, spec.source.topics or source.topics, topic)
    return {"asked": Replay(chosen, **window), "source_kafka": kafka_of(source)}


def check_request(run: EgressRun, asked: Replay | FileReplay, fold: Fold, plan: Plan) -> None:
    """Raise ReplayRefused if the replay's id belongs to another request. Log if it is done."""
    refuse_another(run, asked, plan)
    state = delivery_state(fold, plan.id)
    if state.is_done:
        n = state.commit
        logger.info(
            "%s: replay %s was done before%s; use a new id to send it again",
            run.spec.name, asked.id, f", as entry #{n}" if n else ": it was declared sent",
        )  # fmt: skip


def may_be_replaced(asked: Replay | FileReplay, fold: Fold, plan: Plan) -> bool:
    """Say whether a corrected request may replace a replay's plan.

    It may if that plan was refused before the first record was sent.
    """
    corrected = plan.replay is None or plan.replay["asked"] != asked.to_json()
    return corrected and delivery_state(fold, plan.id).is_unsent


def requested_backlog(
    opened: OpenRun[EgressRun], asked: Replay | FileReplay, *, record: bool
) -> Backlog:
    """Return the files of a replay, or the ranges of its window; WindowRefused with all complaints.

    With `record`, the boundaries of its times are frozen in the lake. Else nothing is written.
    """
    if isinstance(asked, FileReplay):
        return _sent_files(opened, asked)
    run = opened.run
    lake = open_source_lake(str(run.spec.source.lake), run.stores, run.pipelines)
    for _ in range(boundary_files.MOST_TRIES):
        ranges, cuts = _resolve_window(run, asked, lake)
        if not record or all(boundary_files.freeze_boundary(lake.store, each) for each in cuts):
            return Backlog(unsent=Unsent(lake, lake.fold.topic_ids, tuple(ranges)))
    raise LakeUnavailable(
        f"pipeline {run.spec.name!r}: other processes froze times of {asked.topic} first, "
        f"{boundary_files.MOST_TRIES} times in a row; nothing was planned, try again"
    )


def _sent_files(opened: OpenRun[EgressRun], asked: FileReplay) -> Backlog:
    """Return the files that were sent and that a request names, as they were sent."""
    spec, store, fold = opened.run.spec, opened.store, opened.ledger.fold
    complaints = id_complaints(asked)
    if not (asked.files or asked.start or asked.end):
        complaints.append("give names of files, or globs, `*` for all; or when they were sent")
    sent = _sent_between(opened, asked, complaints)
    globs = asked.files or ("*",)  # a name may look like one
    matching = {each: [each] if each in sent else fnmatch.filter(sent, each) for each in globs}
    for glob, found in matching.items():
        if not found:
            near = did_you_mean(glob, sent)
            complaints.append(f"no file that was sent has the name {glob!r}{near}")
    names = sorted({name for found in matching.values() for name in found})
    source = opened.run.stores.source(Root.of(str(spec.source.path)))
    listed = sources.list_source(source, settle=0)
    there = {file.name: file for file in (*listed.files, *listed.young) if file.name in names}
    same = unchanged_files(source, store, fold, list(there.values()))
    for name in names:
        if name not in there:
            complaints.append(f"{name} is gone")
        elif there[name].etag != fold.egress.sent[name] and name not in same:
            complaints.append(f"{name} has changed since: `tidegate run --resend` sends it")
    taken, columns = list(there.values()), None
    if line_ends(spec.source) is None and spec.source.columns is None:
        columns, judged = sources.read_footers(source, taken, len(taken), fold.egress.columns)
        whole = list(judged)
        complaints += [str(each) for each in whole if isinstance(each, LeftOutFile)]
        taken = [each for each in whole if isinstance(each, SourceFile)]
    if complaints:
        more = [f"and {len(complaints) - _NAMED:,} more"] if complaints[_NAMED:] else []
        says = "".join(f"\n  - {each}" for each in complaints[:_NAMED] + more)
        raise WindowRefused(
            f"pipeline {spec.name!r}, replay of files: nothing was sent:{says}",
            complaints=complaints,
        )
    return Backlog(files=tuple(taken), taken=tuple(taken), columns=columns)


def _sent_between(
    opened: OpenRun[EgressRun], asked: FileReplay, complaints: list[str]
) -> Collection[str]:
    """Return the names of files that count as sent; of a time, those of its commits, without
    replays.
    """
    fold, store = opened.ledger.fold, opened.store
    if not (asked.start or asked.end):
        return fold.egress.sent.keys()
    start = _moment("start", asked.start, complaints) or datetime.min.replace(tzinfo=UTC)
    end = _moment("end", asked.end, complaints) or datetime.max.replace(tzinfo=UTC)
    commits = sorted(n for n, commit in fold.live.items() if commit.lane != REPLAY)
    times = store.each(lambda n: written_at(store, n), commits)
    within = [n for n, at in zip(commits, times, strict=True) if start <= at < end]
    read = store.each(lambda n: deliveries.committed_delivery(store, fold.live[n]), within)
    found = {each.file: each.etag for delivery in read for each in delivery.files}
    if not (complaints or found):
        complaints.append("no file was sent in this time")
    complaints += [
        f"{name} was sent again later, with other content: name it by --file alone"
        for name, etag in sorted(found.items())
        if fold.egress.sent.get(name) != etag
        and any(fnmatch.fnmatch(name, f) for f in asked.files or ("*",))
    ]
    return found.keys() & fold.egress.sent.keys()


def _moment(name: str, text: str | None, complaints: list[str]) -> datetime | None:
    try:
        at = datetime.fromisoformat(text) if text else None
        return at and (at if at.tzinfo else at.replace(tzinfo=UTC))
    except ValueError:
        complaints.append(f"{name} {text!r}: a date, a time, or -1d, -6h, -30m")
        return None


def _resolve_window(
    run: EgressRun, asked: Replay, lake: SourceLake
) -> tuple[list[OffsetRange], list[Boundary]]:
    topic, fold = asked.topic, lake.fold
    topics = run.spec.source.topics or tuple(fold.topic_ids)
    edges = windows.parse_edges(topic, asked.start, asked.end, datetime.now(UTC))
    complaints = id_complaints(asked) + edges.complaints
    if asked.where is not None and not asked.where.strip():
        complaints.append("where: an SQL expression, or leave it out")
    topic_id = fold.topic_ids.get(topic) if topic in topics else None
    if topic_id is None:
        in_lake = [t for t in topics if t in fold.topic_ids]
        missing = f"{topic} is not in the lake: of {lake.pipeline.name!r} there are {in_lake}"
        missing += did_you_mean(topic, in_lake)
        raise _refusal(run, lake, topic, [missing, *complaints])
    partitions = set(fold.origins[topic_id])
    by_time: dict[datetime, Boundary] = {}
    if edges.timestamps:
        assert run.source_kafka is not None
        seen = run.source_kafka.survey([topic], lake.pipeline.isolation)
        if seen.topic_ids.get(topic) == topic_id:
            refuse_leaderless(seen, topic)
            marks = seen.watermarks[topic]
            partitions |= marks.keys()
            in_kafka = Topic(
                topic, topic_id, marks, run.source_kafka, lake.store, lake.pipeline.name
            )
            by_time = resolve_boundaries(in_kafka, edges.timestamps, complaints)
        else:
            now = seen.topic_ids.get(topic, "gone")
            complaints.append(
                f"the lake has topic {topic_id}, which is {now} in Kafka: a time cannot be "
                "resolved there; give offsets"
            )
            edges.discard(*edges.timestamps)
    chosen = windows.choose_partitions(asked.partitions, edges, partitions, complaints)
    edges.end_at(fold.cursors(topic), chosen)
    requested = windows.resolve_ranges(topic, chosen, edges, by_time, complaints)
    for r in requested:
        complaints += _uncovered(fold, topic_id, r)
    ranges = [r for r in requested if len(r)]
    if not complaints and not ranges:
        complaints.append("the window is empty")
    if complaints:
        raise _refusal(run, lake, topic, complaints)
    return ranges, list(by_time.values())


def _uncovered(lake: Fold, topic_id: str, r: OffsetRange) -> list[str]:
    """Return a complaint for each part of a range that no commit of this topic id contains."""
    complaints = []
    for start, end in lake.covered[topic_id, r.partition].missing(r.start, r.end):
        why = "is not in the lake"
        for earlier in lake.earlier_ids.get(r.topic, ()):
            if any(lake.covered[earlier, r.partition].within(start, end)):
                why += f" under topic id {topic_id}, only under {earlier}: the topic was recreated"
        complaints.append(f"partition {r.partition}: [{start}, {end}) {why}")
    return complaints


def _refusal(run: EgressRun, lake: SourceLake, topic: str, complaints: list[str]) -> WindowRefused:
    listed = "".join(f"\n  - {each}" for each in complaints)
    return WindowRefused(
        f"pipeline {run.spec.name!r}, replay of {topic}: nothing was sent:{listed}\n"
        f"`tidegate coverage {lake.pipeline.name}` shows what the lake has",
        complaints=complaints,
    )
