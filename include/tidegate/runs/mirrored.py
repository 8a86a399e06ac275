"""Offsets in Variables: rewritten when missing, corrupt or behind; refused when ahead."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate.core.ledger import Fold
from tidegate.core.offsets import parse_spark_offsets, spark_offsets
from tidegate.errors import CursorAhead
from tidegate.pipelines.spec import Ingest
from tidegate.runs.run import Mirror

logger = logging.getLogger(__name__)


def name_of(pipeline: str, topic: str) -> str:
    """Return the Variable's name (contract)."""
    return f"tidegate__{pipeline}__{topic}"


def read(mirror: Mirror, spec: Ingest) -> dict[str, str | None]:
    """Read what is shown now. Do it before the ledger is read, or a race looks like an edit."""
    return {topic: mirror.read(name_of(spec.name, topic)) for topic in spec.topics}


def restore(mirror: Mirror, spec: Ingest, shown: Mapping[str, str | None], fold: Fold) -> None:
    """Rewrite what is missing, corrupt or behind the ledger; CursorAhead for what is ahead."""
    for topic in spec.topics:
        cursors = fold.cursors(topic) if topic in fold.topic_ids else {}
        text = shown[topic]
        offsets = None if text is None else _parsed(text, topic)
        if offsets is not None:
            ahead = {p: o for p, o in offsets.items() if o > cursors.get(p, 0)}
            if ahead:
                name = name_of(spec.name, topic)
                raise CursorAhead(
                    f"Variable {name} is ahead of the ledger of {spec.name!r} in partitions "
                    f"{ahead} (ledger: { {p: cursors.get(p) for p in ahead} }). Either the lake at "
                    f"{spec.lake} is not the one it was (mount or restore it), or someone edited "
                    "the Variable: delete it to go on from the ledger",
                    variable=name,
                    ahead={str(p): o for p, o in ahead.items()},
                )
        if cursors and offsets != cursors:
            if text is not None:
                logger.warning("%s: %s rewritten from the ledger", spec.name, topic)
            mirror.write(name_of(spec.name, topic), spark_offsets({topic: cursors}))


def show(mirror: Mirror, spec: Ingest, fold: Fold) -> dict[str, dict[int, int]]:
    """Write the ledger's cursors where people look; return them by topic."""
    shown = {topic: fold.cursors(topic) for topic in spec.topics if topic in fold.topic_ids}
    for topic, cursors in shown.items():
        mirror.write(name_of(spec.name, topic), spark_offsets({topic: cursors}))
    return shown


def _parsed(text: str, topic: str) -> dict[int, int] | None:
    try:
        offsets = parse_spark_offsets(text)
    except (ValueError, TypeError):
        logger.warning("the Variable of %s is not offsets: %.80r", topic, text)
        return None
    return offsets.get(topic, {})
