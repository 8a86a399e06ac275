"""Publishing: sealed attempts become commits. Needs only the lake; idempotent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tidegate import faults
from tidegate.core import decoding
from tidegate.core.entries import Account, Commit, Decoded, Reference
from tidegate.core.files import LakeFile
from tidegate.core.judge import (
    Accepted,
    Adopt,
    Moved,
    NotLive,
    Refused,
    Unchecked,
    Verdict,
    judge,
)
from tidegate.core.plan import Plan
from tidegate.core.work import commits_of
from tidegate.errors import (
    AttemptAbandoned,
    IdentityChanged,
    LakeDamaged,
    ReplayRefused,
    TidegateError,
)
from tidegate.lake import attempts, decodings
from tidegate.lake.attempts import Attempt, Manifest
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.placing import finalise_each, unplaced_commits
from tidegate.lake.plan_work import gather_work
from tidegate.lake.store_protocol import Listed, Store

logger = logging.getLogger(__name__)


def commit(
    store: Store,
    ledger: Ledger,
    plan: Plan,
    manifest: Manifest,
    *,
    run: str,
    staged: Sequence[Listed] | None = None,
) -> Appended | Verdict:
    """Make a sealed attempt part of the lake by one ledger entry, or return why it is refused.

    Readers by the ledger see the rows as soon as the entry exists. What is known to keep the files
    from their final names is raised before that. `staged` are the attempt's files, if they were
    just listed.
    """
    attempt = manifest.attempt
    entry = commit_entry(plan, attempt, manifest.accounts, manifest.sha256, manifest.undecodable)
    sizes = dict(store.objects(attempt.directory) if staged is None else staged)
    for file in manifest.files:
        if sizes.get(file.path) != file.size:
            verdict = judge(ledger.refresh(), entry)
            # The sweeper may delete what is refused.
            if not isinstance(verdict, Accepted | Unchecked):
                return verdict
            raise LakeDamaged(
                f"{store.uri(file.path)} is missing or changed since it was sealed; "
                "clear the task that runs Spark, or repeat the command with this run id: the chunk "
                "is then staged again"
            )
    store.check_placing([(f.path, f.final, f.size) for f in manifest.files])
    while isinstance(outcome := append_entry(ledger, entry, run=run), Unchecked):
        wrong = decodings.chunk_contradictions(store, ledger.fold, plan, [attempt.chunk])
        if wrong:
            raise decodings.chunk_refusal(plan, attempt.chunk, wrong[attempt.chunk])
        entry = _beside(entry, outcome)
    return outcome


def _beside(entry: Commit, outcome: Unchecked) -> Commit:
    """Return an entry that names the decodings that its own were compared with."""
    decoded = dict(entry.decoded or {})
    for topic, digest in outcome.decodings:
        beside = tuple(sorted({*decoded[topic].beside, digest}))
        decoded[topic] = replace(decoded[topic], beside=beside)
    return replace(entry, decoded=decoded)


def commit_entry(
    plan: Plan,
    attempt: Attempt,
    accounts: Mapping[str, Mapping[int, Account]],
    sha256: str,
    undecodable: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> Commit:
    """Return the entry that commits an attempt, by the digest of its manifest."""
    decoded = {
        topic: Decoded(each.sha256, undecodable.get(topic, {}))
        for topic, each in decoding.decodings_of_plan(plan).items()
        if topic in accounts
    }
    return Commit(
        lane=plan.lane,
        plan_id=plan.id,
        plan_sha256=plan.sha256,
        chunk=attempt.chunk,
        attempt=attempt.name,
        cluster_id=plan.cluster_id,
        topic_ids={topic: plan.topics[topic] for topic in accounts},
        accounts=accounts,
        manifest=Reference(attempt.manifest_path, sha256),
        replaces=plan.replaces(attempt.chunk),
        keep_replaced=plan.keep_replaced,
        decoded=decoded or None,
    )


def append_entry(ledger: Ledger, entry: Commit, *, run: str) -> Appended | Verdict:
    """Append the entry of an attempt whose manifest is in the lake."""
    faults.point("publish.before")
    outcome = ledger.append(entry, run=run)
    faults.point("publish.committed")
    return outcome


def commit_sealed_chunks(
    store: Store,
    ledger: Ledger,
    plan: Plan,
    *,
    run: str,
    not_placed: list[TidegateError] | None = None,
    known: MutableMapping[Attempt, Manifest] | None = None,
) -> dict[int, int]:
    """Commit and place what is sealed of a plan. Return its commits by chunk.

    The caller has just read the ledger. Each commit reads it again.

    Chunks that are not sealed, or that others have covered, are missing from the result. An error
    of one chunk stops no other, and is raised at the end: ReplayRefused if others have replaced
    what it was to replace. Errors of placing are added to `not_placed`, if given, and not raised.
    `known` are manifests that the caller has; those that are read are added to it.
    """
    failures: list[TidegateError] = []
    all_committed = len(commits_of(ledger.fold, plan)) == len(plan.chunks)
    staged = {} if all_committed else attempts.staged_files(store, plan.id)
    sealed = gather_work(store, plan, ledger.fold, staged, known).sealed
    new: list[int] = []
    for number in sorted(sealed):
        try:
            manifest = sealed[number]
            # Of a single chunk nothing was done since it was listed.
            listed = staged[manifest.attempt] if len(sealed) == 1 else None
            n = append_commit(store, ledger, plan, manifest, run, listed)
        except TidegateError as error:
            if error.kind == "transient":
                raise
            failures.append(error)
        else:
            new += [] if n is None else [n]
    for other in failures[1:]:
        logger.error("plan %s: %s", plan.id, other)
    commits = commits_of(ledger.fold, plan)
    # The new commits cannot be in place yet: no listing for them.
    waiting = [
        *unplaced_commits(store, ledger.fold, among=set(commits.values()).difference(new)),
        *new,
    ]

    def files(n: int, entry: Commit) -> Sequence[LakeFile] | None:
        known = sealed.get(entry.chunk) if n in new else None
        return known.files if known and known.sha256 == entry.manifest.sha256 else None

    finalise_each(store, ledger, waiting, failures if not_placed is None else not_placed, files)
    if failures:
        raise failures[0]
    return commits


def append_commit(
    store: Store,
    ledger: Ledger,
    plan: Plan,
    manifest: Manifest,
    run: str,
    staged: Sequence[Listed] | None,
) -> int | None:
    """Commit a chunk. Return the number of its entry, or None if others have covered it."""
    number = manifest.attempt.chunk
    match commit(store, ledger, plan, manifest, run=run, staged=staged):
        case Appended(n) | Adopt(n):
            return n
        case Refused(reason):
            raise AttemptAbandoned(f"plan {plan.id}, chunk {number}: {reason}")
        case Moved(reason):
            raise IdentityChanged(f"plan {plan.id}, chunk {number}: {reason}; it is not committed")
        case NotLive(ranges):
            raise ReplayRefused(
                f"plan {plan.id}, chunk {number}: others have replaced {ranges[0]} meanwhile; "
                "nothing of the chunk was committed. If it is still to be read again, start a "
                "replay with a new id",
                chunk=number,
            )
    return None
