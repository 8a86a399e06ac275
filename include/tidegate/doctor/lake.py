"""The doctor's checks of a pipeline's lake: its ledger, free space, store and clock."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.core import layout
from tidegate.core.wording import counted
from tidegate.doctor.check import Line, failure, ok, warning
from tidegate.doctor.machine import disk
from tidegate.lake import create_check, placing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.lake.store_protocol import Store
from tidegate.pipelines.spec import Ingest, Spec

LONG_LEDGER = 5_000  # entries. Reading them takes seconds, or minutes on an object store
_SKEW, _TOO_SKEWED = 60.0, 1800.0  # seconds. The sweeper's grace is an hour


def check_lake(spec: Spec) -> Iterator[Line]:
    """Check that the lake exists, its ledger is readable and short, and its store is safe."""
    directory, store = _directory(spec.lake), open_store(spec.lake, spec.name)
    if directory and not directory.is_dir():
        store.check_writing()
        fix = "if it is a mount, mount it; else the first run creates it"
        yield warning("lake", f"{directory} does not exist", fix)
        return
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    says = f"{counted(fold.n, 'entry', 'entries')}, {counted(len(fold.live), 'live commit')}"
    if fold.n - ledger.checkpoint > LONG_LEDGER:
        says += f", {fold.n - ledger.checkpoint:,} since the last checkpoint"
        yield warning("ledger", says, f"`tidegate checkpoint {spec.name}`, or tidegate_maintenance")
    else:
        yield ok("ledger", says)
    waiting = placing.unplaced_commits(store, fold) if isinstance(spec, Ingest) else []
    if waiting:
        more = ", …" if len(waiting) > 1 else ""
        says = f"not all files of {counted(len(waiting), 'commit')} are in place"
        says += f" (#{waiting[0]}{more})"
        yield warning("ledger", says, f"`tidegate repair {spec.name}`, or the next run does it")
    if directory:
        yield from disk("lake disk", str(directory))
    yield from check_create_if_absent(spec.lake, spec.name)
    yield from check_clock(store)


def check_create_if_absent(lake: str, pipeline: str) -> Iterator[Line]:
    """Create the same name over several connections at once: exactly one may succeed per round.

    A store that fails is recorded in the lake, and runs then refuse it.
    """
    stores = [open_store(lake, pipeline) for _ in range(create_check.RIVALS)]
    store = stores[0]
    outcome = create_check.compete_for_names(stores)
    says = f"{outcome.winners} of {create_check.RIVALS} rivals created the same name in {store.url}"
    record = store.uri(layout.UNSAFE_STORE)
    if outcome.winners > 1:
        create_check.record_unsafe_store(store, outcome)
        yield failure(
            "lake",
            f"{says} (round {outcome.rounds}): two runs could commit the same offsets; runs refuse "
            f"this store from now on, by {record}",
            "use a lake that honours create-if-absent (buckets: `If-None-Match: *`; NFS: version "
            "4); `tidegate docs guarantees` names stores that do not. Then delete that object",
        )
    elif not outcome.atomic:
        yield failure("lake", says, "look for the store's refusals in its own log")
    elif (recorded := store.get(layout.UNSAFE_STORE)) is not None:
        yield failure(
            "lake",
            f"{store.url} failed this test before ({recorded.decode(errors='replace')}), and "
            f"passed {outcome.rounds} rounds now, which alone proves nothing: runs refuse it",
            f"if the store was updated or replaced meanwhile, delete {record}",
        )
    else:
        says = f"of {create_check.RIVALS} rivals exactly one creates a name"
        yield ok("lake", f"{store.url}: {says}, in {outcome.rounds} rounds")


def check_clock(store: Store) -> Iterator[Line]:
    """Compare the clock of the lake's store with this machine's."""
    path = f"{layout.PROBES}{secrets.token_hex(8)}"
    try:
        store.create(path, b"clock")
        now, modified = time.time(), store.modified(path)
    finally:
        store.delete(path)
    skew = abs(now - modified) if modified else 0.0
    says = f"the lake's clock and this one differ by {skew:.0f} s"
    if skew > _TOO_SKEWED:
        yield failure(
            "lake clock", says, "set both by NTP: the sweeper compares the age of files with it"
        )
    elif skew > _SKEW:
        yield warning("lake clock", says, "set both by NTP")
    else:
        yield ok("lake clock", says)


def _directory(lake: str) -> Path | None:
    if urlsplit(lake).scheme in ("", "file"):
        return Path(unquote(lake.removeprefix("file://")))
    return None
