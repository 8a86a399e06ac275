"""The claim of an attempt: appended before its first record, released if nothing was sent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.cluster_answers import TargetSurvey
from tidegate.core.entries import Claim, Release
from tidegate.core.judge import Adopt, Lost, Moved, PartlyCovered, Refused
from tidegate.core.plan import LeftOutFile, Plan
from tidegate.core.work import delivery_state
from tidegate.egress.lake_source import window_of
from tidegate.egress.planning import root_of
from tidegate.errors import ClaimConflict, ConfigurationError, PlanDead, SenderAlive
from tidegate.lake.attempts import Attempt
from tidegate.runs.run import EgressRun, OpenRun

logger = logging.getLogger(__name__)


def claim(
    opened: OpenRun[EgressRun],
    plan: Plan,
    target: TargetSurvey,
    attempt: str,
) -> Claim | None:
    """Append the claim of a new attempt. Return it with the target's ends at the first claim.

    None if another run has just sent and committed this plan.
    """
    ledger = opened.ledger
    ledger.recheck()  # before the first record, not only before the commit
    open_claim = delivery_state(ledger.fold, plan.id).claim
    run = opened.run
    if open_claim and (why := run.senders.doubt(open_claim, run.engine, opened.store)):
        raise SenderAlive(
            f"plan {plan.id}: attempt {open_claim.attempt} holds the claim, and is not proven "
            f"dead: {why}. Wait; or, if you know that it is, `tidegate release`",
            sender=dict(open_claim.sender),
        )
    if open_claim:
        _refuse_other_spark(opened, plan, open_claim)
    application = run.engine.identity(Attempt(plan.id, 0, attempt))
    new = Claim(
        lane=plan.lane,
        plan_id=plan.id,
        attempt=attempt,
        sender=run.senders.identity(application),
        files=plan.files,
        topic_ids=plan.topics,
        window=window_of(plan),
        target={topic: dict(state.ends) for topic, state in target.topics.items()},
        supersedes=open_claim.attempt if open_claim else None,
        root=root_of(plan).url if plan.files else None,
        spark=run.engine.line,
        cluster_id=plan.cluster_id,
        columns=plan.columns,
    )
    match ledger.append(new, run=run.run_id):
        case Refused(reason):
            raise ClaimConflict(
                f"plan {plan.id}: {reason}; this attempt has sent nothing. Try again later"
            )
        case Moved(reason):
            raise PlanDead(
                f"plan {plan.id}: {reason}; clear the task that plans, or start a new run"
            )
        case Adopt():
            return None
        case PartlyCovered():
            raise PlanDead(
                f"plan {plan.id}: others have sent a part of it meanwhile, or declared it sent; "
                "clear the task that plans, or start a new run"
            )
    return replace(new, target=open_claim.target) if open_claim else new


def _refuse_other_spark(opened: OpenRun[EgressRun], plan: Plan, claim: Claim) -> None:
    """Raise ConfigurationError if another minor version of Spark may have sent a part of a plan."""
    engine = opened.run.engine
    if engine.line != claim.spark:
        raise ConfigurationError(
            f"plan {plan.id}: attempt {claim.attempt}, with Spark {claim.spark}, may have sent a "
            f"part of it, and Spark connection {engine.id!r} has Spark {engine.line}, which may "
            f"render the same row differently: use Spark {claim.spark} until it is sent. "
            "`tidegate release` says whether to send all of it again, or to count it as sent",
            attempt=claim.attempt,
        )


def release_unsent(
    opened: OpenRun[EgressRun],
    claim: Claim,
    reason: str,
    refused: Sequence[LeftOutFile] = (),
    judged_by: str | None = None,
) -> None:
    """Release a claim for which it is proven that nothing was sent. `refused` cannot be sent."""
    release = Release(
        plan_id=claim.plan_id,
        attempt=claim.attempt,
        how="nothing sent",
        reason=reason[:1000],
        refused=tuple(refused),
        judged_by=judged_by,
    )
    if isinstance(opened.ledger.append(release, run=opened.run.run_id), Lost):
        logger.warning("plan %s: another attempt holds the claim now", claim.plan_id)
    else:
        logger.warning("plan %s: nothing was sent, the claim is released", claim.plan_id)
