"""The decodings of committed rows, by the plans that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.core import decoding, schema
from tidegate.core.decoding import Decoding
from tidegate.core.fold import Fold
from tidegate.core.plan import Plan
from tidegate.core.replacement import Replaced
from tidegate.core.schema import Fields, SchemaError
from tidegate.errors import ConfigurationError
from tidegate.lake import plans
from tidegate.lake.store_protocol import Store


def declared_decodings(
    name: str,
    by_topic: Mapping[str, Decoding],
    store: Store,
    fold: Fold,
    topics: Iterable[str],
    replaces: Sequence[Replaced] = (),
) -> dict[str, Decoding]:
    """Return the decoding of each of these topics that has one, as pipeline `name` declares it.

    ConfigurationError if rows that are in the lake have columns that these cannot stand beside: a
    column is gone, or has another type that is not wider.
    """
    found, wrong = {}, []
    for topic in topics:
        new = decoding.decoding_of_topic(by_topic, topic)
        if new is not None:
            found[topic] = new
        for old in _of_topic(store, fold, topic, replaces, but=new):
            wrong += [f"decode.{topic}: {each}" for each in decoding.decoding_changes(old, new)]
    if wrong:
        wrong = list(dict.fromkeys(wrong))
        raise ConfigurationError(
            f"pipeline {name!r}: {'; '.join(wrong)}. Nothing was planned", complaints=wrong
        )
    return found


def chunk_contradictions(
    store: Store, fold: Fold, plan: Plan, chunks: Iterable[int]
) -> dict[int, list[str]]:
    """Return, by chunk, why its rows cannot stand beside live rows, which have another decoding.

    A chunk that contradicts none is left out.
    """
    own = decoding.decodings_of_plan(plan)
    known: dict[tuple[str, tuple[Replaced, ...]], list[str]] = {}

    def of_topic(topic: str, replaces: tuple[Replaced, ...]) -> list[str]:
        if (topic, replaces) not in known:
            known[topic, replaces] = [
                f"{topic}: {each}"
                for old in _of_topic(store, fold, topic, replaces, but=own[topic])
                for each in decoding.contradictions(old, own[topic])
            ]
        return known[topic, replaces]

    found = {}
    for chunk in chunks:
        topics = sorted({r.topic for r in plan.chunks[chunk]} & own.keys())
        replaces = tuple(plan.replaces(chunk))
        if wrong := [each for topic in topics for each in of_topic(topic, replaces)]:
            found[chunk] = list(dict.fromkeys(wrong))
    return found


def chunk_refusal(plan: Plan, chunk: int, wrong: Sequence[str]) -> ConfigurationError:
    """Return the error for a chunk that contradicts live rows. Its attempt is kept."""
    return ConfigurationError(
        f"plan {plan.id}, chunk {chunk}: its `decode` contradicts that of newer rows in the lake: "
        f"{'; '.join(wrong)}. The chunk is kept and not committed. The next run reads its offsets "
        "again if Kafka still has them. Otherwise replay the newer rows with a schema that fits, "
        "or give the chunk up with `tidegate offsets set`",
        complaints=list(wrong),
        plan_id=plan.id,
        chunk=chunk,
    )


def decoded_columns(store: Store, fold: Fold, topics: Iterable[str]) -> Fields:
    """Return the decoded columns of the committed rows of topics, each with its widest type.

    ConfigurationError if rows have a column of one name with types that do not fit together.
    """
    found: Fields = ()
    for topic in topics:
        for each in _of_topic(store, fold, topic):
            try:
                found = schema.merge_columns(found, each.columns)
            except SchemaError as error:
                raise ConfigurationError(
                    f"decoded columns, those of topic {topic!r} among them, do not fit together: "
                    f"{error}; open the lake with one topic, or replay one of them"
                ) from None
    return found


def _of_topic(
    store: Store,
    fold: Fold,
    topic: str,
    replaces: Sequence[Replaced] = (),
    *,
    but: Decoding | None = None,
) -> list[Decoding]:
    """Return the decodings of a topic's committed rows, the oldest first, without one of them."""
    return [
        _of(store, plan_id)[topic]
        for sha256, plan_id in fold.decodings_beside(topic, replaces).items()
        if but is None or but.sha256 != sha256
    ]


def _of(store: Store, plan_id: str) -> dict[str, Decoding]:
    return decoding.decodings_of_plan(plans.load_plan(store, plan_id))
