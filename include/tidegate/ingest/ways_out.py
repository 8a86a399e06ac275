"""What to do about a topic or partition that a plan excludes."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.plan import LeftOut

_WAYS_OUT = {
    "expired": "set `on_expired: skip` to record the gap and go on",
    "truncated": "the broker lost records that the lake has; see `truncated` in docs/runbook.md",
    "unreadable": "a producer writes timestamps that are no milliseconds; set `on_unreadable: gap` "
    "to give up these offsets and go on behind them",
    "no such topic": "if it exists, grant this user READ on it (it may not DESCRIBE it any more); "
    "else create it again (`kafka-topics.sh --create --topic {topic} …`), or, if it is gone for "
    "good, take it out of `topics` or `assign`, or add it to `exclude`; its rows stay in "
    "the lake",
    "no leader": "see the brokers' log; it is read again once it has one, or `on_expired` decides",
    "no such partition": "add partitions to the topic, or take it out of `assign`",
    "the partition vanished": "look at the broker: partitions are never removed by design",
    "the topic was recreated": "`tidegate offsets adopt {pipeline} {topic} --reason …`, or give "
    "the topic a new pipeline",
}


def way_out(pipeline: str, excluded: LeftOut) -> str | None:
    """Return what to do about an excluded topic or partition; None if nothing is known."""
    text = _WAYS_OUT.get(excluded.reason)
    return text and text.format(pipeline=pipeline, topic=excluded.topic)


def ways_out(pipeline: str, excluded: Iterable[LeftOut]) -> list[str]:
    """Return the distinct ways out, each behind its reason, as sentences."""
    return list(
        dict.fromkeys(
            f"{each.reason[0].upper()}{each.reason[1:]}: {text}."
            for each in excluded
            if (text := way_out(pipeline, each))
        )
    )
