"""Variables that mirror offsets: rewritten if missing, unreadable or behind. Refused if ahead."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document
from tidegate.core.offsets import parse_spark_offsets, spark_offsets
from tidegate.errors import CursorAhead
from tidegate.lake.ledger import Ledger
from tidegate.runs.run import NO_MIRROR, Mirror
from tidegate.runs.spec_protocol import IngestSpec, Spec
from tidegate.runs.topics import recorded_topics

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionDrift(Document):
    """The offset of a partition in a Variable, and in the ledger. None where one is missing."""

    shown: int | None
    ledger: int | None


@dataclass(frozen=True)
class Drift:
    """A Variable that differs from the ledger's cursors; for an egress, from its target's ends.

    `state` is `missing`, `unreadable`, `behind` or `ahead`. `shown` is None if it has no offsets.
    """

    name: str
    topic: str
    state: str
    shown: Mapping[int, int] | None
    cursors: Mapping[int, int]

    @property
    def partitions(self) -> dict[int, PartitionDrift]:
        """The offset in the Variable and in the ledger, of each partition where they differ."""
        shown = self.shown or {}
        return {
            p: PartitionDrift(shown.get(p), self.cursors.get(p))
            for p in sorted(shown.keys() | self.cursors.keys())
            if shown.get(p) != self.cursors.get(p)
        }

    def rewrite(self, mirror: Mirror) -> None:
        """Write the ledger's cursors to the Variable."""
        mirror.write(self.name, spark_offsets({self.topic: self.cursors}))


def variable_name(pipeline: str, topic: str) -> str:
    """Return the Variable's name (contract).

    A topic may begin with an underscore, and a pipeline's name end with one. Such a pipeline is
    followed by a dot, which no pipeline's name contains: no two pairs share a Variable.
    """
    return f"tidegate__{pipeline}{'.' if pipeline.endswith('_') else ''}__{topic}"


def find_drifts(
    mirror: Mirror, spec: Spec, ledger: Ledger, unknown: Iterable[str] = ()
) -> list[Drift]:
    """Return the Variables that differ from the ledger, which is read after them.

    In the other order, a commit in between would look like a manual edit. A cursor from before a
    topic was recreated is not ahead. `unknown` are topics that a pattern matches and the ledger
    does not know.
    """
    topics = (*_topics(spec, ledger.fold), *unknown)
    shown = {topic: mirror.read(variable_name(spec.name, topic)) for topic in topics}
    fold = ledger.refresh()
    drifting = []
    for topic, text in shown.items():
        cursors = _cursors(spec, fold, topic)
        offsets = None if text is None else _parsed(text, topic)
        if offsets is None:
            state = "missing" if text is None else "unreadable"
        elif _any_beyond(offsets, cursors) and _any_beyond(offsets, _highest(spec, fold, topic)):
            state = "ahead"
        else:
            state = "behind"
        if (cursors and offsets != cursors) or state == "ahead":
            drifting.append(Drift(variable_name(spec.name, topic), topic, state, offsets, cursors))
    return drifting


def restore_variables(mirror: Mirror, spec: Spec, ledger: Ledger) -> None:
    """Rewrite Variables that are missing, unreadable or behind. CursorAhead if one is ahead."""
    if mirror is NO_MIRROR:
        return
    found = find_drifts(mirror, spec, ledger)
    for drift in found:
        if drift.state == "ahead":
            raise cursor_ahead(spec, drift)
    for drift in found:
        if drift.state != "missing":
            logger.warning("%s: Variable %s rewritten from the ledger", spec.name, drift.name)
        drift.rewrite(mirror)


def refuse_ahead(mirror: Mirror, spec: IngestSpec, ledger: Ledger) -> None:
    """Raise CursorAhead for Variables of topics that a pattern matches and the ledger lacks.

    An empty ledger, as of a lake that is not mounted, knows no topic of a pattern.
    """
    new = [topic for topic in spec.topics if topic not in ledger.fold.topic_ids]
    if spec.pattern is None or not new:
        return
    for drift in find_drifts(mirror, spec, ledger, new):
        if drift.state == "ahead":
            raise cursor_ahead(spec, drift)


def cursor_ahead(spec: Spec, drift: Drift) -> CursorAhead:
    """Return the error for a Variable that is ahead, with both remedies."""
    differing = drift.partitions
    if spec.kind == "egress":
        remedy = "delete it to go on: what this ledger does not know as sent will be sent"
    else:
        remedy = (
            "delete it to go on from the ledger, or skip to it with `tidegate offsets set` or the "
            "form of tidegate_maintenance"
        )
    return CursorAhead(
        f"Variable {drift.name} is ahead of the ledger of {spec.name!r}: "
        + ", ".join(f"partition {p}: {each.shown}, ledger {each.ledger}"
                    for p, each in differing.items())
        + f". Either the lake at {spec.lake} is not the one it was (mount or restore it), or "
        f"someone edited the Variable: {remedy}",
        variable=drift.name,
        partitions={str(p): each.to_json() for p, each in differing.items()},
    )  # fmt: skip


def write_variables(mirror: Mirror, spec: Spec, fold: Fold) -> dict[str, dict[int, int]]:
    """Write the ledger's cursors to the Variables. Return them by topic."""
    cursors = {topic: _cursors(spec, fold, topic) for topic in _topics(spec, fold)}
    shown = {topic: dict(offsets) for topic, offsets in cursors.items() if offsets}
    for topic, offsets in shown.items():
        mirror.write(variable_name(spec.name, topic), spark_offsets({topic: offsets}))
    return shown


def write_topic(
    mirror: Mirror, spec: IngestSpec, fold: Fold, topic: str, partition: int | None = None
) -> None:
    """Write a topic's cursors after an operator's decision about one partition, or about all.

    Other partitions keep offsets that are ahead of the ledger: the decision is not about them.
    """
    name = variable_name(spec.name, topic)
    shown = _parsed(mirror.read(name) or "{}", topic) or {}
    highest = fold.highest_cursors(topic)
    undecided = {
        p: offset
        for p, offset in shown.items()
        if partition not in (None, p) and offset > highest.get(p, 0)
    }
    mirror.write(name, spark_offsets({topic: {**fold.cursors(topic), **undecided}}))


def _topics(spec: Spec, fold: Fold) -> tuple[str, ...]:
    return spec.target.names if spec.kind == "egress" else recorded_topics(spec, fold).topics


def _cursors(spec: Spec, fold: Fold, topic: str) -> Mapping[int, int]:
    if spec.kind == "egress":
        return fold.egress.target_ends.get(topic, {})
    return fold.cursors(topic) if topic in fold.topic_ids else {}


def _highest(spec: Spec, fold: Fold, topic: str) -> Mapping[int, int]:
    """Return the highest offsets that Variables ever had of a topic, under any of its topic ids."""
    if spec.kind == "egress":
        ends: dict[int, int] = {}
        for commit in fold.live.values():
            for r in commit.receipts:
                if r.topic == topic:
                    ends[r.partition] = max(r.after, ends.get(r.partition, 0))
        return ends
    return fold.highest_cursors(topic) if topic in fold.topic_ids else {}


def _any_beyond(offsets: Mapping[int, int], limits: Mapping[int, int]) -> bool:
    return any(offset > limits.get(p, 0) for p, offset in offsets.items())


def _parsed(text: str, topic: str) -> dict[int, int] | None:
    try:
        offsets = parse_spark_offsets(text)
    except (ValueError, TypeError):
        logger.warning("the Variable of %s is not offsets: %.80r", topic, text)
        return None
    return offsets.get(topic, {})
