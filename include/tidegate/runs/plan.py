"""Plan: repair what crashed, look at ledger and broker, freeze what this run will do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate import faults
from tidegate.broker.cluster import Cluster, Survey, survey
from tidegate.core.entries import Gap
from tidegate.core.ledger import CutTo, Fold, Lost
from tidegate.core.live import Draft, draft_live
from tidegate.core.plan import Plan
from tidegate.core.planning import chunked
from tidegate.errors import ConfigurationError, IdentityChanged, UnknownTopic
from tidegate.lake import attempts, plans, publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.plans import Frozen
from tidegate.lake.store import Store
from tidegate.pipelines.spec import Ingest, StartAt
from tidegate.runs import mirrored
from tidegate.runs.run import Run

LANE = "live"
_BYTES_PER_FILE = 256 * 1024 * 1024
_TELLING_BYTES = 16 * 1024 * 1024  # of less, a good part is footers
_RECORDS_PER_FILE = 1_000_000  # until a commit tells how many bytes a record takes

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Planned:
    """A run's living plan. `known` says that it was frozen before this call."""

    frozen: Frozen
    known: bool

    @property
    def plan(self) -> Plan:
        return self.frozen.plan


def plan(run: Run, *, replan: bool = False) -> Planned:
    """Return the run's plan, freezing one if it has none that can still be carried out.

    First it finalises what crashed publishers left and puts the mirror right. `replan` makes the
    next generation although the current one is well.
    """
    shown = mirrored.read(run.mirror, run.spec)
    store = run.store()
    ledger = run.ledger(store)
    publishing.roll_forward(store, ledger.fold)
    mirrored.restore(run.mirror, run.spec, shown, ledger.fold)
    current = plans.latest(store, run.key)
    if current:
        cause = _cause_of_death(run, store, ledger.fold, current.plan)
        if cause is None and not replan:
            return Planned(current, known=True)
        if cause:
            logger.warning("plan %s: %s; planning again", current.plan.id, cause)
            # What is sealed is proven and may be all that is left of it.
            publishing.publish_sealed(store, ledger, current.plan, run=run.run_id)
    seen = _surveyed(run)
    drafted = _recorded_draft(run, ledger, seen)
    day = current.plan.window_date if current else run.window_date.isoformat()
    made = _plan_of(run, store, ledger.fold, seen, drafted, day)
    if current and made.id == current.plan.id:
        return Planned(current, known=True)  # there is nothing else to do
    frozen = plans.freeze(
        store,
        run.key,
        made,
        generation=current.generation + 1 if current else 1,
        note=_note(run, seen),
    )
    logger.info(
        "%s: plan %s, generation %d: %d offsets in %d chunks",
        run.spec.name, frozen.plan.id, frozen.generation, made.records, len(made.chunks),
    )  # fmt: skip
    faults.point("plan.frozen")
    return Planned(frozen, known=False)


def preview(run: Run) -> Plan:
    """Return the plan that `plan` would freeze now; nothing is written anywhere."""
    store = run.store()
    fold = run.ledger(store).fold
    seen = _surveyed(run)
    draft = _draft(run, fold, seen)
    return _plan_of(run, store, fold, seen, draft, run.window_date.isoformat())


def open_chunks(store: Store, fold: Fold, plan: Plan) -> list[int]:
    """Return the chunks that nobody has sealed, committed or covered: they must be staged."""
    seals = attempts.sealed(store, plan, fold)
    return [
        number
        for number, window in enumerate(plan.chunks)
        if (plan.id, number) not in fold.committed
        and number not in seals
        and not fold.covers(window, plan.topics)
    ]


def _cause_of_death(run: Run, store: Store, fold: Fold, plan: Plan) -> str | None:
    """Say why a plan can never be carried out, if so. Asks the broker only if it has work left."""
    for number, window in enumerate(plan.chunks):
        if (plan.id, number) not in fold.committed and not fold.covers(window, plan.topics):
            taken = fold.covered_part(window, plan.topics)
            if taken:
                return f"others have committed {taken[0]} of its chunk {number}"
    todo = open_chunks(store, fold, plan)
    if not todo:
        return None
    seen = _surveyed(run)
    if seen.cluster_id != plan.cluster_id:
        return f"the cluster is {seen.cluster_id}, not {plan.cluster_id}"
    for r in (r for number in todo for r in plan.chunks[number]):
        if seen.topic_ids.get(r.topic) != plan.topics[r.topic]:
            return f"topic {r.topic} is not the one that was planned"
        marks = seen.watermarks[r.topic].get(r.partition)
        if marks is None or marks.start > r.start or marks.high < r.end:
            return f"{r} is not all in the log any more"
    return None


def _surveyed(run: Run) -> Survey:
    return survey(run.kafka, run.spec.topics, run.spec.isolation)


def _recorded_draft(run: Run, ledger: Ledger, seen: Survey) -> Draft:
    """Draft, and record its origins and gaps; who loses a race drafts again."""
    while True:
        draft = _draft(run, ledger.fold, seen)
        if all(
            not isinstance(ledger.append(origin, run=run.run_id), Lost) for origin in draft.origins
        ):
            break
    for gap in draft.gaps:
        _record(ledger, gap, run.run_id)
    return draft


def _record(ledger: Ledger, gap: Gap, run_id: str) -> None:
    outcome = ledger.append(gap, run=run_id)
    if isinstance(outcome, CutTo):
        for part in outcome.gaps:
            _record(ledger, part, run_id)


def _draft(run: Run, fold: Fold, seen: Survey) -> Draft:
    spec = run.spec
    unseen = [t for t in spec.topics if t not in seen.identities and t not in fold.topic_ids]
    if unseen:
        raise UnknownTopic(
            f"pipeline {spec.name!r}: Kafka at {run.kafka.bootstrap_servers} has no topic "
            f"{', '.join(unseen)}, or this user may not DESCRIBE it: create it, grant DESCRIBE, or "
            "correct `topics`",
            topics=unseen,
        )
    if fold.cluster_id not in (None, seen.cluster_id):
        raise IdentityChanged(
            f"pipeline {spec.name!r} has read cluster {fold.cluster_id}; Kafka at "
            f"{run.kafka.bootstrap_servers} is cluster {seen.cluster_id}. Point the connection "
            f"{run.kafka.connection!r} back, or give the new cluster a pipeline of its own",
            was=fold.cluster_id,
            now=seen.cluster_id,
        )
    return draft_live(
        fold,
        spec.topics,
        seen.topic_ids,
        seen.watermarks,
        _first_sight(run, fold, seen),
        on_expired=spec.on_expired,
        by=run.run_id,
    )


def _first_sight(run: Run, fold: Fold, seen: Survey) -> dict[str, dict[int, int]]:
    """Return where topics that the ledger does not know yet begin, by the pipeline's `start`."""
    new = {t: seen.watermarks[t] for t in run.spec.topics if t not in fold.topic_ids}
    start = run.spec.start
    if start == "earliest":
        return {t: {p: m.start for p, m in marks.items()} for t, marks in new.items()}
    if start == "latest" or not new:
        return {t: {p: m.end for p, m in marks.items()} for t, marks in new.items()}
    assert isinstance(start, StartAt)
    if start.offsets is not None:
        return _given_offsets(run.spec, start.offsets, new)
    assert start.timestamp is not None
    with Cluster(run.kafka) as cluster:
        at = cluster.offsets_at(new, int(start.timestamp.timestamp() * 1000))
    return {
        t: {p: m.end if (offset := at[t][p]) is None else offset for p, m in marks.items()}
        for t, marks in new.items()
    }


def _given_offsets(
    spec: Ingest, given: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, Any]]
) -> dict[str, dict[int, int]]:
    complaints = []
    for topic, marks in new.items():
        offsets = given.get(topic, {})
        for partition in sorted(marks.keys() ^ offsets.keys()):
            state = "has no start" if partition in marks else "does not exist"
            complaints.append(f"{topic}-{partition} {state}")
        for partition in sorted(marks.keys() & offsets.keys()):
            m = marks[partition]
            if not m.start <= offsets[partition] <= m.end:
                complaints.append(
                    f"{topic}-{partition}: {offsets[partition]} is not in [{m.start}, {m.end}]"
                )
    if complaints:
        raise ConfigurationError(f"pipeline {spec.name!r}: start.offsets: {'; '.join(complaints)}")
    return {topic: dict(given[topic]) for topic in new}


def _plan_of(
    run: Run, store: Store, fold: Fold, seen: Survey, draft: Draft, window_date: str
) -> Plan:
    topics = sorted({r.topic for r in draft.ranges})
    return Plan(
        pipeline=run.spec.name,
        kind=run.spec.kind,
        lane=LANE,
        window_date=window_date,
        cluster_id=seen.cluster_id,
        isolation=run.spec.isolation,
        topics={topic: seen.topic_ids[topic] for topic in topics},
        chunks=chunked(draft.ranges, run.max_records or run.spec.max_records),
        destination=store.url,
        byte_settings={
            "compression": "zstd",
            "level": 1,
            "max_records_per_file": _records_per_file(store, fold),
        },
        left_out=tuple(draft.left_out),
    )


def _records_per_file(store: Store, fold: Fold) -> int:
    """Return how many records make a file of about 256 MiB, by the newest commit's bytes.

    Rounded to a power of two, so that small changes in the data do not change plans.
    """
    if not fold.live:
        return _RECORDS_PER_FILE
    files = publishing.read_manifest(store, fold.live[max(fold.live)])
    rows = sum(f.staged.rows for f in files)
    size = sum(f.staged.size for f in files)
    if size < _TELLING_BYTES:
        return _RECORDS_PER_FILE
    return 1 << max(10, (_BYTES_PER_FILE * rows // size).bit_length() - 1)


def _note(run: Run, seen: Survey) -> dict[str, Any]:
    return {
        "format": 1,
        "run": run.run_id,
        "dag": run.dag_id,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "watermarks": {
            topic: {str(p): asdict(m) for p, m in marks.items()}
            for topic, marks in seen.watermarks.items()
        },
        "epochs": {
            topic: {str(p): epoch for p, epoch in each.epochs.items()}
            for topic, each in seen.identities.items()
        },
    }
