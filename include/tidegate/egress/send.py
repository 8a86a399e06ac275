"""Send: claim, one Spark application that sends and reads back, and the seal."""

from __future__ import annotations

import json
import logging
import secrets
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tidegate
from tidegate import faults
from tidegate.broker.target import TargetSurvey
from tidegate.core import layout
from tidegate.core.entries import Claim, Receipt, Release
from tidegate.core.judge import Adopt, Lost, PartlyCovered, Refused
from tidegate.core.plan import Plan
from tidegate.egress import lake_source
from tidegate.egress import plan as planning
from tidegate.egress.sender import IsOver, is_dead, ourselves
from tidegate.errors import (
    ConfigurationError,
    IdentityChanged,
    PlanDead,
    RowsRefused,
    SenderAlive,
    SendFailed,
    SourceChanged,
    StageFailed,
    TidegateError,
)
from tidegate.lake import deliveries, sources
from tidegate.lake.deliveries import Sending, SentFile
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store
from tidegate.launch.spark_submit import for_places, sending_submission, terminal_if_refused
from tidegate.runs.run import EgressRun
from tidegate.runs.steps import Submit
from tidegate.spark import kafka_sink
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, Rows, SendJob, Topic
from tidegate.spark.private_file import write_private

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sent:
    """The plan, and what was sent of it; None: it was committed before, or there was nothing."""

    plan: Plan
    sending: Sending | None


def send(run: EgressRun, submit: Submit, is_over: IsOver) -> Sent:
    """Send and verify the run's plan; what an earlier attempt has sent is not sent again.

    Raises RowsRefused or SourceChanged before anything is sent, SendFailed when a retry must send
    what is missing.
    """
    plan = planning.plan(run, is_over).plan
    store = run.store()
    ledger = run.ledger(store)
    if not plan.has_work or ledger.fold.is_sent(plan.id):
        return Sent(plan, None)
    if sending := deliveries.sealed(store, plan, ledger.fold):
        return Sent(plan, sending)
    _refuse_changed(plan)
    target = _same_target(run, plan)
    for told in kafka_sink.warnings(run.spec.target.producer_settings):
        logger.warning("%s: target.producer: %s", run.spec.name, told)
    if run.spec.target.topic and run.spec.columns.topic:
        logger.warning("%s: target.topic is used, columns.topic is not", run.spec.name)
    _refuse_unordered(plan, target)
    rows = _rows_of(plan)
    attempt = secrets.token_hex(8)
    claim = _claim(run, ledger, plan, target, attempt, is_over)
    if claim is None:
        return Sent(plan, None)
    faults.point("send.claimed")
    late = _late(run, ledger, plan, claim, target)
    done = _sent(run, store, ledger, plan, replace(rows, late=late), claim, target, submit)
    _refuse_changed(plan)
    target = _same_target(run, plan)
    sending = Sending(
        plan_id=plan.id,
        attempt=attempt,
        files=tuple(SentFile(**each) for each in done["files"]),
        receipts=tuple(
            Receipt(topic_id=target.topics[each["topic"]].topic_id, **each)
            for each in done["receipts"]
        ),
        broken_order=tuple(done["broken_order"]),
        versions={**done["versions"], "tidegate": tidegate.__version__},
    )
    deliveries.seal(store, sending)
    faults.point("seal.written")
    logger.info("plan %s: %d rows are sent and sealed", plan.id, sending.rows)
    return Sent(plan, sending)


def _claim(
    run: EgressRun,
    ledger: Ledger,
    plan: Plan,
    target: TargetSurvey,
    attempt: str,
    is_over: IsOver,
) -> Claim | None:
    """Put the claim into the ledger; return it with the target's ends at the first claim.

    None if others have just sent and committed this very plan.
    """
    held = ledger.refresh().claims.get(plan.id)
    if held and not is_dead(held.sender, held.attempt, is_over):
        raise SenderAlive(
            f"plan {plan.id}: attempt {held.attempt} holds the claim, and is not proven dead",
            sender=dict(held.sender),
        )
    claim = Claim(
        lane=plan.lane,
        plan_id=plan.id,
        attempt=attempt,
        sender=ourselves(run.task),
        files=plan.files,
        topic_ids=plan.topics,
        window=tuple(r for window in plan.chunks for r in window),
        target={topic: dict(state.ends) for topic, state in target.topics.items()},
        supersedes=held.attempt if held else None,
        root=planning.root_of(plan).url if plan.files else None,
    )
    match ledger.append(claim, run=run.run_id):
        case Refused(reason):
            raise SenderAlive(f"plan {plan.id}: {reason}; try again later")
        case Adopt():
            return None
        case PartlyCovered():
            raise PlanDead(
                f"plan {plan.id}: others have sent a part of it meanwhile, or declared it sent; "
                "clear the plan task, or start a new run"
            )
    return ledger.fold.claims[plan.id]


def _late(
    run: EgressRun, ledger: Ledger, plan: Plan, claim: Claim, target: TargetSurvey
) -> tuple[str, ...]:
    """Return the `<topic id>/<partition>` of which later offsets were sent already.

    Looked at behind the claim: from there on nobody else sends of these partitions. PlanDead where
    their order must hold: the next plan excludes them.
    """
    late = lake_source.late_of(plan, ledger.fold)
    in_order = plan.byte_settings["order"] == "strict" or any(
        state.compacted for state in target.topics.values()
    )
    if late and in_order and claim.supersedes is None:
        reason = f"{late[0]}: later offsets of its partition were sent meanwhile"
        _release(run, ledger, claim, reason)
        raise PlanDead(f"plan {plan.id}: {reason}; clear the plan task, or start a new run")
    return tuple(f"{plan.topics[r.topic]}/{r.partition}" for r in late)


def _sent(
    run: EgressRun,
    store: Store,
    ledger: Ledger,
    plan: Plan,
    rows: Rows,
    claim: Claim,
    target: TargetSurvey,
    submit: Submit,
) -> dict[str, Any]:
    """Run the application; return what it verified. Where nothing was sent, release the claim."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as private:
        directory = Path(private, claim.attempt)  # the process list names the attempt
        directory.mkdir(mode=0o700)
        failure: TidegateError | None = None
        try:
            job = _job(run, store, plan, rows, claim, target)
            write_private(directory / "job.json", job.to_json())
            application = sending_submission(
                directory / "job.json", run.spark_conf, name=job.app_name, rows=_about(plan)
            )
            places = [path for _, path in job.rows.files]
            with terminal_if_refused(directory):
                submit(for_places(application, *places, job.quarantine or ""))
        except TidegateError as error:
            failure = error
        if (directory / DONE).exists() and failure is None:
            return dict(json.loads((directory / DONE).read_text()))
        began = (directory / SENDING).exists() or claim.supersedes is not None
        refusal = directory / REFUSED
        refused = json.loads(refusal.read_text()) if refusal.exists() else None
    if refused:  # and a scan has shown whether an attempt before this one has sent anything
        began = began and refused["sent"]
    if not began:
        reason = refused["message"] if refused else f"the application failed: {failure}"
        files = tuple(refused["files"]) if refused else ()
        policy = plan.byte_settings["on_bad_row"] if files else None
        _release(run, ledger, claim, reason, files, policy)
    if refused:
        raise RowsRefused(
            f"pipeline {run.spec.name!r}: {refused['message']}. Nothing "
            + ("more was sent, and the claim stands" if began else "was sent"),
            files=refused["files"],
            rows=refused["rows"],
        )
    if failure is None or isinstance(failure, StageFailed):
        raise SendFailed(f"plan {plan.id}: {failure or 'Spark ended without an answer'}")
    raise failure


def _release(
    run: EgressRun,
    ledger: Ledger,
    claim: Claim,
    reason: str,
    refused: tuple[str, ...] = (),
    policy: str | None = None,
) -> None:
    """Give back what was claimed: it is proven that nothing was sent."""
    release = Release(claim.plan_id, claim.attempt, "nothing sent", reason[:1000], refused, policy)
    if isinstance(ledger.append(release, run=run.run_id), Lost):
        logger.warning("plan %s: another attempt holds the claim now", claim.plan_id)
    else:
        logger.warning("plan %s: nothing was sent, the claim is released", claim.plan_id)


def _about(plan: Plan) -> int:
    """Return about how many rows a plan has; text is taken to have some 100 bytes a row."""
    return plan.records or sum(file.size for file in plan.files) // 100


def _rows_of(plan: Plan) -> Rows:
    """Return what is to be read; LakeDamaged where a lake is not as committed."""
    source = plan.byte_settings["source"]
    if source["lake"]:
        files, counts = lake_source.files_and_counts(plan)
    else:
        root = planning.root_of(plan)
        files = tuple((file.name, root.path(file.name)) for file in plan.files)
        counts = {file.name: file.rows for file in plan.files if file.rows is not None}
    return Rows(
        format=source["format"],
        options=source["options"],
        columns=source["columns"],
        files=files,
        topic_ids=plan.topics,
        window=tuple(r for window in plan.chunks for r in window),
        counts=counts,
        where=plan.where,
    )


def _job(
    run: EgressRun, store: Store, plan: Plan, rows: Rows, claim: Claim, target: TargetSurvey
) -> SendJob:
    settings = plan.byte_settings
    quarantine = layout.quarantine(plan.id, claim.attempt)
    producer = run.spec.target.producer_settings
    client_id = f"tidegate-{plan.pipeline}-{claim.attempt}"
    return SendJob(
        plan_id=plan.id,
        app_name=f"tidegate {run.spec.name} {run.run_id}",
        rows=rows,
        columns=settings["columns"],
        topic=settings["topic"],
        order_by=tuple(settings["order_by"]),
        strict_order=settings["order"] == "strict",
        tombstones=settings["tombstones"],
        quarantine=store.native(quarantine) if settings["on_bad_row"] == "quarantine" else None,
        target={
            topic: Topic(
                state.partitions,
                # A partition that was added since then was empty.
                {**dict.fromkeys(state.ends, 0), **claim.target[topic]},
                min(state.largest, kafka_sink.largest_record(producer) or state.largest),
                state.compacted,
                state.compression,
            )
            for topic, state in target.topics.items()
        },
        reader={**run.kafka.for_spark(), "kafka.client.id": client_id},
        producer=producer,
        client_id=client_id,
    )


def _refuse_unordered(plan: Plan, target: TargetSurvey) -> None:
    """Refuse rows in any order where only the last of a key is kept: any could be that."""
    settings = plan.byte_settings
    compacted = sorted(topic for topic, state in target.topics.items() if state.compacted)
    if compacted and not (settings["order_by"] or settings["source"]["lake"]):
        raise ConfigurationError(
            f"pipeline {plan.pipeline!r}: {', '.join(compacted)} is compacted and keeps the last "
            "record of a key; rows of files have no order, so which one is the last is left to "
            "chance: give order_by. Nothing was sent",
            topics=compacted,
        )


def _refuse_changed(plan: Plan) -> None:
    if plan.chunks:
        lake_source.held_window(plan)
    if plan.files and (names := sources.changed(planning.root_of(plan), plan.files)):
        raise SourceChanged(
            f"plan {plan.id}: {len(names)} of its files are gone or have changed, {names[0]} among "
            "them. Put them back as they were; or release the claim, if there is one, and start a "
            "new run",
            files=names,
        )


def _same_target(run: EgressRun, plan: Plan) -> TargetSurvey:
    """Look at the target again; IdentityChanged if it is not the one that was planned."""
    now = planning.target_of(run)
    planned = {topic: each.topic_id for topic, each in (plan.target or {}).items()}
    found = {topic: state.topic_id for topic, state in now.topics.items()}
    if found != planned or now.cluster_id != plan.cluster_id:
        raise IdentityChanged(
            f"plan {plan.id}: its target was {planned} on cluster {plan.cluster_id}, and is "
            f"{found} on {now.cluster_id}: a topic was recreated, or the connection leads "
            "elsewhere. Nothing more was sent; release the claim, if there is one",
            planned=planned,
            found=found,
        )
    return now
