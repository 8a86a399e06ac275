"""What a moment means where Kafka has deleted the records: by the timestamps in the lake."""

from pathlib import Path

from support import staged_attempts
from tidegate.core.entries import Origin
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore
from tidegate.lake.timestamps import first_since

FAR = 253_402_300_800_000  # ms: the year 10000


def test_the_first_row_at_or_after_a_moment(tmp_path: Path) -> None:
    """In the order of offsets, whatever that of the timestamps; of each partition by itself, in
    the span that is asked for alone; moments of any year.
    """
    store = LocalStore(tmp_path)
    Ledger(store, "p").append(Origin("t", "id", {0: 0, 1: 0, 2: 0}), run="r")
    staged_attempts.commit_stamped(store, (0, 10, [50, 60, 55, 70, 40, 41, 90]))
    staged_attempts.commit_stamped(store, (0, 0, [-5, 20, 10, 65, 30, 31, 32]))
    staged_attempts.commit_stamped(store, (1, 0, [FAR, 0]))
    staged_attempts.commit_stamped(store, (2, 0, [10, 20]))
    fold = Ledger(store, "p").fold
    at = [-10, 0, 20, 61, 66, 90, 91, FAR + 1]
    spans = {0: (0, 17), 1: (0, 2)}
    assert first_since(store, fold, "id", dict.fromkeys(at, spans)) == {
        -10: {0: 0, 1: 0},
        0: {0: 1, 1: 0},
        20: {0: 1, 1: 0},
        61: {0: 3, 1: 0},
        66: {0: 13, 1: 0},
        90: {0: 16, 1: 0},
        91: {1: 0},
        FAR + 1: {},
    }
    below = {66: {0: (0, 16)}, 90: {0: (0, 16)}}
    assert first_since(store, fold, "id", below) == {66: {0: 13}, 90: {}}
    between = {20: {0: (2, 17)}, 65: {0: (4, 11)}, 10: {2: (2, 9)}}
    assert first_since(store, fold, "id", between) == {20: {0: 3}, 65: {}, 10: {}}
    assert first_since(store, fold, "other", {0: spans}) == {0: {}}


def test_files_with_offsets_between_one_anothers(tmp_path: Path) -> None:
    """The first row of all of them: that of a file which begins later may come before."""
    store = LocalStore(tmp_path)
    Ledger(store, "p").append(Origin("t", "id", {0: 0}), run="r")
    staged_attempts.commit_stamped(store, (0, 0, [1, 2, 3, 9, 9, 1, 2]), files=3)
    fold = Ledger(store, "p").fold
    assert first_since(store, fold, "id", {ms: {0: (0, 7)} for ms in (2, 3, 4)}) == {
        2: {0: 1}, 3: {0: 2}, 4: {0: 3},
    }  # fmt: skip
    assert first_since(store, fold, "id", {2: {0: (2, 7)}}) == {2: {0: 2}}


def test_rows_of_other_partitions_in_a_file_do_not_count(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    Ledger(store, "p").append(Origin("t", "id", {0: 0, 1: 0}), run="r")
    staged_attempts.commit_stamped(store, (0, 5, [10, 20, 30]), (1, 0, [50, 5, 90, 100, 110, 120]))
    staged_attempts.commit_stamped(store, (0, 8, [95, 96]))
    fold = Ledger(store, "p").fold
    spans = {0: (0, 10), 1: (0, 6)}
    assert first_since(store, fold, "id", dict.fromkeys([15, 60], spans)) == {
        15: {0: 6, 1: 0},
        60: {0: 8, 1: 2},
    }
