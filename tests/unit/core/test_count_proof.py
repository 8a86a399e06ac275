"""Proof by counts: what the brokers' tables of producers must say, and what they do not prove."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidegate.core.count_proof import NotProven, Partition, Place, Producer, proven_rows

OLD, OURS, OTHER = 7, 41, 99
Tables = dict[Place, Partition]

BEFORE: Tables = {
    ("t", 0): Partition("id", 1, 5, 100, (Producer(OLD, 0, 9),)),
    ("t", 1): Partition("id", 2, 6, 0, ()),
    ("t", 2): Partition("id", 1, 5, 50, ()),
}
WANTED: dict[Place, int] = {("t", 0): 10, ("t", 1): 4, ("t", 2): 0}


def wrote(tables: Tables, producer: int, rows: dict[int, int]) -> Tables:
    """Return the tables after a new producer has sent so many records to partitions."""
    found = dict(tables)
    for p, n in rows.items():
        each = found["t", p]
        row = Producer(producer, 0, n - 1)
        found["t", p] = replace(each, end=each.end + n, producers=(*each.producers, row))
    return found


AFTER = wrote(BEFORE, OURS, {0: 10, 1: 4})


def changed(p: int, **fields: object) -> Tables:
    return {**AFTER, ("t", p): replace(AFTER["t", p], **fields)}  # type: ignore[arg-type]


def of_ours(**fields: object) -> Tables:
    """Return the tables in which our producer is another one in partition 1."""
    (ours,) = AFTER["t", 1].producers
    return changed(1, producers=(replace(ours, **fields),))  # type: ignore[arg-type]


def test_one_new_producer_has_sent_the_rows() -> None:
    """Beside new ones where no row was sent to."""
    assert proven_rows(BEFORE, AFTER, WANTED) == {("t", 0): 10, ("t", 1): 4}
    elsewhere = wrote(AFTER, OTHER, {2: 3})
    assert proven_rows(BEFORE, elsewhere, WANTED) == {("t", 0): 10, ("t", 1): 4}


def test_where_kafka_chooses_the_sum_is_compared() -> None:
    assert proven_rows(BEFORE, AFTER, 14) == {("t", 0): 10, ("t", 1): 4}
    with pytest.raises(NotProven, match="has sent 14 records of 15 rows"):
        proven_rows(BEFORE, AFTER, 15)


NOT_PROVEN: dict[str, tuple[Callable[[], Tables], str]] = {
    "a row fewer": (lambda: wrote(BEFORE, OURS, {0: 9, 1: 4}), "t-0: .* 9 records of 10 rows"),
    "a row more": (lambda: wrote(BEFORE, OURS, {0: 11, 1: 4}), "t-0: .* 11 records of 10 rows"),
    "a row elsewhere": (lambda: wrote(AFTER, OURS, {2: 1}), "t-2: .* 1 record of 0 rows"),
    "a partition without": (lambda: wrote(BEFORE, OURS, {0: 10}), "t-1: .* 0 records of 4 rows"),
    "nobody": (lambda: BEFORE, "0 new producers"),
    "a second new producer": (lambda: wrote(AFTER, OTHER, {0: 3}), "2 new producers"),
    "two of which one has the rows": (
        lambda: wrote(wrote(BEFORE, OURS, {0: 10}), OTHER, {1: 4}), "2 new producers",
    ),
    "another one with the missing count": (
        lambda: wrote(wrote(BEFORE, OURS, {0: 6, 1: 4}), OTHER, {0: 4}), "2 new producers",
    ),
    "an epoch bump": (lambda: of_ours(epoch=1), "t-1: its producer had to begin again"),
    "a transaction": (lambda: of_ours(in_transaction=True), "t-1: its producer is transactional"),
    "no number": (lambda: of_ours(last_sequence=-1), "t-1: its producer has no number"),
    "numbers that begin again": (lambda: of_ours(last_sequence=2**31 - 1), "has no number"),
    "another leader": (lambda: changed(2, leader=3), "t-2: its leader has changed"),
    "an election": (lambda: changed(2, epoch=6), "t-2: its leader has changed"),
    "a log that was cut": (lambda: changed(0, end=105), "t-0: it has not grown by what was sent"),
    "a batch twice, of a producer that was forgotten": (
        lambda: changed(1, end=6), "t-1: it has not grown by what was sent",
    ),
    "one that was there before, and writes on": (
        lambda: changed(0, end=700), "t-0: it has not grown by what was sent",
    ),
    "a recreated topic": (lambda: changed(1, topic_id="x"), "t-1: the topic was recreated"),
    "a partition added": (lambda: {**AFTER, ("t", 3): BEFORE["t", 1]}, "partitions were added"),
    "a partition gone": (
        lambda: {place: AFTER[place] for place in AFTER if place != ("t", 2)}, "partitions were",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_PROVEN)
def test_what_is_not_proven(case: str) -> None:
    after, why = NOT_PROVEN[case]
    with pytest.raises(NotProven, match=why):
        proven_rows(BEFORE, after(), WANTED)


def test_an_election_without_a_number_proves_nothing() -> None:
    """A broker that does not say the leader's epoch, before and after."""
    before = {place: replace(each, epoch=-1) for place, each in BEFORE.items()}
    after = {place: replace(each, epoch=-1) for place, each in AFTER.items()}
    with pytest.raises(NotProven, match="its leader has changed"):
        proven_rows(before, after, WANTED)
