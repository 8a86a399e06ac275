"""Drafting: what a run would do now. `plan` freezes it, `explain` returns it."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core import decoding, replacement, unreadable_records
from tidegate.core.chunking import cut_chunks
from tidegate.core.cluster_answers import Survey
from tidegate.core.draft import Draft, draft_live
from tidegate.core.fold import Fold
from tidegate.core.plan import Plan
from tidegate.core.requests import Backfill, Dates, Replay
from tidegate.errors import NotAuthorised, UnknownTopic
from tidegate.ingest import backfill, file_size, replay, truncation
from tidegate.ingest.start import start_offsets
from tidegate.lake import decodings
from tidegate.lake.store_protocol import Store
from tidegate.runs.client_options import refuse_contradictions
from tidegate.runs.run import Run
from tidegate.runs.topics import refuse_another_cluster

_HOUR_MS = 3_600_000


def survey_topics(run: Run, topics: Sequence[str] | None = None) -> Survey:
    """Survey topics, by default those of the run.

    Raises NotAuthorised for topics that this user may only DESCRIBE: Spark could not read them;
    ConfigurationError, before a broker is asked, for options that contradict the connection.
    """
    refuse_contradictions(run.spec, run.kafka)
    seen = run.kafka.survey(run.topics if topics is None else topics, run.spec.isolation)
    if forbidden := [topic for topic, each in seen.identities.items() if not each.readable]:
        raise NotAuthorised(
            f"{run.kafka.cluster}: not permitted: READ on {', '.join(forbidden)}: grant it to the "
            "connection's user",
            topics=forbidden,
        )
    return seen


def draft(run: Run, store: Store, fold: Fold, seen: Survey, *, replanning: bool = False) -> Draft:
    """Return what the run would read now.

    `replanning`: the run had a plan that can no longer be carried out. Raises IdentityChanged on
    another cluster, UnknownTopic for a topic that neither broker nor ledger has, WindowRefused for
    a window that cannot be read.
    """
    spec = run.spec
    refuse_another_cluster(spec, run.kafka, fold, seen.cluster_id)
    if isinstance(run.asked, Replay):
        return replay.draft_replay(run, run.asked, store, fold, seen)  # has no unreadable records
    drafted = _draft(run, store, fold, seen, replanning=replanning)
    first_only = spec.on_unreadable == "fail"
    unreadable_records.exclude_unreadable(
        drafted,
        run.kafka.unreadable(drafted.ranges, spec.isolation, seen.too_late, first_only=first_only),
        fold,
        seen.topic_ids,
        policy=spec.on_unreadable,
        by=run.run_id,
    )
    return drafted


def _draft(run: Run, store: Store, fold: Fold, seen: Survey, *, replanning: bool) -> Draft:
    spec = run.spec
    drafted = None
    if isinstance(run.asked, Backfill):  # WindowRefused takes precedence over UnknownTopic
        drafted = backfill.draft_backfill(run, run.asked, store, fold, seen, replanning=replanning)
    unknown = [t for t in run.topics if t not in seen.identities and t not in fold.topic_ids]
    if unknown:
        near = run.kafka.nearest(unknown)
        raise UnknownTopic(
            f"pipeline {spec.name!r}: Kafka at {run.kafka.bootstrap_servers} has no topic "
            f"{', '.join(unknown)}, or this user may not DESCRIBE it: create it, grant DESCRIBE, "
            f"or correct `{spec.key_of_topics}`{near}",
            topics=unknown,
        )
    read = seen.only(spec.assign)  # boundaries are of all partitions
    notices: list[str] = []
    live = draft_live(
        fold,
        truncation.topic_states(run.kafka, store, fold, seen, run.topics, spec.assign),
        start_offsets(run, fold, read, notices),
        on_expired=spec.on_expired,
        by=run.run_id,
    )
    live.notices = notices
    if isinstance(run.asked, Dates):
        return backfill.draft_dates(run, run.asked.interval, store, fold, seen, live)
    if drafted is None:
        if sum(map(len, live.ranges)) > run.chunk_size:  # else there is only one chunk
            live.expires = run.kafka.expiries(live.ranges, spec.isolation)
        return live
    # The first run that sees a topic records its origins: a window never moves the live cursor.
    drafted.origins, drafted.notices = live.origins, live.notices
    return drafted


def plan_of(
    run: Run, store: Store, fold: Fold, seen: Survey, draft: Draft, window_date: str
) -> Plan:
    """Return the plan of a draft.

    ConfigurationError if records were decoded into columns that these cannot stand beside.
    """
    # Partitions that expire within the same hour are equally urgent, and share a chunk.
    urgency = {key: timestamp // _HOUR_MS for key, timestamp in draft.expires.items()}
    chunks = draft.chunks or cut_chunks(draft.ranges, run.chunk_size, urgency)[: run.max_chunks]
    topics = sorted({r.topic for window in chunks for r in window})
    declared = decodings.declared_decodings(
        run.spec.name,
        run.spec.decoding,
        store,
        fold,
        sorted({*run.topics, *topics}),
        replacement.replaces_from_json(draft.replay["replaces"][0])
        if draft.replay and len(chunks) == 1
        else (),
    )
    decode = {topic: declared[topic] for topic in topics if topic in declared}
    most = file_size.records_per_file(
        store, fold, run.kafka, chunks, run.spec.isolation, run.spec.file_size
    )
    return Plan(
        pipeline=run.spec.name,
        kind=run.spec.kind,
        lane=run.asked.lane,
        window_date=window_date,
        cluster_id=seen.cluster_id,
        isolation=run.spec.isolation,
        topics={topic: seen.topic_ids[topic] for topic in topics},
        chunks=chunks,
        destination=store.url,
        byte_settings={
            **run.spec.parquet(most).to_json(),
            **({"decode": decoding.group_decodings(decode)} if decode else {}),
        },
        left_out=tuple(draft.left_out),
        replay=draft.replay,
    )
