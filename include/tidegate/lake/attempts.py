"""Attempts: what Spark wrote to a staging directory, and the manifest that proves it complete."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidegate.core import accounting, decoding, layout, parquet_settings
from tidegate.core.canonical import FORMAT
from tidegate.core.entries import Account, Commit, accounts_of
from tidegate.core.files import LakeFile, final_name
from tidegate.core.json_codec import StoredDocument
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import AttemptWrong, LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.store_protocol import Listed, Store
from tidegate.spark.ingest_job import DONE, StagedChunk

if TYPE_CHECKING:
    from tidegate.lake.footers import ParquetFile

T = TypeVar("T", Account, "HoleProof")

logger = logging.getLogger(__name__)


class Attempt(NamedTuple):
    """One execution of a chunk, by the name of its own staging directory."""

    plan_id: str
    chunk: int
    name: str

    @classmethod
    def of(cls, commit: Commit) -> Attempt:
        """Return the attempt that a commit has made a part of the lake."""
        return cls(commit.plan_id, commit.chunk, commit.attempt)

    @property
    def directory(self) -> str:
        return layout.attempt(*self)

    @property
    def done_path(self) -> str:
        return self.directory + DONE

    @property
    def manifest_path(self) -> str:
        return layout.manifest(*self)


class HoleProof(NamedTuple):
    """How many holes (offsets without a row) a range has, were probed, and cannot be proven."""

    holes: int = 0
    probed: int = 0
    unprovable: int = 0


Staged = Mapping[Attempt, Sequence[Listed]]
"""What is staged, by attempt."""


@dataclass(frozen=True)
class Manifest(StoredDocument):
    """The record that an attempt is complete and right. A commit has its digest.

    `files` are sorted by topic, partition and offset. `largest` is the size of its largest record
    in bytes, as `tidegate.spark.records` counts them. None where it has none. `seen` is what the
    broker said after they were read: topic ids, log starts and leader epochs. `undecodable` are
    rows that do not fit their schema, by topic and reason.
    """

    attempt: Attempt
    files: tuple[LakeFile, ...]
    largest: int | None
    accounts: Mapping[str, Mapping[int, Account]]
    proofs: Mapping[str, Mapping[int, HoleProof]]
    seen: Mapping[str, Any]
    versions: Mapping[str, str]
    undecodable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        plan_id, chunk, attempt = self.attempt
        return {
            "format": FORMAT,
            "plan_id": plan_id,
            "chunk": chunk,
            "attempt": attempt,
            "files": [file.to_json() for file in self.files],
            "largest": self.largest,
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
            **({"undecodable": dict(self.undecodable)} if self.undecodable else {}),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Manifest:
        def by_partition(kind: type[T]) -> dict[str, dict[int, T]]:
            return {
                topic: {
                    int(p): kind._make(each[name] for name in kind._fields)
                    for p, each in partitions.items()
                }
                for topic, partitions in form["partitions"].items()
            }

        return cls(
            attempt=Attempt(form["plan_id"], form["chunk"], form["attempt"]),
            files=tuple(map(LakeFile.from_json, form["files"])),
            largest=form["largest"],
            accounts=by_partition(Account),
            proofs=by_partition(HoleProof),
            seen=form["seen"],
            versions=form["versions"],
            undecodable=form.get("undecodable", {}),
        )

    @property
    def epochs(self) -> dict[tuple[str, int], int]:
        """The leader epochs at which its rows were proven, by topic and partition."""
        return {
            (topic, int(p)): int(epoch)
            for topic, each in self.seen["epochs"].items()
            for p, epoch in each.items()
        }


def read_manifest(store: Store, attempt: Attempt) -> Manifest | None:
    """Return the manifest of an attempt, or None if it is not sealed.

    LakeDamaged if it cannot be read, or is another attempt's.
    """

    def manifest_of(form: Mapping[str, Any]) -> Manifest:
        manifest = Manifest.from_json(form)
        if manifest.attempt != attempt:
            raise ValueError(f"it is the manifest of {manifest.attempt}")
        return manifest

    return json_documents.read_document(store, attempt.manifest_path, manifest_of)


def committed_manifest(store: Store, commit: Commit) -> Manifest:
    """Return the manifest of an ingest commit. LakeDamaged if it is not the one committed."""
    path = commit.manifest.path
    return json_documents.read_same(store, path, commit.manifest.sha256, Manifest.from_json)


def proven_epochs(store: Store, commit: Commit) -> dict[tuple[str, int], int]:
    """Return the leader epochs at which a commit was proven, by topic and partition.

    Empty if its manifest is missing or damaged: `verify` reports that, and it must not stop a run.
    """
    try:
        return committed_manifest(store, commit).epochs
    except LakeDamaged as error:
        logger.warning("the leader epochs of a commit are not known: %s", error)
        return {}


def staged_files(store: Store, plan_id: str | None = None) -> dict[Attempt, list[Listed]]:
    """List the files that are staged, of one plan or of all, by attempt."""
    staged: dict[Attempt, list[Listed]] = {}
    for listed in store.objects(f"{layout.STAGING}{plan_id}/" if plan_id else layout.STAGING):
        parts = listed.path.removeprefix(layout.STAGING).split("/")
        if len(parts) > 3 and parts[1].isdecimal():
            staged.setdefault(Attempt(parts[0], int(parts[1]), parts[2]), []).append(listed)
    return staged


def delete_files(store: Store, attempt: Attempt) -> None:
    """Delete what is in an attempt's directory. Its manifest is elsewhere."""
    store.delete(*(listed.path for listed in store.objects(attempt.directory)))
    store.prune(attempt.directory)


def read_done(store: Store, attempt: Attempt) -> StagedChunk | None:
    """Return the job's own record of a finished attempt. None while it is not finished.

    Raises AttemptWrong if it is malformed: it is written atomically, so a retry cannot help.
    """
    try:
        return json_documents.read_document(store, attempt.done_path, StagedChunk.from_json)
    except LakeDamaged as error:
        raise AttemptWrong(f"{error}: the attempt counts as not finished") from None


Prober = Callable[[Sequence[OffsetRange]], Mapping[OffsetRange, str]]
"""Probes holes: hole → "empty" or "unprovable". Raises RowsMissing for a visible record."""


def check_attempt(
    store: Store,
    plan: Plan,
    attempt: Attempt,
    done: StagedChunk,
    *,
    probe: Prober,
    log_starts: Mapping[str, Mapping[int, int]],
    bound: int,
    seen: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Manifest:
    """Prove that an attempt holds exactly its chunk, or raise AttemptWrong or RowsMissing.

    `bound` is the most holes that are probed; those below a log start are counted as unprovable.
    """
    window = plan.chunks[attempt.chunk]
    staged, undecodable = [], dict[str, Counter[str]]()
    for file, parquet in _read(store, plan, attempt):
        staged.append((file, parquet.contents))
        if parquet.undecodable:
            undecodable.setdefault(file.topic, Counter()).update(parquet.undecodable)
    rows = sum(file.rows for file, _ in staged)
    found, wrong = accounting.collect_offsets(window, staged)
    if rows != done.rows:
        wrong.append(f"Spark counted {done.rows} rows, the files hold {rows}")
    if wrong:
        raise AttemptWrong(
            f"attempt {attempt.name} of plan {attempt.plan_id}, chunk {attempt.chunk}: "
            + "; ".join(wrong[:5]),
            complaints=len(wrong),
        )
    holes = accounting.find_holes(window, found)
    return Manifest(
        attempt=attempt,
        files=tuple(sorted((file for file, _ in staged), key=lambda file: file.order)),
        largest=done.largest,
        accounts=accounts_of(window, {key: len(offsets) for key, offsets in found.items()}),
        proofs=_prove(holes, probe, log_starts, bound, seed=attempt.name),
        seen=seen,
        versions=versions,
        undecodable={topic: dict(counts) for topic, counts in sorted(undecodable.items())},
    )


def create_manifest(store: Store, manifest: Manifest) -> bool:
    """Create the manifest of an attempt, after its files are made durable.

    False if there is another one: it is as good, of a process that has proven the same files.
    """
    store.make_durable([file.path for file in manifest.files])
    return store.create(manifest.attempt.manifest_path, manifest.encoded)


def _read(store: Store, plan: Plan, attempt: Attempt) -> Iterator[tuple[LakeFile, ParquetFile]]:
    """Read the files of an attempt that have rows, with the final names that the plan gives them.

    Spark writes one without rows if its first task has none.
    """
    from tidegate.lake import footers  # and PyArrow, which a plan does not need

    listed, fields = [], plan.parquet.fields
    for each in store.objects(attempt.directory):
        if of_file := parquet_settings.staged_directories(
            each.path.removeprefix(attempt.directory), fields
        ):
            listed.append((of_file[0].removeprefix("topic="), of_file[1:], each))
    added = {topic: each.columns for topic, each in decoding.decodings_of_plan(plan).items()}
    read = store.each(
        lambda item: footers.read_data_file(
            store, item[2], is_new=True, decoded=added.get(item[0], ())
        ),
        listed,
    )
    for (topic, of_rows, (path, size)), found in zip(listed, read, strict=True):
        if parts := found.contents.parts:
            within = plan.parquet.directories(plan.window_date, of_rows)
            final = final_name(topic, within, parts, plan.id)
            ascending = found.contents.ascending
            yield LakeFile(topic, parts, ascending, size, found.digest, path, final), found


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
            if accounting.has_expired_part(hole, log_starts[r.topic].get(r.partition, 0)):
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
