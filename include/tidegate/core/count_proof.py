"""Proof by counts: what the brokers' tables of producers say of the rows that were sent (KIP-664).

An idempotent producer numbers its records in each partition, and the broker takes each number once
and none out of turn. So the last number of a producer that did not exist before says how many of
its records are in the log. This holds only under conditions, which are checked here. Without them
the target is read back. docs/internals/adr/0009-proof-of-delivery.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.wording import counted

Place = tuple[str, int]
"""A topic and a partition of it."""

_MOST_ROWS = 2**31  # in a partition: then sequence numbers begin again


class NotProven(Exception):
    """The tables do not prove what was sent: the message says why."""


@dataclass(frozen=True)
class Producer:
    """A producer in the table of a partition. `in_transaction`: it has, or had, a transaction."""

    id: int
    epoch: int
    last_sequence: int
    in_transaction: bool = False


@dataclass(frozen=True)
class Partition:
    """A partition when it was looked at: who leads it since which election, its high watermark,
    and the producers in its leader's table.
    """

    topic_id: str
    leader: int
    epoch: int
    end: int
    producers: tuple[Producer, ...]


def proven_rows(
    before: Mapping[Place, Partition],
    after: Mapping[Place, Partition],
    wanted: Mapping[Place, int] | int,
) -> dict[Place, int]:
    """Return the rows that one new producer has left in each partition, each row once.

    `wanted` are the rows of each partition, or of all together where Kafka chooses. Raises
    NotProven unless the tables of `before` and `after` prove that the logs were not cut in between,
    that one producer came, and that it sent exactly these rows, and nobody anything else there.
    """
    _refuse_others(before, after)
    known = {place: {p.id for p in each.producers} for place, each in before.items()}
    new = {
        place: [p for p in each.producers if p.id not in known[place]]
        for place, each in after.items()
    }
    of_rows = [p for p in after if (wanted.get(p) if isinstance(wanted, Mapping) else new[p])]
    if len(ids := {producer.id for place in of_rows for producer in new[place]}) != 1:
        raise NotProven(f"{len(ids)} new producers have written where rows were sent to")
    rows: dict[Place, int] = {}
    for place, each in after.items():
        for producer in new[place]:
            if producer.id in ids:
                _refuse_unusual(place, producer)
                rows[place] = producer.last_sequence + 1
        # Also a table that has forgotten the producer in between: then a retry is taken twice.
        if place in rows and each.end - before[place].end != rows[place]:
            raise NotProven(f"{_name(place)}: it has not grown by what was sent")
    _compare(rows, wanted)
    return rows


def _refuse_others(before: Mapping[Place, Partition], after: Mapping[Place, Partition]) -> None:
    if before.keys() != after.keys():
        raise NotProven("partitions were added")
    for place, old in before.items():
        now = after[place]
        if old.topic_id != now.topic_id:
            raise NotProven(f"{_name(place)}: the topic was recreated")
        if (old.leader, old.epoch) != (now.leader, now.epoch) or old.epoch < 0:
            raise NotProven(f"{_name(place)}: its leader has changed")


def _refuse_unusual(place: Place, producer: Producer) -> None:
    """Refuse a producer whose numbers do not say how many records it has sent."""
    if producer.epoch != 0:  # its numbers began again, and duplicates are possible
        raise NotProven(f"{_name(place)}: its producer had to begin again")
    if producer.in_transaction:
        raise NotProven(f"{_name(place)}: its producer is transactional")
    if not 0 <= producer.last_sequence < _MOST_ROWS - 1:
        raise NotProven(f"{_name(place)}: its producer has no number")


def _compare(rows: Mapping[Place, int], wanted: Mapping[Place, int] | int) -> None:
    if isinstance(wanted, int):
        if (total := sum(rows.values())) != wanted:
            raise NotProven(
                f"the producer has sent {counted(total, 'record')} of {counted(wanted, 'row')}"
            )
        return
    for place in sorted(wanted.keys() | rows.keys()):
        sent, rows_of = rows.get(place, 0), wanted.get(place, 0)
        if sent != rows_of:
            raise NotProven(
                f"{_name(place)}: the producer has sent {counted(sent, 'record')} of "
                f"{counted(rows_of, 'row')}"
            )


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
