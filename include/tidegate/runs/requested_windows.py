"""Windows as people write them, made into what a request has: for the commands and the forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core import windows
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError


def absolute_edge(edge: str | None, zone: str, now: datetime | None = None) -> str | None:
    """Return an edge as `windows.anchor_edge` does; ConfigurationError for an unknown zone.

    `now`, by default this moment, is what `-1d` counts from.
    """
    from zoneinfo import ZoneInfo  # of no other command

    try:
        found = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ConfigurationError(
            f"zone {zone!r}: not a name of the IANA time zones, like UTC or Europe/Berlin"
        ) from None
    return windows.anchor_edge(edge, found, now or datetime.now(UTC))


def parse_ranges(texts: Iterable[str]) -> tuple[OffsetRange, ...]:
    """Return the ranges of texts like `orders:0:120-340`; ConfigurationError for another form."""
    try:
        return tuple(map(windows.parse_range, texts))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def without_files(pipeline: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is given of a window to replay. ConfigurationError if files are named, too."""
    if given.get("files"):
        raise ConfigurationError(
            f"pipeline {pipeline!r} has a lake, not files: give a window, by start and end"
        )
    return {name: value for name, value in given.items() if name != "files"}
