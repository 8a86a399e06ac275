"""The work on a plan: what is staged of its chunks, and so what is left to do.

The ledger is read first, the files in staging are listed after it: a chunk that another process
seals meanwhile is then not missed. The sweeper and `repair`, which delete and move files, list
before they read the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from tidegate.core.fold import Fold
from tidegate.core.plan import Plan
from tidegate.core.work import PlannedChunk, Standing, chunks_of, may_be_committed
from tidegate.lake.attempts import Attempt, Manifest, Staged, read_manifest, staged_files
from tidegate.lake.store_protocol import Listed, Store

logger = logging.getLogger(__name__)


class PlanWork(NamedTuple):
    """The chunks of a plan as they stood, and what was staged of them.

    `sealed` has a manifest for each chunk that can be published. `finished` are the attempts that
    Spark has finished, of other chunks that can be committed. Each is as good as a new one, once it
    is checked.
    """

    chunks: Sequence[PlannedChunk]
    sealed: Mapping[int, Manifest]
    finished: Sequence[Attempt]

    @property
    def to_stage(self) -> list[int]:
        """The chunks that are neither sealed nor in the lake."""
        return [c.number for c in self.chunks if not c.is_done and c.number not in self.sealed]


def gather_work(
    store: Store,
    plan: Plan,
    fold: Fold,
    staged: Staged | None = None,
    known: MutableMapping[Attempt, Manifest] | None = None,
) -> PlanWork:
    """Return the work on a plan. LakeDamaged if a manifest cannot be read.

    `staged` is what is staged of the plan, if it was just listed. Manifests in `known` are not read
    again: they are never changed. What is read is added to it.
    """
    chunks = chunks_of(fold, plan)
    # Attempts are found by a listing of staging, which is empty when all is placed and swept. On a
    # disk a listing of `manifests/` would read the names of all commits ever made.
    if staged is None:
        staged = staged_files(store, plan.id) if chunks else {}
    known = {} if known is None else known
    # The staged files of a committed chunk may have been swept.
    done = [
        attempt
        for attempt, files in open_attempts(fold, staged).items()
        if attempt.chunk < len(chunks) and attempt.done_path in dict(files)
    ]
    unread = [attempt for attempt in done if attempt not in known]
    read = store.each(lambda attempt: read_manifest(store, attempt), unread)
    known.update((manifest.attempt, manifest) for manifest in read if manifest)
    sealed: dict[int, Manifest] = {}
    for manifest in (known[attempt] for attempt in done if attempt in known):
        sizes = dict(staged[manifest.attempt])
        if all(sizes.get(f.path) == f.size for f in manifest.files):
            sealed.setdefault(manifest.attempt.chunk, manifest)
        else:
            uri = store.uri(manifest.attempt.manifest_path)
            logger.warning("%s does not count: its files are gone", uri)
    finished = [
        attempt
        for attempt in done
        if attempt not in known
        and attempt.chunk not in sealed
        and chunks[attempt.chunk].standing is Standing.PENDING
    ]
    return PlanWork(chunks, sealed, finished)


def open_attempts(fold: Fold, staged: Staged) -> dict[Attempt, Sequence[Listed]]:
    """Return what is staged of attempts that are not abandoned, of chunks that are not committed.

    Handover directories of applications are among them.
    """
    return {a: files for a, files in staged.items() if may_be_committed(fold, a)}
