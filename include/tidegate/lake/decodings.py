"""The decodings of committed rows, by the plans that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.core import decoding, schema
from tidegate.core.decoding import Decoding
from tidegate.core.fold import Fold
from tidegate.core.schema import Fields, SchemaError
from tidegate.errors import ConfigurationError
from tidegate.lake import plans
from tidegate.lake.store import Store


def declared(
    name: str, by_topic: Mapping[str, Decoding], store: Store, fold: Fold, topics: Iterable[str]
) -> dict[str, Decoding]:
    """Return the decoding of each of these topics that has one, as pipeline `name` declares it.

    ConfigurationError if rows that are in the lake have columns that these cannot stand beside: a
    column is gone, or has another type that is not wider.
    """
    found, wrong = {}, []
    for topic in topics:
        new = decoding.of_topic(by_topic, topic)
        if new is not None:
            found[topic] = new
        for old in _of_topic(store, fold, topic, but=new):
            wrong += [f"decode.{topic}: {each}" for each in decoding.changes(old, new)]
    if wrong:
        wrong = list(dict.fromkeys(wrong))
        raise ConfigurationError(
            f"pipeline {name!r}: {'; '.join(wrong)}. Nothing was planned", complaints=wrong
        )
    return found


def columns(store: Store, fold: Fold, topics: Iterable[str]) -> Fields:
    """Return the decoded columns of the committed rows of topics, each with its widest type.

    ConfigurationError if rows have a column of one name with types that do not fit together.
    """
    found: Fields = ()
    for topic in topics:
        for each in _of_topic(store, fold, topic):
            try:
                found = schema.union(found, each.columns)
            except SchemaError as error:
                raise ConfigurationError(
                    f"decoded columns, those of topic {topic!r} among them, do not fit together: "
                    f"{error}; open the lake with one topic, or replay one of them"
                ) from None
    return found


def _of_topic(
    store: Store, fold: Fold, topic: str, *, but: Decoding | None = None
) -> list[Decoding]:
    """Return the decodings of a topic's committed rows, the oldest first, without one of them."""
    return [
        _of(store, plan_id)[topic]
        for sha256, plan_id in fold.decodings.get(topic, {}).items()
        if but is None or but.sha256 != sha256
    ]


def _of(store: Store, plan_id: str) -> dict[str, Decoding]:
    return decoding.of_plan(plans.load(store, plan_id))
