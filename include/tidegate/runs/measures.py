"""The numbers of a pipeline for the tools of a team: names, labels and values, by one function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidegate.core.ended_run import EndedRun, complete_through
from tidegate.runs.pipeline_state import State


class Measure(NamedTuple):
    """A number of a pipeline now: a gauge. `labels` are in the order of the name's `LABELS`."""

    name: str
    labels: Mapping[str, str]
    value: float


HELP: Mapping[str, str] = {
    "state": "1 for the state of the pipeline, 0 for the others",
    "lag_records": "Offsets up to the high watermark that are not in the lake",
    "waiting_files": "Files of the source that are not sent",
    "complete_through_age_seconds": "Age of the time until when all is in the lake, or sent",
    "expiry_seconds": "Seconds until Kafka may delete the first record that waits",
    "excluded_partitions": "Partitions, or files, that runs exclude",
    "open_transaction_age_seconds": "Age of the oldest transaction that hides records",
    "undecodable_rows": "Rows of live commits that do not fit their schema",
    "duplicate_rows": "Rows that were sent twice, by a release",
    "last_entry": "Number of the newest ledger entry",
    "last_run_timestamp_seconds": "When the newest run ended",
    "last_run_failed": "1 if the newest run has failed",
    "last_run_rows": "Rows that the newest run committed, or sent",
    "last_run_bytes": "Bytes that the newest run wrote",
    "last_run_seconds": "Seconds of a step of the newest run",
}
"""What each measure says. Outlets put `tidegate_` before the names."""
PREFIX = "tidegate_"


def measures(pipeline: str, state: str, status: Any, runs: Sequence[EndedRun]) -> list[Measure]:
    """Return the measures of a pipeline. `status` is None where it cannot be read.

    What is not known has no measure: an old number would look like a new one.
    """
    found = [
        Measure("state", {"pipeline": pipeline, "state": each}, float(each == state))
        for each in State
    ]
    for name, labels, value in (*_of_status(status), *_of_runs(runs)):
        if value is not None:
            found.append(Measure(name, {"pipeline": pipeline, **labels}, float(value)))
    return found


def run_measures(run: EndedRun) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
    """Yield the measures of a run that has ended."""
    yield "last_run_timestamp_seconds", {}, _seconds(run.ended)
    yield "last_run_failed", {}, run.error is not None
    yield "last_run_rows", {}, run.rows
    yield "last_run_bytes", {}, run.bytes
    for step, seconds in run.steps.items():
        yield "last_run_seconds", {"step": step}, seconds


Found = Iterator[tuple[str, Mapping[str, str], float | None]]


def _of_runs(runs: Sequence[EndedRun]) -> Found:
    if not runs:
        return
    yield from run_measures(runs[-1])
    now = datetime.now(UTC).timestamp()
    if through := complete_through(runs):
        yield "complete_through_age_seconds", {}, now - _seconds(through)
    if runs[-1].expires_at and runs[-1].lag:
        yield "expiry_seconds", {}, _seconds(runs[-1].expires_at) - now


def _of_status(status: Any) -> Found:
    """Yield what a status of either kind says."""
    if status is None:
        return
    if status.last_entry:
        yield "last_entry", {}, status.last_entry.n
    if status.kind == "ingest":
        yield from _of_ingest(status)
    else:
        if status.waiting:
            yield "waiting_files", {}, status.waiting.files + status.waiting.young
            yield "lag_records", {}, status.waiting.offsets
        yield "excluded_partitions", {}, len(status.left_out)
        yield "duplicate_rows", {}, status.sent.duplicates


def _of_ingest(status: Any) -> Found:
    now = datetime.now(UTC).timestamp()
    for topic, each in status.topics.items():
        labels = {"topic": topic}
        partitions = each.partitions.values()
        known = [p.lag for p in partitions if p.lag is not None]
        yield "lag_records", labels, sum(known) if known or not partitions else None
        excluded = [p for p in status.problems if p.excluded.topic == topic]
        yield "excluded_partitions", labels, None if status.broker else len(excluded)
        yield "undecodable_rows", labels, sum(status.undecodable.get(topic, {}).values())
        if since := [p.open_since for p in partitions if p.open_since]:
            yield "open_transaction_age_seconds", labels, now - _seconds(min(since))


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
