"""Deliveries: the manifest of an egress attempt, and the commit that it becomes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.canonical import FORMAT
from tidegate.core.entries import Commit, Receipt, accounts_of
from tidegate.core.fold import REPLAY, Fold
from tidegate.core.json_codec import StoredDocument
from tidegate.core.judge import Verdict
from tidegate.core.plan import Plan
from tidegate.core.work import delivery_state
from tidegate.errors import LakeDamaged
from tidegate.lake import committing, json_documents
from tidegate.lake.attempts import Attempt
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store_protocol import Store


@dataclass(frozen=True)
class SentFile:
    """A file of the source, or `<topic id>/<partition>` of a lake: rows sent, and `bad` ones.

    `size` and `etag` are those of the plan, None for a lake. `digest` is of the content of all rows
    sent, `sha256` that of a file on a disk, by which it is known again when its time has changed.
    """

    file: str
    rows: int
    bad: int
    digest: str
    size: int | None = None
    etag: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Delivery(StoredDocument):
    """The record that all rows of a plan are in the target, by the read-back: its manifest.

    `files` are sorted by name. `broken_order` names the target partitions, or topics, in which rows
    are not in their order. `proof`: by `counts` of the brokers, or `full`, by reading all back.
    """

    plan_id: str
    attempt: str
    files: tuple[SentFile, ...]
    receipts: tuple[Receipt, ...]
    broken_order: tuple[str, ...]
    proof: str
    versions: Mapping[str, str]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def of(self) -> Attempt:
        """The attempt that has sent and read back."""
        return Attempt(self.plan_id, 0, self.attempt)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "chunk": 0, **super().to_json()}


def sealed_delivery(store: Store, plan: Plan, fold: Fold) -> Delivery | None:
    """Return the delivery of the attempt that holds the claim of a plan, if it is complete."""
    claim = delivery_state(fold, plan.id).claim
    return read_delivery(store, Attempt(plan.id, 0, claim.attempt)) if claim else None


def read_delivery(store: Store, attempt: Attempt) -> Delivery | None:
    """Return the delivery of an attempt, or None if it is not sealed."""
    return json_documents.read_document(store, attempt.manifest_path, Delivery.from_json)


def committed_delivery(store: Store, commit: Commit) -> Delivery:
    """Return the delivery of a commit. LakeDamaged if it is not the one committed."""
    path = commit.manifest.path
    return json_documents.read_same(store, path, commit.manifest.sha256, Delivery.from_json)


def create_delivery(store: Store, delivery: Delivery) -> None:
    """Create the manifest of an attempt. LakeDamaged if there is another one."""
    if not store.create(delivery.of.manifest_path, delivery.encoded):
        raise LakeDamaged(f"attempt {delivery.attempt} is sealed already, by another process")


def commit_delivery(
    ledger: Ledger, plan: Plan, delivery: Delivery, *, run: str
) -> Appended | Verdict:
    """Record that a plan's rows are in the target: they are not sent again."""
    rows = {each.file: each.rows + each.bad for each in delivery.files}
    window = tuple(r for chunk in plan.chunks for r in chunk)
    counted = {
        (r.topic, r.partition): rows.get(f"{plan.topics[r.topic]}/{r.partition}", 0) for r in window
    }
    # A replay decides nothing for other runs.
    is_first = plan.lane != REPLAY and ledger.fold.egress.columns is None
    entry = replace(
        committing.commit_entry(plan, delivery.of, accounts_of(window, counted), delivery.sha256),
        receipts=delivery.receipts,
        broken_order=delivery.broken_order,
        columns=plan.columns if is_first else None,
    )
    return committing.append_entry(ledger, entry, run=run)


def sent_contents(store: Store, fold: Fold, names: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of files as they were sent last, where both are recorded.

    Reads the manifests of live commits, newest first, until all names are found. One that is lost
    or damaged says nothing of its files.
    """
    found: dict[str, tuple[int, str]] = {}
    for n in sorted(fold.live, reverse=True):
        if not set(names) - found.keys():
            break
        with contextlib.suppress(LakeDamaged):
            for each in committed_delivery(store, fold.live[n]).files:
                # Not of an earlier content: what was declared sent since has no record.
                is_last = each.file in names and fold.egress.sent.get(each.file) == each.etag
                if is_last and each.size is not None and each.sha256:
                    found.setdefault(each.file, (each.size, each.sha256))
    return found
