"""Deliveries: the seal of an egress attempt, and the commit that it becomes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tidegate.core import canonical
from tidegate.core.entries import Receipt, Resent, accounts_of
from tidegate.core.fold import Fold
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.judge import Verdict
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake import committing, json_documents, manifests, plans
from tidegate.lake.attempts import Attempt, staged_files
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import Store

FORMAT = 1


@dataclass(frozen=True)
class SentFile:
    """A file of the source, or `<topic id>/<partition>` of a lake: rows sent, and `bad` ones.

    `digest` is of the content of all rows sent, `sha256` that of a file on a disk, by which it is
    known again when its time has changed.
    """

    file: str
    rows: int
    bad: int
    digest: str
    sha256: str | None = None


@dataclass(frozen=True)
class Delivery(Document):
    """The record that all rows of a plan are in the target, by the read-back.

    `broken_order` names the target partitions, or topics, in which rows are not in their order.
    `types` is Spark's schema, as JSON, of the keys of JSON files that expressions have named.
    """

    plan_id: str
    attempt: str
    files: tuple[SentFile, ...]
    receipts: tuple[Receipt, ...]
    broken_order: tuple[str, ...]
    versions: Mapping[str, str]
    types: Annotated[Mapping[str, Any] | None, OMITTED] = None
    resent: Annotated[tuple[Resent, ...], OMITTED] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "chunk": 0, **super().to_json()}


def sealed(store: Store, plan: Plan, fold: Fold) -> Delivery | None:
    """Return the seal of an attempt of this plan that is not abandoned."""
    for attempt, files in staged_files(store, plan.id).items():
        if attempt.seal_path in dict(files) and attempt not in fold.abandoned:
            return json_documents.read(store, attempt.seal_path, Delivery.from_json)
    return None


def seal(store: Store, delivery: Delivery) -> None:
    """Create the seal of an attempt; LakeDamaged if there is another one."""
    path = Attempt(delivery.plan_id, 0, delivery.attempt).seal_path
    if not store.create(path, canonical.encode(delivery.to_json())):
        raise LakeDamaged(f"attempt {delivery.attempt} is sealed already, by another process")


def commit(
    store: Store, ledger: Ledger, plan: Plan, delivery: Delivery, *, run: str
) -> Appended | Verdict:
    """Record that a plan's rows are in the target: they are not sent again."""
    manifest = manifest_of(plan, delivery)
    rows = {each.file: each.rows + each.bad for each in delivery.files}
    window = tuple(r for chunk in plan.chunks for r in chunk)
    counted = {
        (r.topic, r.partition): rows.get(f"{plan.topics[r.topic]}/{r.partition}", 0) for r in window
    }
    entry = committing.commit_entry(
        plan,
        Attempt(plan.id, 0, delivery.attempt),
        accounts_of(window, counted),
        manifest,
        receipts=delivery.receipts,
        broken_order=delivery.broken_order,
        resent=delivery.resent,
    )
    return committing.append_commit(store, ledger, entry, manifest, run=run)


def manifest_of(plan: Plan, delivery: Delivery) -> bytes:
    """Return the canonical bytes of the list of what was sent, with size and etag of each file."""
    planned = {file.name: {"size": file.size, "etag": file.etag} for file in plan.files}
    files = [
        {**vars(each), **planned.get(each.file, {})}
        for each in sorted(delivery.files, key=lambda each: each.file)
    ]
    types = {"types": delivery.types} if delivery.types else {}
    return canonical.encode({"format": FORMAT, "files": files, **types})


def sent_contents(store: Store, fold: Fold, names: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of files as they were sent last, where both are recorded.

    Reads the manifests of live commits, newest first, until all names are found; one that is lost
    or damaged says nothing of its files.
    """
    found: dict[str, tuple[int, str]] = {}
    for n in sorted(fold.live, reverse=True):
        if not set(names) - found.keys():
            break
        with contextlib.suppress(LakeDamaged):
            for form in manifests.read_forms(store, fold.live[n]):
                name = form["file"]
                # Not of an earlier content: what was declared sent since has no record.
                is_last = name in names and fold.sent.get(name) == form.get("etag")
                if is_last and form.get("sha256"):
                    found.setdefault(name, (form["size"], form["sha256"]))
    return found


def sent_types(store: Store, fold: Fold) -> Mapping[str, Any] | None:
    """Return the types of the newest commit; None if it has none, or there is no commit.

    LakeDamaged if its manifest is lost, and cannot be made again from its plan and its seal.
    """
    if not fold.live:
        return None
    newest = fold.live[max(fold.live)]
    try:
        return manifests.read_form(store, newest).get("types")
    except LakeDamaged:
        with contextlib.suppress(LakeDamaged):  # the manifest is the one to restore
            plan = plans.load(store, newest.plan_id)
            path = Attempt(newest.plan_id, 0, newest.attempt).seal_path
            delivery = json_documents.read(store, path, Delivery.from_json)
            if delivery and canonical.digest(manifest_of(plan, delivery)) == newest.manifest.sha256:
                return delivery.types
        raise
