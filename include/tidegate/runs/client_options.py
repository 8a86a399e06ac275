"""The options of a run's Kafka clients: what is in effect, and their names at the broker."""

from __future__ import annotations

from tidegate.broker.client_settings import KafkaSettings
from tidegate.pipelines.spec import Ingest
from tidegate.settings.merged import merged
from tidegate.settings.setting import Place


def effective(spec: Ingest, kafka: KafkaSettings) -> dict[str, dict[str, str]]:
    """Return each setting of Spark's source that has not the default of Spark or Kafka.

    By name its value and its origin: pipeline, connection or tidegate. None of them can be secret.
    """
    given = dict(spec.source_options)
    level = {"kafka.isolation.level": spec.isolation}
    if "isolation" in spec.model_fields_set:
        given |= level
    found = merged(Place.SOURCE, given, kafka.options)
    return {name: each._asdict() for name, each in found.items()}
