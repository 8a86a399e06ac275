"""The answers to settings that consumer and producer have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.settings import kafka_clients
from tidegate.settings.setting import Answer, Check, Place, Setting

_RUNS_CODE = "it names code to run, which could change what is read or sent"
_CODE = {
    "interceptor.classes": "an interceptor may change or hide records",
    "metric.reporters": _RUNS_CODE,
    "security.providers": _RUNS_CODE,
}


def client_answers(
    place: Place,
    known: Mapping[str, Check],
    defaults: Mapping[str, str],
    outside: Mapping[str, str],
    own: Mapping[str, Setting],
) -> Iterator[Setting]:
    """Yield the answers to the client settings of a place: `own` where there is one, else accepted.

    `defaults` are Tidegate's, `outside` Kafka's or Spark's, all by Kafka's names.
    """
    for name in kafka_clients.SECURITY:
        yield Setting(
            name=f"kafka.{name}",
            place=place,
            answer=Answer.REFUSED,
            why="it says which cluster is used, and how it is logged in to",
            use="the Kafka connection",
        )
    for name, check in sorted({**kafka_clients.COMMON, **known}.items()):
        if name in own:
            yield replace(own[name], check=own[name].check or check)
        elif name in _CODE:
            why = _CODE[name]
            yield Setting(name=f"kafka.{name}", place=place, answer=Answer.REFUSED, why=why)
        else:
            yield Setting(
                name=f"kafka.{name}",
                place=place,
                check=check,
                default=defaults.get(name),
                outside=outside.get(name),
            )


def setup_timeouts(given: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the time-outs of connecting, by Kafka's names."""
    shortest, longest = (f"socket.connection.setup.timeout.{each}ms" for each in ("", "max."))
    if shortest in given and longest in given and int(given[longest]) < int(given[shortest]):
        return [f"{longest}: less than {shortest}: no time-out would be as long as that"]
    return []
