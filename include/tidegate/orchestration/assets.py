"""The assets of a pipeline in Airflow: one for each topic, and of a topic pattern an alias."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from tidegate import flows
from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs import spec_protocol


def outlets(spec: Spec) -> list[Asset | AssetAlias]:
    """Return the assets that a publish task updates. An alias for a topic pattern."""
    assets = [asset(spec.name, topic) for topic in flows.topics(spec)]
    return assets or [AssetAlias(f"tidegate://{spec.name}")]


def inlets(spec: Spec) -> list[Asset]:
    """Return the assets that an egress reads: those of the pipeline whose lake it sends.

    Only those that its source updates, since Airflow starts no task with an inlet that is inactive.
    """
    if isinstance(spec, Ingest) or spec.source.lake is None:
        return []
    try:
        topics = flows.topics(pipeline_files.load_ingest(spec.source.lake))
    except ConfigurationError:  # `plan` reports it
        return []
    chosen = spec.source.topics or topics
    return [asset(spec.source.lake, topic) for topic in topics if topic in chosen]


def asset(pipeline: str, topic: str) -> Asset:
    """Return the asset of one topic of a pipeline."""
    uri = f"tidegate://{pipeline}/{topic}"
    return Asset(uri=uri, name=uri)


def fill_events(
    context: Context,
    spec: spec_protocol.Spec,
    planned: Iterable[str],
    extra_of: Callable[[str], dict[str, Any]],
) -> None:
    """Give the events of the task's assets their extra, by topic; `planned` are the plan's."""
    events, outlets = context["outlet_events"], context["task"].outlets
    for topic in flows.topics(spec):
        uri = asset(spec.name, topic).uri
        for each in outlets:  # a user may give an asset another name, or refer to it by either
            if uri in (getattr(each, "uri", None), getattr(each, "name", None)):
                events[each].extra = extra_of(topic)
    alias = AssetAlias(f"tidegate://{spec.name}")
    if alias in outlets:  # the topics of a pattern are known now
        for topic in planned:
            events[alias].add(asset(spec.name, topic), extra=extra_of(topic))
