"""Send: a claim, one Spark application that sends and reads back, and the seal."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import tidegate
from tidegate import faults
from tidegate.core import row_digest
from tidegate.core.cluster_answers import TargetSurvey
from tidegate.core.entries import Claim, Receipt
from tidegate.core.plan import LeftOutFile, Plan
from tidegate.core.wording import counted
from tidegate.core.work import delivery_state
from tidegate.egress import claims, replay
from tidegate.egress.byte_settings import judge_digest, settings_of_plan
from tidegate.egress.job import has_begun, has_begun_sending, job_of, rows_of
from tidegate.egress.lake_source import (
    SourceLake,
    late_ranges,
    open_lake_of,
)
from tidegate.egress.planning import (
    living_plan,
    plan,
    refuse_other_times,
    refuse_unordered,
    root_of,
    survey_planned_target,
)
from tidegate.errors import (
    IdentityChanged,
    OutOfMemory,
    PlanDead,
    ReplayRefused,
    RowsRefused,
    SendFailed,
    SourceChanged,
    SourceUnavailable,
    StageFailed,
    TidegateError,
)
from tidegate.lake import attempts, deliveries, plans, sources
from tidegate.lake.attempts import Attempt
from tidegate.lake.deliveries import Delivery, SentFile
from tidegate.lake.store_protocol import Stores
from tidegate.runs.client_options import refuse_contradictions
from tidegate.runs.engine_protocol import Unknown
from tidegate.runs.run import EgressRun, OpenRun
from tidegate.runs.steps import StepProgress
from tidegate.settings import spark_conf
from tidegate.spark.egress_job import DONE, REFUSED, Proven, Refusal, RowSource, SentRows
from tidegate.spark.job_files import terminal_if_refused

logger = logging.getLogger(__name__)


class _FilesRefused(Exception):
    """The claim is released, nothing was sent, and no later plan of the run has these files.

    `others` is the number of the plan's files that can be sent.
    """

    def __init__(self, reason: str, others: int) -> None:
        super().__init__(reason)
        self.others = others


def send(opened: OpenRun[EgressRun]) -> Delivery | None:
    """Send and read back the run's plan. Rows that an earlier attempt has sent are not sent again.

    Returns its manifest. None if the plan was committed before, or has no work. Makes a plan if the
    run has no living one, and one more of its files that can be sent. Raises RowsRefused or
    SourceChanged before anything is sent, SendFailed or BrokerUnreachable if a retry must send the
    missing rows.
    """
    for _ in ("first", "second"):
        planned = (living_plan(opened) or plan(opened).frozen).plan
        try:
            return _send(opened, planned)
        except _FilesRefused as refused:
            if opened.run.asked:
                raise RowsRefused(
                    f"pipeline {planned.pipeline!r}, replay {opened.run.asked.id!r}: {refused}. "
                    "Nothing was sent: name the other files, or correct the cause and use a new id"
                ) from None
            logger.warning("plan %s: %s", planned.id, refused)
            if refused.others:  # and no file that was not looked at
                spec = opened.run.spec.with_max_files(refused.others)
                opened.run = replace(opened.run, spec=spec)
    raise RowsRefused(
        f"pipeline {opened.run.spec.name!r}: a second plan had files that cannot be sent, too. "
        "Nothing was sent: a new run excludes them, but with --resend, which tries them again"
    )


def _send(opened: OpenRun[EgressRun], planned: Plan) -> Delivery | None:
    run, store, ledger = opened.run, opened.store, opened.ledger
    if run.asked:  # of two requests under one id, the other one may have been planned
        replay.check_request(run, run.asked, ledger.fold, planned)
    if not planned.has_work or delivery_state(ledger.refresh(), planned.id).is_done:
        return None
    if delivery := deliveries.sealed_delivery(store, planned, ledger.fold):
        return delivery
    lake = open_lake_of(planned, run.stores, run.pipelines) if planned.chunks else None
    if delivery_state(ledger.fold, planned.id).claim:  # files of unclaimed plans were checked above
        _refuse_changed_files(planned, run.stores)
    target = check_same_target(run, planned)
    refuse_contradictions(run.spec, run.kafka)
    refuse_unordered(planned, target)
    refuse_other_times(planned, target)
    rows = rows_of(planned, lake)
    with run.senders.holding() as attempt:
        claim = claims.claim(opened, planned, target, attempt)
        if claim is None:
            return None
        faults.point("send.claimed")
        if claim.supersedes is None:
            _refuse_changed_since(opened, planned, claim)
        if lake:
            rows = replace(rows, late=_late_partitions(opened, planned, lake, claim, target))
        result = _run_application(opened, planned, rows, claim, target)
        contents = _contents(planned, run.stores)
        _refuse_changed_files(planned, run.stores)
        if lake:
            # Checked again: Spark may have read for hours.
            open_lake_of(planned, run.stores, run.pipelines)
        target = check_same_target(run, planned)
        delivery = Delivery(
            plan_id=planned.id,
            attempt=claim.attempt,
            files=_sent_files(planned, result.files, contents),
            receipts=tuple(
                Receipt(topic_id=target.topics[each.topic].topic_id, **vars(each))
                for each in result.receipts
            ),
            broken_order=result.broken_order,
            proof=result.proof,
            versions={**result.versions, "tidegate": tidegate.__version__},
        )
        deliveries.create_delivery(store, delivery)
        attempts.delete_files(store, delivery.of)
        faults.point("seal.written")
        sent = counted(delivery.rows, "row")
        logger.info("plan %s: sent and sealed: %s", planned.id, sent)
        return delivery


def _sent_files(
    plan: Plan, found: Sequence[SentRows], contents: Mapping[str, str | None]
) -> tuple[SentFile, ...]:
    """Return what was sent of each file of a plan, also of those in which Spark found no row."""
    rows = {each.file: SentFile(**vars(each)) for each in found}
    nothing = row_digest.combine_digests(())
    of_files = (
        replace(
            rows.get(file.name, SentFile(file.name, 0, 0, nothing)),
            size=file.size, etag=file.etag, sha256=contents.get(file.name),
        )
        for file in plan.files
    )  # fmt: skip
    sent = of_files if plan.files else rows.values()
    return tuple(sorted(sent, key=lambda each: each.file))


def _contents(plan: Plan, stores: Stores) -> dict[str, str | None]:
    """Return the SHA-256 of each file on a disk. Files that changed meanwhile are refused next."""
    if not plan.files:
        return {}
    source, contents = stores.source(root_of(plan)), dict[str, str | None]()
    for file in plan.files:
        with contextlib.suppress(SourceUnavailable):
            contents[file.name] = sources.digest_content(source, file.name)
    return contents


def _refuse_changed_since(opened: OpenRun[EgressRun], plan: Plan, claim: Claim) -> None:
    """Release a first claim, and raise, if the plan must no longer be sent.

    Checked after the claim, which other processes see: SourceChanged for files that were replaced
    since the plan was compared with them. ReplayRefused if another request was planned under a
    replay's id, or an earlier one is sent after all. Of two requests at least one sees the other.
    """
    ledger = opened.ledger
    try:
        _refuse_changed_files(plan, opened.run.stores)
        if opened.run.asked:
            *earlier, latest = plans.plan_ids(opened.store, opened.run.key)
            fold = ledger.refresh()
            others = (each for each in earlier if each != plan.id)
            sent = (each for each in others if not delivery_state(fold, each).is_unsent)
            other = latest if latest != plan.id else next(sent, None)
            if other:
                raise ReplayRefused(
                    f"plan {plan.id}: plan {other}, of another request under replay id "
                    f"{opened.run.asked.id!r}, came first. Nothing of this one was sent: give it "
                    "an id of its own"
                )
    except TidegateError as error:
        claims.release_unsent(opened, claim, str(error))
        raise


def _late_partitions(
    opened: OpenRun[EgressRun], plan: Plan, lake: SourceLake, claim: Claim, target: TargetSurvey
) -> tuple[str, ...]:
    """Return each `<topic id>/<partition>` whose later offsets were sent already.

    Checked after the claim, which keeps other runs from sending these partitions. PlanDead if their
    order must be kept: the next plan excludes them.
    """
    late = late_ranges(lake, plan, opened.ledger.fold)
    in_order = settings_of_plan(plan).order == "strict" or any(
        state.compacted for state in target.topics.values()
    )
    if late and in_order and claim.supersedes is None:
        reason = f"{late[0]}: later offsets of its partition were sent meanwhile"
        claims.release_unsent(opened, claim, reason)
        raise PlanDead(f"plan {plan.id}: {reason}; clear the task that plans, or start a new run")
    return tuple(f"{plan.topics[r.topic]}/{r.partition}" for r in late)


def _run_application(
    opened: OpenRun[EgressRun],
    plan: Plan,
    rows: RowSource,
    claim: Claim,
    target: TargetSurvey,
) -> Proven:
    """Run the application to its end. Return its result.

    Without one the claim is released if nothing was sent, and the cause is raised.
    """
    run, own = opened.run, Attempt(plan.id, 0, claim.attempt)
    failure: TidegateError | None = None
    answer: str | None = None
    with contextlib.ExitStack() as stack:
        try:
            job = job_of(opened, plan, rows, claim, target)
            opens = *(path for _, path in job.source.files), job.quarantine or "", job.mark
            application = stack.enter_context(
                run.engine.application(
                    job,
                    own,
                    store=opened.store,
                    conf={**run.spark_conf, **spark_conf.RUN_ONCE},
                    places=opens,
                    target_ids={topic: each.topic_id for topic, each in target.topics.items()},
                )
            )
        except TidegateError as error:  # nothing was started
            failure = error
        else:
            opened.on_progress(StepProgress("sending", all_records=plan.records))
            logger.info("plan %s: Spark checks, sends and reads back its rows", plan.id)
            try:
                with terminal_if_refused(application.read):
                    application.run()
            except TidegateError as error:
                failure = error
            done = application.read(DONE) if failure is None else None
            if done is None and "application" in claim.sender:  # it may outlive its submitter
                _await_end(opened, claim, failure)
            if done:
                return Proven.from_json(json.loads(done))
            answer = application.read(REFUSED)
    end = Refusal.from_json(json.loads(answer)) if answer else failure
    return _fail(opened, plan, claim, end or SendFailed("Spark ended without an answer"))


def _fail(
    opened: OpenRun[EgressRun], plan: Plan, claim: Claim, end: Refusal | TidegateError
) -> NoReturn:
    """Release the claim if nothing was sent. Raise why an application ended without a result."""
    run, own = opened.run, Attempt(plan.id, 0, claim.attempt)
    may_have_sent = has_begun_sending(opened.store, own) or has_begun(opened, plan)
    if not may_have_sent:
        reason, files = _unsendable_files(run, plan, end)
        judged_by = judge_digest(plan.byte_settings, run.spec) if files else None
        claims.release_unsent(opened, claim, reason, files, judged_by)
        attempts.delete_files(opened.store, own)
        if files:
            raise _FilesRefused(reason, len(plan.files) - len(files))
    match end:
        case Refusal():
            raise RowsRefused(
                f"pipeline {run.spec.name!r}: {end.message}. Nothing "
                + ("more was sent, and the claim stands" if may_have_sent else "was sent"),
                files=sorted(end.files),
            )
        case StageFailed() | SendFailed():
            raise SendFailed(f"plan {plan.id}: {end}")
        case IdentityChanged():
            check_same_target(run, plan)  # raises it with the number of records
    raise end


def _unsendable_files(
    run: EgressRun, plan: Plan, end: Refusal | TidegateError
) -> tuple[str, Sequence[LeftOutFile]]:
    """Return why nothing was sent, and the files that cannot be sent, each with the reason."""
    line_ends = settings_of_plan(plan).source.line_ends
    if isinstance(end, Refusal):
        files = [LeftOutFile(*each) for each in sorted(end.files.items())]
        if plan.files and line_ends is None:
            source = run.stores.source(root_of(plan))
            files = [sources.explain_columns(source, file) for file in files]
        return end.message, files
    reason = f"the application failed: {end}"
    if plan.files and line_ends is not None and isinstance(end, OutOfMemory):
        source = run.stores.source(root_of(plan))
        long = sources.with_long_lines(source, plan.files, line_ends.encode())
        return "; ".join(map(str, long)) or reason, long
    return reason, ()


def _await_end(opened: OpenRun[EgressRun], claim: Claim, failure: TidegateError | None) -> None:
    """Wait until the driver of this attempt has ended on its node. SendFailed if that is not
    proven, and the claim stands: it may be sending.
    """
    own, engine = Attempt(claim.plan_id, 0, claim.attempt), opened.run.engine
    end = engine.end(claim.sender["application"], own, opened.store)
    if isinstance(end, Unknown):
        raise SendFailed(
            f"plan {claim.plan_id}: {failure or 'no answer'}; and its driver is not proven to have "
            f"ended: {end.why}. The claim stands: a retry looks again"
        ) from failure


def _refuse_changed_files(plan: Plan, stores: Stores) -> None:
    if plan.files and (names := sources.changed_files(stores.source(root_of(plan)), plan.files)):
        raise SourceChanged(
            f"plan {plan.id}: {len(names)} of its files are gone or have changed, {names[0]} among "
            "them. Put them back as they were; or release the claim, if there is one, and start a "
            "new run",
            files=names,
        )


def check_same_target(run: EgressRun, plan: Plan) -> TargetSurvey:
    """Survey the target again. IdentityChanged if it is not the planned one."""
    now = survey_planned_target(run, make=False)
    planned = {topic: each.topic_id for topic, each in (plan.target or {}).items()}
    found = {topic: state.topic_id for topic, state in now.topics.items()}
    if found != planned or now.cluster_id != plan.cluster_id:
        others = [t for t in found if found[t] != planned.get(t) and found[t]]
        records = sum(sum(now.topics[t].ends.values()) for t in others)
        raise IdentityChanged(
            f"plan {plan.id}: its target was {planned} on cluster {plan.cluster_id}, and is "
            f"{found} on {now.cluster_id}: a topic was recreated, or the connection leads "
            f"elsewhere. The new topics hold {counted(records, 'record')}, maybe of this plan: "
            "with auto.create.topics.enable producers make a deleted topic anew. Nothing more was "
            "sent; release the claim, if there is one",
            planned=planned,
            found=found,
            records=records,
        )
    return now
