"""Counts and durations in texts for people."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 chunk`, `1,204 rows`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration by its two largest units: `6d 23h`, `4m 10s`, `1h`; below 60 s `41 s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (int(seconds), "s"))
    first = next(i for i, (n, _) in enumerate(units) if n)
    return " ".join(f"{n}{unit}" for n, unit in units[first : first + 2] if n)
