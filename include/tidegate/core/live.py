"""What a live run would take, from the ledger and what the broker has: decided, not done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.draft import Draft
from tidegate.core.entries import Gap, Origin
from tidegate.core.ledger import Fold
from tidegate.core.plan import LeftOut
from tidegate.core.planning import Progress, Watermarks, decide_live, new_origins

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
