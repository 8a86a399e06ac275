"""Explain an egress: what `plan` would plan now. Nothing stays written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.json_codec import Document
from tidegate.core.offsets import Window
from tidegate.core.plan import Exclusion, Plan, SourceFile
from tidegate.core.work import delivery_state
from tidegate.egress import proposal
from tidegate.egress.lake_source import open_lake_of, planned_files, window_of
from tidegate.egress.planning import preview
from tidegate.egress.sender import is_dead_here
from tidegate.runs.client_options import InEffect, explain_settings
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.run import EgressRun, OpenRun

FORMAT = 1


@dataclass(frozen=True)
class OfReplay(Document):
    """The replay that a run is for. `commit` is None if it was declared sent."""

    id: str
    where: str | None
    done: bool
    commit: int | None


@dataclass(frozen=True)
class FirstClaim(Document):
    """An open claim that the run would end first."""

    plan_id: str
    attempt: str
    sender_dead: bool


@dataclass(frozen=True)
class Later(Document):
    """What is left to later runs: files, offsets, files that are not settled, offsets behind an
    unseen one.
    """

    files: int
    offsets: int
    young: int
    ahead: int


@dataclass(frozen=True)
class TargetExplained(Document):
    """A topic of the target. `topic_id` is None if the run would make it."""

    topic_id: str | None
    partitions: int


@dataclass(frozen=True, kw_only=True)
class EgressExplained(Document):
    """What a run of an egress would do (contract: `explain --json`).

    `plan_id` is None while a topic of the target does not exist. `unchecked` are SQL expressions,
    which only Spark can check.
    """

    format: int = FORMAT
    pipeline: str
    kind: str
    kafka: Mapping[str, str | None]
    source_kafka: Mapping[str, str | None] | None
    lane: str
    replay: OfReplay | None
    plan_id: str | None
    finishes_first: FirstClaim | None
    files: tuple[SourceFile, ...]
    offsets: tuple[Window, ...]
    records: int
    bytes: int
    later: Later
    left_out: tuple[Exclusion, ...]
    unchecked: tuple[str, ...]
    target: Mapping[str, TargetExplained]
    settings: Mapping[str, InEffect]
    notices: tuple[str, ...]


def explain(opened: OpenRun[EgressRun], *, source_kafka: Kafka | None = None) -> EgressExplained:
    """Return what the run would do.

    `source_kafka` is the Kafka from which the source's lake was read, if there is one.
    LakeReadOnly or LakeUnavailable if the run could not write to its ledger's lake.
    """
    run, fold = opened.run, opened.ledger.fold
    opened.store.check_writing()
    plan, backlog = preview(opened)
    target = plan.target or {}
    state = delivery_state(fold, plan.id)
    claim = state.claim if run.asked else fold.egress.oldest_open_claim
    lake = backlog.unsent.lake or (
        open_lake_of(plan, run.stores, run.pipelines) if plan.chunks else None
    )
    lake_files = planned_files(lake, plan) if lake and plan.chunks else []
    return EgressExplained(
        pipeline=run.spec.name,
        kind=run.spec.kind,
        kafka=run.kafka.to_json(),
        source_kafka=source_kafka.to_json() if source_kafka else None,
        lane=plan.lane,
        replay=OfReplay(run.asked.id, plan.where, state.is_done, state.commit)
        if run.asked
        else None,
        plan_id=plan.id if all(each.topic_id for each in target.values()) else None,
        finishes_first=FirstClaim(
            claim.plan_id, claim.attempt, is_dead_here(claim.sender, claim.attempt)
        )
        if claim
        else None,
        files=plan.files,
        offsets=plan.chunks,
        records=plan.records,
        bytes=sum(f.size for f in plan.files) + sum(f.size for f in lake_files),
        later=Later(
            files=len(backlog.files) - len(plan.files),
            offsets=sum(map(len, backlog.unsent.ranges)) - sum(map(len, window_of(plan))),
            young=len(backlog.young),
            ahead=backlog.unsent.ahead,
        ),
        left_out=plan.left_out,
        unchecked=tuple(_expressions(run, plan)),
        target={
            topic: TargetExplained(each.topic_id or None, each.partitions)
            for topic, each in target.items()
        },
        settings=explain_settings(run),
        notices=(
            *run.spec.notices,
            *proposal.missing_columns(run, plan),
            *_values_of_directories(plan),
            *run.engine.notices(opened.store),
        ),
    )


def _values_of_directories(plan: Plan) -> list[str]:
    """Return a notice if directories are named as Hive's, and their values stand nowhere else."""
    known = {name.lower() for name, _ in plan.columns or ()}
    names = {
        part.partition("=")[0]
        for file in plan.files
        for part in file.name.split("/")[:-1]
        if "=" in part
    }
    lost = sorted(name for name in names if name.lower() not in known)
    if not lost:
        return []
    listed = ", ".join(f"{each}=…" for each in lost)
    return [
        f"the values in the names of directories ({listed}) are not sent: rows have the columns of "
        "their files alone"
    ]


def _expressions(run: EgressRun, plan: Plan) -> list[str]:
    """Return the names of the given SQL expressions, which only Spark can check."""
    columns = [f"columns.{name}" for name, sql in run.spec.expressions.items() if sql]
    where = ["where"] if plan.where is not None else []
    return [*where, *columns, *(["order_by"] if run.spec.order_by else [])]
