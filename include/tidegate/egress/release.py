"""Release a claim: an operator decides that its rows are sent again, or count as sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidegate.core.entries import Claim, Gap, Release
from tidegate.core.json_codec import Document
from tidegate.core.judge import Lost
from tidegate.egress.lake_source import open_source_lake, read_unsent
from tidegate.egress.sender import is_alive
from tidegate.errors import NotClaimed, SenderAlive
from tidegate.lake.attempts import Attempt
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.engine_protocol import Engine
from tidegate.runs.spec_protocol import EgressSpec, Pipelines

FORMAT = 1


@dataclass(frozen=True)
class LateRange(Document):
    """Offsets `[start, end)` of a lake that count as sent from now on."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Released(Document):
    """A claim that an operator has ended, or late ranges (contract: `release --json`).

    `plan_id` is None for late ranges. `files` are those of the claim.
    """

    format: int = FORMAT
    pipeline: str
    plan_id: str | None
    how: Literal["resend", "declare sent"]
    files: tuple[str, ...] = ()
    late: tuple[LateRange, ...] = ()


def release_claim(
    spec: EgressSpec,
    store: Store,
    plan_id: str | None,
    how: Literal["resend", "declare sent"],
    reason: str,
    *,
    engine: Engine,
    run: str,
) -> Released:
    """End an open claim. Without `plan_id` the only open one.

    With `resend`, a later run sends its files as if they had never been sent. `declare sent` counts
    them as sent. Raises NotClaimed if there is no such claim, more than one without `plan_id`, or
    if an attempt is sealed and would be sent again. Raises SenderAlive if its sender runs on this
    machine, or is seen to run elsewhere.
    """
    ledger = Ledger(store, spec.name)
    plan_id = _choose_plan(spec, plan_id, ledger.fold.egress.claims)
    claim = ledger.fold.egress.claims[plan_id]
    _refuse_living_sender(claim, plan_id, engine)
    attempt = Attempt(plan_id, 0, claim.attempt)
    if how == "resend" and store.size(attempt.manifest_path) is not None:
        raise NotClaimed(
            f"plan {plan_id}: attempt {claim.attempt} has sent all of it, and only its commit is "
            "missing. Repeat the run, or clear its task that publishes. `--how declare-sent` also "
            "counts it as sent, and `tidegate replay` sends it again after that",
            open=list(ledger.fold.egress.claims),
        )
    if application := claim.sender.get("application"):
        # A driver that has not read its job never will.
        engine.withdraw(application, attempt, store)
    outcome = ledger.append(Release(plan_id, claim.attempt, how, reason), run=run)
    if isinstance(outcome, Lost):
        raise NotClaimed(f"plan {plan_id}: another process has just ended its claim")
    return Released(
        pipeline=spec.name,
        plan_id=plan_id,
        how=how,
        files=tuple(file.name for file in claim.files),
    )


def _choose_plan(spec: EgressSpec, plan_id: str | None, claims: Mapping[str, Claim]) -> str:
    """Return the plan whose claim is meant: the given one, or that of the only open claim."""
    if plan_id is None and len(claims) == 1:
        (plan_id,) = claims
    if plan_id is None or plan_id not in claims:
        raise NotClaimed(
            f"pipeline {spec.name!r} has no open claim"
            + (f" of plan {plan_id}" if plan_id else " to choose")
            + f"; open: {', '.join(claims) or 'none'}",
            open=list(claims),
        )
    return plan_id


def _refuse_living_sender(claim: Claim, plan_id: str, engine: Engine) -> None:
    """Raise SenderAlive if what the claim's sender sends from now on could be sent again."""
    sender = dict(claim.sender)
    if is_alive(claim.sender, claim.attempt):
        raise SenderAlive(
            f"plan {plan_id}: its sender, process {sender['pid']} of this machine, or its "
            "Spark driver, is alive: what it sends from now on would be sent again, or never be "
            "committed. Wait until it has ended, or end it first; then release",
            sender=sender,
            plan_id=plan_id,
        )
    application = claim.sender.get("application")
    if application and (found := engine.running(application)):
        raise SenderAlive(
            f"plan {plan_id}: {', '.join(found)} is not seen to have ended: what it sends from now "
            "on would be sent again, or never be committed. End it first; then release",
            sender=sender,
            plan_id=plan_id,
        )


def declare_late(
    spec: EgressSpec, stores: Stores, pipelines: Pipelines, reason: str, *, by: str, run: str
) -> Released:
    """Count the late ranges of a lake as sent: those committed below offsets that were sent before.

    Each range becomes a gap in the egress's own ledger. Raises NotClaimed if there is none.
    """
    ledger = Ledger(stores.open(spec.lake, spec.name), spec.name)
    name = spec.source.lake
    lake = open_source_lake(name, stores, pipelines) if name else None
    late = read_unsent(spec, lake, ledger.fold, in_order=True).late if lake else ()
    if not late:
        raise NotClaimed(
            f"pipeline {spec.name!r}: nothing in its source lies below what was sent", open=[]
        )
    gaps = [Gap(r.topic, each, r.partition, r.start, r.end, reason, by) for each, r in late]
    for gap in gaps:
        if not isinstance(outcome := ledger.append(gap, run=run), Appended):
            raise NotClaimed(
                f"{gap.topic}-{gap.partition}: another process has changed it meanwhile: {outcome}"
            )
    return Released(
        pipeline=spec.name,
        plan_id=None,
        how="declare sent",
        late=tuple(
            LateRange(gap.topic, gap.topic_id, gap.partition, gap.start, gap.end) for gap in gaps
        ),
    )
