"""What a moment means where Kafka has deleted the records: by the timestamps in the lake."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core import canonical, layout
from tidegate.core.entries import Account, Commit, Origin, Reference
from tidegate.lake.ledger import Ledger
from tidegate.lake.moments import first_since
from tidegate.lake.store import LocalStore

FAR = 253_402_300_800_000  # ms: the year 10000


def commits(store: LocalStore, home: Path, partition: int, first: int, stamps: list[int]) -> None:
    """Commit a file whose rows have these timestamps (ms), in the order of their offsets."""
    plan, end = f"{partition}-{first}", first + len(stamps)
    path = f"_tidegate/staging/{plan}.parquet"
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    micros = pa.array([stamp * 1000 for stamp in stamps], pa.timestamp("us", "UTC"))
    table = pa.table({"offset": range(first, end), "timestamp": micros})
    pq.write_table(table, home / path, row_group_size=3)
    file = {
        "path": path, "size": 1, "digest": "", "topic": "t", "partition": partition,
        "first": first, "last": end - 1, "rows": len(stamps), "final": f"data/{plan}",
    }  # fmt: skip
    data = canonical.encode({"format": 1, "files": [file]})
    manifest = Reference(layout.manifest(plan, 0, "a"), canonical.digest(data))
    store.create(manifest.path, data)
    accounts = {"t": {partition: Account(first, end, len(stamps), 0)}}
    Ledger(store, "p").append(
        Commit("live", plan, "", 0, "a", "c", {"t": "id"}, accounts, manifest), run="r"
    )


def test_the_first_row_at_or_after_a_moment(tmp_path: Path) -> None:
    """In the order of offsets, whatever that of the timestamps; of each partition by itself, below
    its log start alone; moments of any year.
    """
    store = LocalStore(tmp_path)
    Ledger(store, "p").append(Origin("t", "id", {0: 0, 1: 0, 2: 0}), run="r")
    commits(store, tmp_path, 0, 10, [50, 60, 55, 70, 40, 41, 90])
    commits(store, tmp_path, 0, 0, [-5, 20, 10, 65, 30, 31, 32])
    commits(store, tmp_path, 1, 0, [FAR, 0])
    commits(store, tmp_path, 2, 0, [10, 20])
    fold = Ledger(store, "p").fold
    at = [-10, 0, 20, 61, 66, 90, 91, FAR + 1]
    assert first_since(store, fold, "id", at, {0: 17, 1: 2}) == {
        -10: {0: 0, 1: 0},
        0: {0: 1, 1: 0},
        20: {0: 1, 1: 0},
        61: {0: 3, 1: 0},
        66: {0: 13, 1: 0},
        90: {0: 16, 1: 0},
        91: {1: 0},
        FAR + 1: {},
    }
    assert first_since(store, fold, "id", [66, 90], {0: 16}) == {66: {0: 13}, 90: {}}
    assert first_since(store, fold, "other", [0], {0: 17}) == {0: {}}
