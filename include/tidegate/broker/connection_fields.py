"""The answers to the fields of a Kafka connection's extra, by the lists of its reader."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.broker import client_settings, security
from tidegate.settings.kafka_clients import SECURITY
from tidegate.settings.setting import Answer, Place, Setting

_WHERE = "a field of the Kafka connection: tidegate docs secured-cluster"


def fields() -> Iterator[Setting]:
    """Yield the answer to each field of a connection, and to each setting of Kafka's login."""
    own = (*client_settings.NAMES, *security.NAMES, *security.ALIASES)
    for name in sorted({*own, *SECURITY}):
        if becomes := security.ALIASES.get(name):
            yield Setting(
                name=name, place=Place.CONNECTION, answer=Answer.TRANSLATED, becomes=becomes,
                why=f"librdkafka's name of {becomes}",
            )  # fmt: skip
        elif name in own:
            yield Setting(name=name, place=Place.CONNECTION, why=_WHERE)
        elif why := security.setting_refusal(name):
            yield Setting(name=name, place=Place.CONNECTION, answer=Answer.REFUSED, why=why)
        else:
            yield Setting(
                name=name, place=Place.CONNECTION, answer=Answer.WARNED,
                why="it has no effect: no client gets it from a connection",
            )  # fmt: skip
