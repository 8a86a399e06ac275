"""The settings that are in effect at a place, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from tidegate.settings.setting import Place
from tidegate.settings.table import TABLE


class Origin(StrEnum):
    """Who has given a value. The first one wins."""

    PIPELINE = "pipeline"
    CONNECTION = "connection"
    TIDEGATE = "tidegate"


class Effective(NamedTuple):
    """A value that is in effect, and its origin."""

    value: str
    origin: Origin


def own_defaults(place: Place) -> dict[str, str]:
    """Return Tidegate's own values at a place that are not the ones of Spark or Kafka."""
    return {
        each.name: each.default
        for each in TABLE
        if each.place is place and each.default is not None and each.default != each.outside
    }


def merge_settings(
    place: Place, pipeline: Mapping[str, str], connection: Mapping[str, str]
) -> dict[str, Effective]:
    """Return the settings in effect, by name, except those that are Spark's and Kafka's defaults.

    `pipeline` and `connection` are those that were given, by the names of the table.
    """
    found = {name: Effective(value, Origin.TIDEGATE) for name, value in own_defaults(place).items()}
    found |= {name: Effective(value, Origin.CONNECTION) for name, value in connection.items()}
    found |= {name: Effective(value, Origin.PIPELINE) for name, value in pipeline.items()}
    return dict(sorted(found.items()))
