"""The options of a run's Kafka clients that are in effect, and where each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError
from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Spec
from tidegate.settings.merged import Effective, Origin, merge_settings
from tidegate.settings.setting import Place
from tidegate.settings.sink_settings import DEFAULTS
from tidegate.settings.source import source_disagreements
from tidegate.settings.table import TABLE
from tidegate.spark import producer_settings

if TYPE_CHECKING:
    from tidegate.runs.kafka_protocol import Kafka
    from tidegate.runs.run import AnyRun

_LONGEST = 120  # characters of a run id in the name of a client
_SHOWN = {each.name for each in TABLE if each.place is Place.SPARK}


@dataclass(frozen=True)
class InEffect(Document):
    """A setting's value, None if it may be secret, and its origin.

    The origin is `pipeline`, `connection` or `tidegate`.
    """

    value: str | None
    origin: str


def effective_settings(
    spec: Spec, kafka: Kafka, of_spark: Mapping[str, str]
) -> dict[str, InEffect]:
    """Return each setting of Spark's source or sink, of Kafka's pools, and of `spark.conf`, that
    has not the default of Spark or Kafka. `of_spark` are those of the Spark connection.

    No setting of the table can be secret. Other settings of Spark may be, and have no value.
    """
    found = _of_source(spec, kafka) if spec.kind == "ingest" else _of_sink(spec, kafka)
    given = {
        name: InEffect(each.value if name in _SHOWN else None, each.origin.value)
        for name, each in merge_settings(Place.SPARK, spec.spark.settings, of_spark).items()
        if each.origin is not Origin.TIDEGATE or name.startswith("spark.kafka.")
    }
    return {name: InEffect(each.value, each.origin.value) for name, each in found.items()} | given


def explain_settings(run: AnyRun) -> dict[str, InEffect]:
    """Return what `effective` does, with the deploy mode of Spark where the driver is elsewhere."""
    return effective_settings(run.spec, run.kafka, run.engine.settings)


def _of_source(spec: IngestSpec, kafka: Kafka) -> dict[str, Effective]:
    given = dict(spec.source_options)
    if spec.has_own_isolation:
        given["kafka.isolation.level"] = spec.isolation
    found = merge_settings(Place.SOURCE, given, kafka.options)
    if "kafka.group.id" in found:
        del found["groupIdPrefix"]  # it has no effect
    return found


def _of_sink(spec: EgressSpec, kafka: Kafka) -> dict[str, Effective]:
    """Return those of the sink. What Tidegate derives from the others is Tidegate's."""
    found = merge_settings(Place.SINK, spec.target.settings, kafka.options)
    chosen = producer_settings.client_settings(spec.target.producer_settings, kafka.options)
    derived = {
        f"kafka.{name}": Effective(value, Origin.TIDEGATE)
        for name, value in chosen.items()
        if value != DEFAULTS.get(name, value)
    }
    return dict(sorted((derived | found).items()))


def client_name(spec: Spec, *by: str) -> str:
    """Return what a pipeline's clients call themselves, in the broker's log and for its quotas,
    unless their connection has a `client.id`.

    `by` are the step, the run id and the attempt. Characters that a metric's name cannot have
    become `_`, and a long run id is cut.
    """
    parts = [re.sub("[^a-zA-Z0-9._-]", "_", part)[:_LONGEST] for part in (spec.name, *by)]
    return "-".join(["tidegate", *parts])


@contextmanager
def naming_pipeline(spec: Spec) -> Iterator[None]:
    """Name the pipeline in a ConfigurationError of the block."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"pipeline {spec.name!r}: {error}") from None


def refuse_contradictions(spec: Spec, kafka: Kafka) -> None:
    """Raise ConfigurationError for options that Kafka's clients refuse beside the connection's."""
    with naming_pipeline(spec):
        refuse_options(spec, kafka.connection, kafka.options)


def refuse_options(spec: Spec, connection: str, options: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a pipeline's options that contradict the connection's."""
    if spec.kind == "ingest":
        found = [("options", source_disagreements(spec.source_options, options))]
    else:
        target = spec.target
        producer = producer_settings.producer_contradictions(target.producer_settings, options)
        reading = source_disagreements(target.reading_options, options)
        found = [(f"target.{target.key_of_producer}", producer), ("target.options", reading)]
    if wrong := [f"{key}: {each}" for key, complaints in found for each in complaints]:
        raise ConfigurationError(
            f"with what its Kafka connection {connection!r} has: {'; '.join(wrong)}"
        )
