"""Counts, durations and errors in texts for people."""

from __future__ import annotations

import re

_METADATA_SERVICE = "169.254.169.254"  # of a virtual machine, in every large cloud


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 chunk`, `1,204 rows`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration by its two largest units: `6d 23h`, `4m 10s`, `1h`. Below 60 s `41 s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (int(seconds), "s"))
    first = next(i for i, (n, _) in enumerate(units) if n)
    return " ".join(f"{n}{unit}" for n, unit in units[first : first + 2] if n)


def one_line(error: Exception) -> str:
    """Return an error as one line: without obstore's trace, and of an answer of S3 its code
    and message. A client without credentials names the address where it looked for some last.
    """
    line = str(error).partition("\n\nDebug source")[0]
    if _METADATA_SERVICE in line:
        return "no credentials are set, and this machine's metadata service gave none"
    if said := re.search(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>", line):
        line = f"{line.partition(' - Server returned')[0]}: {said[1]}: {said[2]}"
    return " ".join(line.split())
