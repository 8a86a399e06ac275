"""Attempts and seals: what Spark wrote to a staging directory, and the proof that it is right."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar, get_type_hints

from tidegate.core import accounting, canonical, layout
from tidegate.core.accounting import StagedFile
from tidegate.core.entries import Account, accounts_of
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.errors import AttemptWrong, LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.footers import read_offsets, read_staged
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store import Listed, Store

FORMAT = 1
SEAL = "_seal.json"
DONE = "_done.json"
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Attempt(NamedTuple):
    """One execution of a chunk, by the name of its own staging directory."""

    plan_id: str
    chunk: int
    name: str

    @property
    def directory(self) -> str:
        return layout.attempt(*self)

    @property
    def seal_path(self) -> str:
        return self.directory + SEAL

    @property
    def done_path(self) -> str:
        return self.directory + DONE


class HoleProof(NamedTuple):
    """How many holes (offsets without a row) a range has, were probed, and cannot be proven."""

    holes: int = 0
    probed: int = 0
    unprovable: int = 0


Staged = Mapping[Attempt, Sequence[Listed]]
"""What is staged, by attempt."""


@dataclass(frozen=True)
class Seal:
    """The record that an attempt is complete and right."""

    attempt: Attempt
    files: tuple[StagedFile, ...]
    accounts: Mapping[str, Mapping[int, Account]]
    proofs: Mapping[str, Mapping[int, HoleProof]]
    seen: Mapping[str, Any]  # topic ids and log starts after the read
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        plan_id, chunk, attempt = self.attempt
        return {
            "format": FORMAT,
            "plan_id": plan_id,
            "chunk": chunk,
            "attempt": attempt,
            "files": [asdict(f) for f in self.files],
            "partitions": {
                topic: {
                    str(p): {
                        **account._asdict(),
                        **self.proofs.get(topic, {}).get(p, HoleProof())._asdict(),
                    }
                    for p, account in partitions.items()
                }
                for topic, partitions in self.accounts.items()
            },
            "seen": dict(self.seen),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Seal:
        def by_partition(kind: type[T]) -> dict[str, dict[int, T]]:
            names = get_type_hints(kind)
            return {
                topic: {int(p): kind(*(each[n] for n in names)) for p, each in partitions.items()}
                for topic, partitions in form["partitions"].items()
            }

        return cls(
            attempt=Attempt(form["plan_id"], form["chunk"], form["attempt"]),
            files=tuple(StagedFile(**f) for f in form["files"]),
            accounts=by_partition(Account),
            proofs=by_partition(HoleProof),
            seen=form["seen"],
            versions=form["versions"],
        )


def sealed(
    store: Store,
    plan: Plan,
    fold: Fold,
    staged: Staged | None = None,
    known: MutableMapping[Attempt, Seal] | None = None,
) -> dict[int, Seal]:
    """Return one seal for each chunk of a plan that is sealed and not committed.

    Seals of abandoned attempts, and those whose files are gone, do not count. `staged` is what is
    staged of the plan, if it was just listed. Seals in `known` are not read again: they are never
    changed. What is read is added to it.
    """
    staged = staged_files(store, plan.id) if staged is None else staged
    known = {} if known is None else known
    candidates = [a for a in _committable(fold, staged) if a.seal_path in dict(staged[a])]
    unread = [attempt for attempt in candidates if attempt not in known]
    read = zip(unread, in_parallel(lambda attempt: read_seal(store, attempt), unread), strict=True)
    known.update((attempt, seal) for attempt, seal in read if seal)
    found: dict[int, Seal] = {}
    for attempt in candidates:
        sizes, seal = dict(staged[attempt]), known.get(attempt)
        if seal and all(sizes.get(f.path) == f.size for f in seal.files):
            found.setdefault(attempt.chunk, seal)
        else:
            logger.warning("%s does not count: its files are gone", store.uri(attempt.seal_path))
    return found


def finished(store: Store, plan: Plan, fold: Fold, staged: Staged) -> list[Attempt]:
    """Return the finished attempts of chunks that can be committed and have no seal.

    `staged` is what is staged of the plan. Each is as good as a new one, once it is sealed.
    """
    found = [
        attempt
        for attempt in _committable(fold, staged)
        if attempt.chunk < len(plan.chunks)
        and (plan.replay or not fold.covered_part(plan.chunks[attempt.chunk], plan.topics))
        and attempt.done_path in (paths := dict(staged[attempt]))
        and attempt.seal_path not in paths
    ]
    seals = sealed(store, plan, fold, staged) if found else {}
    return [attempt for attempt in found if attempt.chunk not in seals]


def staged_files(store: Store, plan_id: str | None = None) -> dict[Attempt, list[Listed]]:
    """List the files that are staged, of one plan or of all, by attempt."""
    staged: dict[Attempt, list[Listed]] = {}
    for listed in store.objects(f"{layout.STAGING}{plan_id}/" if plan_id else layout.STAGING):
        parts = listed.path.removeprefix(layout.STAGING).split("/")
        if len(parts) > 3 and parts[1].isdecimal():
            staged.setdefault(Attempt(parts[0], int(parts[1]), parts[2]), []).append(listed)
    return staged


def _committable(fold: Fold, staged: Iterable[Attempt]) -> Iterator[Attempt]:
    for attempt in staged:
        # The staged files of a committed chunk may have been swept.
        if attempt[:2] not in fold.committed and attempt not in fold.abandoned:
            yield attempt


def read_seal(store: Store, attempt: Attempt) -> Seal | None:
    """Return the seal of an attempt; None where there is none.

    LakeDamaged if it cannot be read, or is another attempt's.
    """

    def seal_of(form: Mapping[str, Any]) -> Seal:
        seal = Seal.from_json(form)
        if seal.attempt != attempt:
            raise ValueError(f"it is the seal of {seal.attempt}")
        return seal

    return json_documents.read(store, attempt.seal_path, seal_of)


def sealed_epochs(store: Store, attempt: Attempt) -> dict[tuple[str, int], int]:
    """Return the leader epochs at which an attempt was sealed, by topic and partition.

    Empty if the seal is missing or damaged: `verify` reports that, and it must not stop a run.
    """
    try:
        return json_documents.read(store, attempt.seal_path, _epochs) or {}
    except LakeDamaged as error:
        logger.warning("the leader epochs of a commit are not known: %s", error)
        return {}


def _epochs(form: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    return {
        (topic, int(p)): int(epoch)
        for topic, each in form["seen"]["epochs"].items()
        for p, epoch in each.items()
    }


def read_done(store: Store, attempt: Attempt) -> Mapping[str, Any] | None:
    """Return the job's own record of a finished attempt; None while it is not finished.

    AttemptWrong for one that makes no sense: it appears as a whole, and no copy of it exists.
    """

    def done_of(form: Mapping[str, Any]) -> Mapping[str, Any]:
        if type(form["rows"]) is not int or not isinstance(form["versions"], Mapping):
            raise ValueError("no number of rows, or no versions")
        return form

    try:
        return json_documents.read(store, attempt.done_path, done_of)
    except LakeDamaged as error:
        raise AttemptWrong(f"{error}: the attempt counts as not finished") from None


Prober = Callable[[Sequence[OffsetRange]], Mapping[OffsetRange, str]]
"""Probes holes: hole → "empty" or "unprovable"; raises RowsMissing for a visible record."""


def check(
    store: Store,
    attempt: Attempt,
    window: Window,
    done: Mapping[str, Any],
    *,
    probe: Prober,
    log_starts: Mapping[str, Mapping[int, int]],
    bound: int,
    seen: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Seal:
    """Prove that an attempt holds exactly its window, or raise AttemptWrong or RowsMissing.

    `bound` is the most holes that are probed; those below a log start are counted as unprovable.
    """
    files = _files_of(store, attempt)
    rows = sum(f.rows for f in files)
    wrong = accounting.complaints(window, files)
    if rows != done["rows"]:
        wrong.append(f"Spark counted {done['rows']} rows, the files hold {rows}")
    if wrong:
        raise AttemptWrong(
            f"attempt {attempt.name} of plan {attempt.plan_id}, chunk {attempt.chunk}: "
            + "; ".join(wrong[:5]),
            complaints=len(wrong),
        )
    counted = accounting.rows_by_partition(files)
    holes = {
        r: _holes(store, r, files) for r in accounting.short_ranges(window, counted)
    }  # fmt: skip
    return Seal(
        attempt=attempt,
        files=tuple(files),
        accounts=accounts_of(window, counted),
        proofs=_prove(holes, probe, log_starts, bound, seed=attempt.name),
        seen=seen,
        versions=versions,
    )


def seal(store: Store, proven: Seal) -> Seal | None:
    """Create the seal of an attempt, after its files are made durable; return it as it stands.

    None if another one existed already: it is as good, of a process that has proven the same files.
    """
    store.make_durable([f.path for f in proven.files])
    data = canonical.encode(proven.to_json())
    is_ours = store.create(proven.attempt.seal_path, data)
    return Seal.from_json(json.loads(data)) if is_ours else None


def _files_of(store: Store, attempt: Attempt) -> list[StagedFile]:
    pairs = []
    for listed in store.objects(attempt.directory):
        inner = listed.path.removeprefix(attempt.directory)
        directory, _, name = inner.partition("/")
        # Spark writes no deeper; what lies there belongs to a committer (`__magic_job-…`).
        if name.endswith(".parquet") and "/" not in name and directory.startswith("topic="):
            pairs.append((directory.removeprefix("topic="), listed))
    return read_staged(store, pairs)


def _holes(store: Store, r: OffsetRange, files: Sequence[StagedFile]) -> list[OffsetRange]:
    of_range = [f for f in files if (f.topic, f.partition) == (r.topic, r.partition)]
    try:
        return accounting.holes(r, read_offsets(store, of_range))
    except ValueError as error:
        raise AttemptWrong(str(error)) from None


def _prove(
    holes: Mapping[OffsetRange, Sequence[OffsetRange]],
    probe: Prober,
    log_starts: Mapping[str, Mapping[int, int]],
    bound: int,
    *,
    seed: str,
) -> dict[str, dict[int, HoleProof]]:
    provable, lost = [], set()
    for r, found in holes.items():
        for hole in found:
            if accounting.expired_part(hole, log_starts[r.topic].get(r.partition, 0)):
                lost.add(hole)
            else:
                provable.append(hole)
    outcomes = probe(accounting.choose_probes(provable, bound, seed)) if provable else {}
    proofs: dict[str, dict[int, HoleProof]] = {}
    for r, found in holes.items():
        empty = sum(outcomes.get(hole) == "empty" for hole in found)
        unprovable = sum(hole in lost or outcomes.get(hole) == "unprovable" for hole in found)
        proofs.setdefault(r.topic, {})[r.partition] = HoleProof(len(found), empty, unprovable)
    return proofs
