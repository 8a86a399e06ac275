"""The options of Spark's Kafka source: the offsets of a window, consumer settings, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from tidegate.core.offsets import Window, spark_offsets, window_bounds
from tidegate.errors import ConfigurationError
from tidegate.settings import kafka_clients
from tidegate.settings.merged import own_defaults
from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings

# A given option overrides these. Spark ignores the case of names.
_DEFAULTS = {name.lower(): value for name, value in own_defaults(Place.SOURCE).items()}
del _DEFAULTS["groupidprefix"]  # it has no effect beside a group id, which each job has
_NEEDED = ("kafka.bootstrap.servers", "kafka.isolation.level")
# Given by Tidegate and by the connection, and by no pipeline.
_OURS = {"kafka.client.id", *_NEEDED, *(f"kafka.{name}" for name in kafka_clients.SECURITY)}
_SECRET = re.compile(r"jaas|password|secret|keystore\.key", re.IGNORECASE)
_QUOTED = re.compile(
    r'\b(?>\w*?(?:password|secret)\w*+)\s*+=\s*+"((?:[^"\\]|\\.)++)"', re.IGNORECASE
)


def source_options(
    window: Window, given: Mapping[str, str], *, max_records_per_task: int
) -> dict[str, str]:
    """Return the source's options for exactly this window.

    `given` has the brokers and the isolation level, and any other client settings, as `kafka.…`.
    Raises ConfigurationError with all options that are missing, given twice or refused.
    """
    options = {name.lower(): value for name, value in given.items()}
    wrong = [f"{name}: missing" for name in _NEEDED if name not in options]
    others = {name: value for name, value in given.items() if name.lower() not in _OURS}
    if wrong := [*wrong, *judge_settings(Place.SOURCE, others).complaints]:
        raise ConfigurationError("Kafka options for Spark: " + "; ".join(wrong), options=wrong)
    starts, ends = window_bounds([window])
    options.pop("groupidprefix", None)
    return {
        **_DEFAULTS,
        **options,
        "assign": json.dumps({topic: sorted(starts[topic]) for topic in sorted(starts)}),
        "startingoffsets": spark_offsets(starts),
        "endingoffsets": spark_offsets(ends),
        "failondataloss": "true",
        "includeheaders": "true",
        "maxrecordsperpartition": str(max_records_per_task),
    }


def redact_options(text: str, given: Mapping[str, str]) -> str:
    """Return `text` without the secrets among the options, which an exception may quote."""
    for secret in sorted(_secrets(given), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _secrets(given: Mapping[str, str]) -> Iterator[str]:
    for name, value in given.items():
        if value and _SECRET.search(name):
            yield value
            for quoted in re.findall(_QUOTED, value):
                yield quoted
                yield re.sub(r"\\(.)", r"\1", quoted)
