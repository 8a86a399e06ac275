"""The job of an egress application: what it reads, and where it sends it."""

from __future__ import annotations

import time

from tidegate.core import layout, provenance
from tidegate.core.cluster_answers import NO_LIMITS, TargetSurvey, TimeLimits
from tidegate.core.entries import Claim
from tidegate.core.plan import Plan
from tidegate.core.work import earlier_attempts
from tidegate.egress.byte_settings import settings_of_plan
from tidegate.egress.lake_source import SourceLake, files_and_counts, largest_in_lake, window_of
from tidegate.egress.planning import root_of
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.runs.client_options import client_name
from tidegate.runs.run import EgressRun, OpenRun
from tidegate.spark import producer_settings
from tidegate.spark.egress_job import SENDING, EgressJob, RowSource, TargetTopic

_SENDING = 3_600_000  # milliseconds


def rows_of(plan: Plan, lake: SourceLake | None) -> RowSource:
    """Return the rows to read. Raises LakeDamaged if a file of the lake differs from its commit."""
    source = settings_of_plan(plan).source
    if lake:
        files, counts = files_and_counts(lake, plan)
        largest = largest_in_lake(lake, plan)
    else:
        root = root_of(plan)
        files = tuple((file.name, root.path(file.name)) for file in plan.files)
        counts = {file.name: file.rows for file in plan.files if file.rows is not None}
        largest = None
    return RowSource(
        format=source.format,
        options=source.options,
        columns=source.columns,
        files=files,
        names=provenance.provenance_names(plan.files, window_of(plan), plan.topics),
        topic_ids=plan.topics,
        window=window_of(plan),
        counts=counts,
        where=plan.where,
        largest=largest,
    )


def estimate_rows(plan: Plan) -> int:
    """Return about how many rows a plan sends: of files, 100 bytes each."""
    return plan.records or sum(file.size for file in plan.files) // 100


def has_begun(opened: OpenRun[EgressRun], plan: Plan) -> bool:
    """Return whether an earlier attempt of a plan may have sent anything.

    An attempt leaves SENDING in the lake before its first record. When it is sealed, its manifest
    says so in place of that.
    """
    earlier = earlier_attempts(opened.ledger.fold, plan.id)
    return any(has_begun_sending(opened.store, Attempt(plan.id, 0, name)) for name in earlier)


def has_begun_sending(store: Store, attempt: Attempt) -> bool:
    """Return whether an attempt has begun to send."""
    left = attempt.directory + SENDING, attempt.manifest_path
    return any(store.size(path) is not None for path in left)


def job_of(
    opened: OpenRun[EgressRun],
    plan: Plan,
    rows: RowSource,
    claim: Claim,
    target: TargetSurvey,
) -> EgressJob:
    """Return the job of a claimed plan, but for what the engine adds."""
    run = opened.run
    settings = settings_of_plan(plan)
    own, resumed = Attempt(plan.id, 0, claim.attempt), has_begun(opened, plan)
    quarantine = opened.store.native(layout.quarantine(plan.id, claim.attempt))
    producer = run.spec.target.producer_settings
    client_id = run.kafka.client_id(client_name(run.spec, "send", run.run_id, claim.attempt))
    return EgressJob(
        plan_id=plan.id,
        app_name=f"tidegate {run.spec.name} {run.run_id}",
        source=rows,
        columns=settings.columns,
        topic=settings.topic,
        order_by=settings.order_by,
        strict_order=settings.order == "strict",
        tombstones=settings.tombstones,
        quarantine=quarantine if settings.on_bad_row == "quarantine" else None,
        target={
            topic: TargetTopic(
                state.partitions,
                # Partitions that were added after the claim begin at 0.
                {**dict.fromkeys(state.ends, 0), **claim.target[topic]},
                min(state.largest, producer_settings.largest_record(producer) or state.largest),
                state.compacted,
                state.compression,
                _limits(state.times, accept_expiry=run.spec.target.accept_expiry)
                if not resumed
                else NO_LIMITS,  # its rows were looked at before the first record
            )
            for topic, state in target.topics.items()
        },
        options={"kafka.client.id": client_id},
        producer=producer,
        client_id=client_id,
        records=estimate_rows(plan),
        reading=run.spec.target.reading_options,
        spark=claim.spark,
        resumed=resumed,
        proof=run.spec.proof,
        mark=opened.store.native(own.directory),
        keeps_time=settings.timestamps == "source",
    )


def _limits(times: TimeLimits, *, accept_expiry: bool) -> TimeLimits:
    """Return the limits of a topic as times, by the clock of now: all rows are judged by the same.

    Those that pass in the next hour have passed: Spark may send for so long.
    """
    now = int(time.time() * 1000)
    before, after, retention = times

    def earliest(limit: int | None) -> int | None:
        return None if limit is None else now - limit + min(_SENDING, limit // 10)

    latest = None if after is None else now + after
    return TimeLimits(earliest(before), latest, None if accept_expiry else earliest(retention))
