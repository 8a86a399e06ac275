"""Check whether a store's create-if-absent is atomic, and record in the lake that it is not.

The ledger relies on it: where two writers can create one name, two runs can commit the same
offsets. Stores that look for the name before the upload, or lock it in each of their servers
alone, pass most single tries: rivals start together, in many rounds, each with its own connection.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.core import canonical, layout
from tidegate.core.canonical import FORMAT
from tidegate.lake.store_protocol import Store

RIVALS = 8
ROUNDS = 20
_LEAST_ROUNDS = 5
_PATIENCE = 10.0  # seconds; then the least number of rounds is enough
_SIZES = (64, 128 << 10)  # bytes, by turns: a longer upload is a wider gap after a look


@dataclass(frozen=True)
class Outcome:
    """The last of `rounds` rounds. A round with another number of winners than 1 ends the test."""

    rounds: int
    winners: int

    @property
    def atomic(self) -> bool:
        return self.winners == 1


def compete_for_names(stores: Sequence[Store]) -> Outcome:
    """Let each store create the same name at the same time, round after round.

    The stores are one place, opened once for each rival. Nothing is left behind.
    """
    give_up = time.monotonic() + _PATIENCE
    rounds, winners = 0, 1
    with ThreadPoolExecutor(len(stores)) as pool:
        while winners == 1 and rounds < ROUNDS:
            if rounds >= _LEAST_ROUNDS and time.monotonic() > give_up:
                break
            winners = _round(stores, pool, _SIZES[rounds % len(_SIZES)])
            rounds += 1
    return Outcome(rounds, winners)


def _round(stores: Sequence[Store], pool: ThreadPoolExecutor, size: int) -> int:
    """Return how many rivals created the name, by the answers of the store."""
    path = f"{layout.PROBES}{secrets.token_hex(8)}"
    claims = [secrets.token_bytes(size) for _ in stores]
    start = threading.Barrier(len(stores))

    def create(store: Store, claim: bytes) -> bool:
        start.wait()
        return store.create(path, claim)

    try:
        created = list(pool.map(create, stores, claims))
        kept = stores[0].get(path)
    finally:
        stores[0].delete(path)
    won = [claim for claim, did in zip(claims, created, strict=True) if did]
    # One winner, and the object is another's: the winner's was overwritten.
    return max(len(won), 2) if won and won != [kept] else len(won)


def record_unsafe_store(store: Store, outcome: Outcome) -> None:
    """Record that the store failed: no further ledger entry is created there."""
    form = {
        "format": FORMAT,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rivals": RIVALS,
        "round": outcome.rounds,
        "winners": outcome.winners,
    }
    store.create(layout.UNSAFE_STORE, canonical.encode(form))
