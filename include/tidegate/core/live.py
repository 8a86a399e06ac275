"""Live runs: what one would read of each partition, by the ledger and the broker's watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.cursor import Progress, Watermarks
from tidegate.core.draft import Draft
from tidegate.core.entries import Gap, Origin
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOut

NO_LEADER = "no leader"
NONE: Mapping[str, Sequence[int]] = {}
NO_CUTS: Mapping[tuple[str, int], int] = {}


def draft_live(
    fold: Fold,
    topics: Sequence[str],
    topic_ids: Mapping[str, str],
    watermarks: Mapping[str, Mapping[int, Watermarks]],
    first_sight: Mapping[str, Mapping[int, int]],
    *,
    on_expired: str,
    by: str,
    leaderless: Mapping[str, Sequence[int]] = NONE,
    cuts: Mapping[tuple[str, int], int] = NO_CUTS,
) -> Draft:
    """Decide for every partition of `topics`; one that is not well never stops the others.

    `topic_ids` and `watermarks` hold the topics that exist now; `first_sight` holds the origins
    that topics new to the ledger would get. `by` signs the gaps. Partitions that are `leaderless`
    now have no watermarks; of a new topic the whole is excluded then, because only the broker knows
    where it begins. `cuts` are where logs were cut off below their cursors.
    """
    draft = Draft()
    for topic in topics:
        known_id = fold.topic_ids.get(topic)
        topic_id = topic_ids.get(topic)
        numbers: dict[str, Any]
        if topic_id is None:
            numbers = {} if known_id is None else {"was": known_id}
            draft.left_out.append(LeftOut(topic, None, "no such topic", numbers))
        elif known_id is not None and known_id != topic_id:
            numbers = {"was": known_id, "is": topic_id}
            draft.left_out.append(LeftOut(topic, None, "the topic was recreated", numbers))
        elif known_id is None and leaderless.get(topic):
            numbers = {"partitions": list(leaderless[topic])}
            draft.left_out.append(LeftOut(topic, None, NO_LEADER, numbers))
        else:
            marks = watermarks[topic]
            known = fold.origins.get(topic_id)
            origins = new_origins(marks, known, first_sight.get(topic, {}))
            if origins:
                draft.origins.append(Origin(topic, topic_id, origins))
            headless = leaderless.get(topic, ())
            draft.left_out += [LeftOut(topic, p, NO_LEADER) for p in headless]
            for partition in sorted((known or {}).keys() - marks.keys() - set(headless)):
                seen = {"cursor": fold.progress(topic_id, partition).cursor}
                draft.left_out.append(LeftOut(topic, partition, "the partition vanished", seen))
            for partition in sorted(marks):
                if partition in origins:
                    progress = Progress(origins[partition])
                else:
                    progress = fold.progress(topic_id, partition)
                decision = decide_live(
                    topic,
                    partition,
                    progress,
                    marks[partition],
                    on_expired=on_expired,
                    cut=cuts.get((topic, partition)),
                )
                if decision.range:
                    draft.ranges.append(decision.range)
                if decision.left_out:
                    draft.left_out.append(decision.left_out)
                if decision.gap:
                    gap = decision.gap
                    draft.gaps.append(
                        Gap(topic, topic_id, partition, gap.start, gap.end, "expired", by)
                    )
    return draft


@dataclass(frozen=True, slots=True)
class Decision:
    """A partition's share of a run: at most one range, one gap to record, one reason to stop."""

    range: OffsetRange | None = None
    gap: OffsetRange | None = None
    left_out: LeftOut | None = None


def decide_live(
    topic: str,
    partition: int,
    progress: Progress,
    marks: Watermarks,
    *,
    on_expired: str,
    cut: int | None = None,
) -> Decision:
    """Take `[cursor, min(end, next covered start))`; expired offsets go by policy.

    Expired means: the broker's log starts after the cursor. `fail` leaves the partition out;
    `skip` records the gap, which the ledger cuts to what is unseen, and goes on at the log start.
    `cut` is where the log was cut off below the cursor, whatever was written there since.
    """
    cursor = progress.cursor
    if cut is not None and cut < cursor <= marks.high:
        numbers = {"cursor": cursor, "end": marks.high, "cut": cut}
        return Decision(left_out=LeftOut(topic, partition, "truncated", numbers))
    if marks.high < cursor:
        return Decision(
            left_out=LeftOut(topic, partition, "truncated", {"cursor": cursor, "end": marks.high})
        )
    gap = None
    if marks.start > cursor:
        if on_expired == "fail":
            return Decision(
                left_out=LeftOut(topic, partition, "expired", {"start": cursor, "end": marks.start})
            )
        gap = OffsetRange(topic, partition, cursor, marks.start)
        skipped = progress.skipped.add(gap.start, gap.end)
        cursor = replace(progress, skipped=skipped).cursor
    next_covered = progress.covered.next_start(cursor)
    end = marks.end if next_covered is None else min(marks.end, next_covered)
    if cursor >= end:
        return Decision(gap=gap)
    return Decision(range=OffsetRange(topic, partition, cursor, end), gap=gap)


def new_origins(
    partitions: Iterable[int], known: Mapping[int, int] | None, first_sight: Mapping[int, int]
) -> dict[int, int]:
    """Return the origins to record for partitions that have none.

    The first sight of a topic (`known` is None) follows the pipeline's `start`, given as
    `first_sight`; a partition that appears later begins at 0, wherever its log starts, so that
    what expired unseen goes by policy and is never silently missed.
    """
    if known is None:
        return {p: first_sight[p] for p in partitions}
    return {p: 0 for p in partitions if p not in known}
