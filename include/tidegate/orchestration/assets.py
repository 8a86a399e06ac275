"""The assets of a pipeline in Airflow: one for each topic, of a topic pattern an alias, and one
for complete hours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from tidegate import flows
from tidegate.errors import ConfigurationError
from tidegate.orchestration.airflow_versions import AirflowSkipException
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs import spec_protocol

THROUGH = "complete_through"
"""The XCom of `verdict` with the time until when the run is complete."""
_HOUR = timedelta(hours=1)
_UNTIL = "until"
_NEWEST = 100  # events that are asked for: those of one run say the same
_MOST = 500  # hours of one run: Airflow writes their events in one request of a few seconds
_CLOCKS = timedelta(minutes=1)

logger = logging.getLogger(__name__)


def outlets(spec: Spec) -> list[Asset | AssetAlias]:
    """Return the assets that a publish task updates. An alias for a topic pattern."""
    assets = [asset(spec.name, topic) for topic in flows.topics(spec)]
    return assets or [AssetAlias(of_pattern(spec.name))]


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


def of_pattern(pipeline: str) -> str:
    """Return the name of the alias of a pipeline whose topics a pattern chooses."""
    return f"tidegate://{pipeline}"


def complete_hours(pipeline: str) -> Asset:
    """Return the asset whose partitions are the complete hours of a pipeline.

    An asset of its own: an event with a partition starts no DAG with an ordinary asset schedule.
    """
    uri = f"tidegate://{pipeline}/complete/hours"  # no topic has such a name
    return Asset(uri=uri, name=uri)


def announce_hours(through: str | None, events: Any, event: Any) -> None:
    """Add each hour that became complete since the last one announced to the asset's `event`.

    Airflow's own events say which was the last: they are written with the success of the task that
    announced it, or not at all. AirflowSkipException without an hour: each success of this task is
    an event.
    """
    newest = events.ascending(False).limit(_NEWEST)
    since = next((found for each in newest if (found := _until(each.extra))), None)
    hours = hours_between(since, datetime.fromisoformat(through) if through else None)
    if since and since > datetime.now(UTC):
        logger.warning("hours until %s were announced, by a clock that was ahead", since)
    if not hours:
        raise AirflowSkipException("no hour became complete")
    event.add_partitions([f"{each:%Y-%m-%dT%H:%M:%S}" for each in hours])
    event.extra = {_UNTIL: (hours[-1] + _HOUR).isoformat()}
    logger.info("complete: %s to %s", hours[0], hours[-1] + _HOUR)


def hours_between(since: datetime | None, through: datetime | None) -> list[datetime]:
    """Return the beginnings of the hours in UTC from `since` that end a minute before `through`.

    A minute, since the clock of the planner may be ahead of the broker's. At most 500, the oldest
    first. Without `since` only the last. Empty without `through`.
    """
    if through is None:
        return []
    end = (through.astimezone(UTC) - _CLOCKS).replace(minute=0, second=0, microsecond=0)
    count = 1 if since is None else (end - since.astimezone(UTC)) // _HOUR
    return [end - each * _HOUR for each in range(count, 0, -1)][:_MOST]


def _until(extra: Any) -> datetime | None:
    """Return until when hours were announced by an event, in UTC without a zone. None: not said."""
    try:
        found = datetime.fromisoformat(extra.get(_UNTIL))
    except (AttributeError, TypeError, ValueError):  # somebody else's
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


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
    alias = AssetAlias(of_pattern(spec.name))
    if alias in outlets:  # the topics of a pattern are known now
        for topic in planned:
            events[alias].add(asset(spec.name, topic), extra=extra_of(topic))
