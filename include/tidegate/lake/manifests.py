"""Manifests: the lists of the files of commits. A commit has the digest of its manifest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tidegate.core import canonical, layout
from tidegate.core.accounting import StagedFile
from tidegate.core.entries import Commit
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.attempts import Seal
from tidegate.lake.store import Store

FORMAT = 1


@dataclass(frozen=True)
class LakeFile:
    """A file of a commit: where the attempt staged it, and its final name under `data/`."""

    staged: StagedFile
    final: str


def files_of_seal(plan: Plan, seal: Seal) -> list[LakeFile]:
    """Return an attempt's files with the final names that a commit gives them."""
    return [
        LakeFile(
            f,
            layout.DataFile(f.topic, plan.window_date, f.partition, f.first, f.last, plan.id).path,
        )
        for f in sorted(seal.files, key=lambda f: (f.topic, f.partition, f.first))
    ]


def manifest_of(plan: Plan, seal: Seal) -> bytes:
    """Return the canonical bytes of the list of an attempt's files."""
    files = [{**asdict(f.staged), "final": f.final} for f in files_of_seal(plan, seal)]
    return canonical.encode({"format": FORMAT, "files": files})


def files_by_seal(plan: Plan, seal: Seal, commit: Commit) -> list[LakeFile] | None:
    """Return the files of a commit without reading its manifest; None if it is of another seal.

    The manifest has the digest that is in the commit, so it lists what this seal has.
    """
    if canonical.digest(manifest_of(plan, seal)) != commit.manifest.sha256:
        return None
    return files_of_seal(plan, seal)


def read_manifest(store: Store, commit: Commit) -> list[LakeFile]:
    """Return the files of an ingest commit, by their staged and by their final names.

    LakeDamaged if the manifest is not the one that was committed.
    """
    forms = read_forms(store, commit)
    return [LakeFile(final=form.pop("final"), staged=StagedFile(**form)) for form in forms]


def read_forms(store: Store, commit: Commit) -> list[dict[str, Any]]:
    """Return the files of any commit as JSON; LakeDamaged if the list was changed."""
    return list(read_form(store, commit)["files"])


def read_form(store: Store, commit: Commit) -> dict[str, Any]:
    """Return the manifest of any commit as JSON; LakeDamaged if it was changed."""
    data = store.get(commit.manifest.path)
    where = store.uri(commit.manifest.path)
    if data is None or canonical.digest(data) != commit.manifest.sha256:
        state = "is missing" if data is None else "was changed"
        raise LakeDamaged(f"the manifest {where} {state}; restore it from a copy")
    return dict(json_documents.loads(data, where))
