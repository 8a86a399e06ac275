"""Status of an egress pipeline: what was sent, its backlog, and open claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tidegate.core import layout
from tidegate.core.entries import Claim, Commit
from tidegate.core.fold import Fold
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.plan import LeftOutFile
from tidegate.core.wording import counted
from tidegate.egress.backlog import read_backlog
from tidegate.egress.sender import is_dead_here
from tidegate.errors import TidegateError
from tidegate.lake import json_documents, plans
from tidegate.lake.ledger import LastEntry, Ledger, last_entry
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.pipeline_state import Judged, PipelineStatus, State, judge_backlog
from tidegate.runs.spec_protocol import EgressSpec, Pipelines

FORMAT = 1


@dataclass(frozen=True)
class Waiting(Document):
    """What of a source is not sent yet: files and their bytes, offsets of a lake.

    `young` files are not settled, and will be in `settles_in` seconds. Offsets `ahead` are behind
    an unseen one. Offsets `unselected` are of topics that `source.topics` does not name.
    """

    files: int
    bytes: int
    young: int
    settles_in: int | None
    offsets: int
    ahead: int
    unselected: int


@dataclass(frozen=True)
class SourceState(Document):
    """The source of an egress. `waiting` is None if it cannot be read, and `source_problem` why.

    `refused`: a retry would have the same problem.
    """

    source: str
    source_problem: str | None
    waiting: Waiting | None
    left_out: tuple[LeftOutFile, ...]
    refused: Annotated[bool, OMITTED] = False


@dataclass(frozen=True)
class Sent(Document):
    """What live commits have sent. `duplicates` of the rows were sent twice, by a release."""

    files: int
    rows: int
    duplicates: int


@dataclass(frozen=True)
class Quarantined(Document):
    """The rows of live commits that are in quarantine, and the directory with them."""

    rows: int
    uri: str


@dataclass(frozen=True)
class BrokenOrder(Document):
    """A commit whose rows stand behind later ones, and the topics or partitions where they do."""

    commit: int
    where: tuple[str, ...]


@dataclass(frozen=True)
class OpenClaim(Document):
    """A claim that has not ended. `sender_dead` is true only if this machine proves it.

    `replay` is the id of the replay that it is for.
    """

    plan_id: str
    replay: str | None
    attempt: str
    sender: Mapping[str, Any]
    sender_dead: bool
    files: tuple[str, ...]
    offsets: int


@dataclass(frozen=True, kw_only=True)
class EgressStatus(PipelineStatus):
    """What an egress has sent, what waits, and its open claims (contract: `status --json`).

    `target` has the end of each partition after the last commit. `refused` is that of the source.
    """

    format: int = FORMAT
    pipeline: str
    kind: str
    source: str
    source_problem: str | None
    waiting: Waiting | None
    left_out: tuple[LeftOutFile, ...]
    sent: Sent
    target: Mapping[str, Mapping[int, int]]
    quarantine: Quarantined | None
    commits: int
    last_commit: int | None
    last_entry: LastEntry | None
    broken_order: tuple[BrokenOrder, ...]
    open_claims: tuple[OpenClaim, ...]
    refused: Annotated[bool, OMITTED] = False


def waiting_items(waiting: Waiting | None) -> int | None:
    """Return how many offsets, or files, wait. None if that is not known."""
    return None if waiting is None else waiting.offsets or waiting.files + waiting.young


def judge_egress(status: EgressStatus) -> Judged:
    """Return the state that a status shows."""
    waiting, count = status.waiting, waiting_items(status.waiting)
    for claim in status.open_claims:
        if claim.replay and claim.sender_dead:  # of another plan, the next run goes on with it
            reason = f"plan {claim.plan_id}: replay {claim.replay} was not finished"
            return Judged(State.BLOCKED, reason, count)
    if status.left_out:
        return Judged(State.BLOCKED, str(status.left_out[0]), count)
    if waiting is None or count is None:
        state = State.BLOCKED if status.refused else State.UNKNOWN
        return Judged(state, status.source_problem or "")
    for claim in status.open_claims:
        if not claim.sender_dead:
            reason = f"plan {claim.plan_id} is being sent, or its sender cannot be seen from here"
            return Judged(State.OK, reason, count)
    if waiting.ahead and not count:
        return Judged(State.OK, f"{counted(waiting.ahead, 'offset')} behind an unseen one", 0)
    return judge_backlog(count, "offset" if waiting.offsets else "file")


def read_egress_status(
    spec: EgressSpec, stores: Stores, pipelines: Pipelines, *, footers: bool = True
) -> EgressStatus:
    """Return what was sent, and the backlog.

    Only with `footers` are broken Parquet files recognised, and rows in quarantine counted.
    """
    store = stores.open(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    most = spec.max_records if footers else None
    source = read_source(spec, stores, pipelines, store, fold, most)
    live = fold.live.values()
    return EgressStatus(
        pipeline=spec.name,
        kind=spec.kind,
        source=source.source,
        source_problem=source.source_problem,
        waiting=source.waiting,
        left_out=source.left_out,
        sent=Sent(
            files=len(fold.egress.sent),
            rows=sum(r.sent for commit in live for r in commit.receipts),
            duplicates=sum(commit.duplicates for commit in live),
        ),
        target={
            topic: dict(sorted(ends.items()))
            for topic, ends in sorted(fold.egress.target_ends.items())
        },
        quarantine=_quarantine(store, fold) if footers else None,
        commits=len(fold.live),
        last_commit=max(fold.live, default=None),
        last_entry=last_entry(store, fold),
        broken_order=tuple(
            BrokenOrder(n, commit.broken_order)
            for n, commit in fold.live.items()
            if commit.broken_order
        ),
        open_claims=tuple(_open_claim(store, claim) for claim in fold.egress.claims.values()),
        refused=source.refused,
    )


def read_source(
    spec: EgressSpec,
    stores: Stores,
    pipelines: Pipelines,
    store: Store,
    fold: Fold,
    max_records: int | None = None,
) -> SourceState:
    """Return the backlog of the source, or why it cannot be read.

    With `max_records`, the footers of the files that the next run would send are read.
    """
    source = spec.source.path or f"the lake of {spec.source.lake}"
    try:
        backlog = read_backlog(spec, stores, pipelines, store, fold, max_records)
    except TidegateError as error:
        return SourceState(source, str(error), None, (), refused=error.kind == "terminal")
    waiting = Waiting(
        files=len(backlog.files),
        bytes=sum(file.size for file in backlog.files),
        young=len(backlog.young),
        settles_in=backlog.settles_in,
        offsets=sum(map(len, backlog.unsent.ranges)),
        ahead=backlog.unsent.ahead,
        unselected=sum(backlog.unsent.unselected.values()),
    )
    return SourceState(source, None, waiting, tuple(backlog.left_out))


def _quarantine(store: Store, fold: Fold) -> Quarantined | None:
    kept = {each.path.removeprefix(layout.QUARANTINE).split("/")[0]
            for each in store.objects(layout.QUARANTINE)}  # fmt: skip
    commits = [commit for commit in fold.live.values() if commit.plan_id in kept]
    rows = sum(store.each(lambda commit: _bad_rows(store, commit), commits))
    return Quarantined(rows, store.uri(layout.QUARANTINE.rstrip("/"))) if rows else None


def _bad_rows(store: Store, commit: Commit) -> int:
    """Return how many rows of a commit are in quarantine. 0 if its manifest is missing."""

    def count(form: Mapping[str, Any]) -> int:
        return sum(each["bad"] for each in form["files"])

    return json_documents.read_document(store, commit.manifest.path, count) or 0


def _open_claim(store: Store, claim: Claim) -> OpenClaim:
    replay = plans.load_plan(store, claim.plan_id).replay or {}
    return OpenClaim(
        plan_id=claim.plan_id,
        replay=replay["id"] if "asked" in replay else None,  # a --resend has no id of its own
        attempt=claim.attempt,
        sender=claim.sender,
        sender_dead=is_dead_here(claim.sender, claim.attempt),
        files=tuple(file.name for file in claim.files),
        offsets=sum(map(len, claim.window)),
    )
