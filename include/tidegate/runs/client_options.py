"""The options of a run's Kafka clients that are in effect, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.broker.client_settings import KafkaSettings
from tidegate.pipelines.spec import Egress, Ingest, Spec
from tidegate.runs.run import AnyRun
from tidegate.settings.merged import Effective, Origin, merged
from tidegate.settings.setting import Place
from tidegate.settings.sink import DEFAULTS
from tidegate.settings.table import TABLE
from tidegate.spark import producer_settings

_SHOWN = {each.name for each in TABLE if each.place is Place.SPARK}


def effective(
    spec: Spec, kafka: KafkaSettings, of_spark: Mapping[str, str]
) -> dict[str, dict[str, str | None]]:
    """Return each setting of Spark's source or sink, of Kafka's pools, and of `spark.conf`, that
    has not the default of Spark or Kafka. `of_spark` are those of the Spark connection.

    By name its value and its origin: pipeline, connection or tidegate. No setting of the table can
    be secret; other settings of Spark may be, and have None as their value.
    """
    found = _of_source(spec, kafka) if isinstance(spec, Ingest) else _of_sink(spec, kafka)
    given = {
        name: each._asdict() | ({} if name in _SHOWN else {"value": None})
        for name, each in merged(Place.SPARK, spec.spark.settings, of_spark).items()
        if each.origin is not Origin.TIDEGATE or name.startswith("spark.kafka.")
    }
    return {name: each._asdict() for name, each in found.items()} | given


def explained(run: AnyRun) -> dict[str, dict[str, str | None]]:
    """Return what `effective` does, with the deploy mode of Spark where the driver is elsewhere."""
    found = effective(run.spec, run.kafka, run.spark.conf)
    if run.spark.is_cluster:
        mode = Effective(run.spark.deploy_mode, Origin.CONNECTION)
        found["spark.submit.deployMode"] = mode._asdict()
    return found


def _of_source(spec: Ingest, kafka: KafkaSettings) -> dict[str, Effective]:
    given = dict(spec.source_options)
    if "isolation" in spec.model_fields_set:
        given["kafka.isolation.level"] = spec.isolation
    found = merged(Place.SOURCE, given, kafka.options)
    if "kafka.group.id" in found:
        del found["groupIdPrefix"]  # it has no effect
    return found


def _of_sink(spec: Egress, kafka: KafkaSettings) -> dict[str, Effective]:
    """Return those of the sink; what Tidegate derives from the others is Tidegate's."""
    found = merged(Place.SINK, spec.target.settings, kafka.options)
    chosen = producer_settings.settings(spec.target.producer_settings, kafka.options)
    derived = {
        f"kafka.{name}": Effective(value, Origin.TIDEGATE)
        for name, value in chosen.items()
        if value != DEFAULTS.get(name, value)
    }
    return dict(sorted((derived | found).items()))
