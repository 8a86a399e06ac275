"""The report of an ingest run: accounts, files, proofs, lag, expiry, excluded partitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.cluster_answers import iso
from tidegate.core.entries import Commit
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import TidegateError
from tidegate.ingest.status import positions
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt
from tidegate.lake.committed_files import committed_parts
from tidegate.lake.plans import Frozen
from tidegate.runs.client_options import effective_settings
from tidegate.runs.run import OpenRun, Run

FORMAT = 1

logger = logging.getLogger(__name__)


Entries = Mapping[int, tuple[int, Commit]]
"""The commits of a run: chunk → number and entry."""


def short(
    run: Run, frozen: Frozen, commits: Entries, missing: Sequence[int], fold: Fold
) -> dict[str, Any]:
    """Return the summary of a run (contract: the XCom `report`, and `run --json`).

    `missing` are the chunks that are not in the lake.
    """
    plan = frozen.plan
    return {
        "format": FORMAT,
        "pipeline": run.spec.name,
        "run": run.run_id,
        "run_key": run.key,
        "generation": frozen.generation,
        "plan_id": plan.id,
        "lane": plan.lane,
        "rows": sum(commit.rows for _, commit in commits.values()),
        "commits": [
            {
                "chunk": number,
                "commit": n,
                "rows": commit.rows,
                "topics": _accounts(commit),
                "undecodable": {
                    topic: dict(each.undecodable)
                    for topic, each in (commit.decoded or {}).items()
                    if each.undecodable
                },
            }
            for number, (n, commit) in commits.items()
        ],
        "covered_by": {
            str(number): list(fold.commits_over(window, plan.topics))
            for number, window in enumerate(plan.chunks)
            if number not in commits and number not in missing
        },
        "missing": list(missing),
        "left_out": [each.to_json() for each in plan.left_out],
    }


def details(
    opened: OpenRun[Run],
    summary: Mapping[str, Any],
    commits: Entries,
    plan: Plan,
    note: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the full report adds: files, proofs, gaps, and the positions of partitions.

    Lag, expiry and settings are those of now. Null without an answer of the broker.
    """
    run, fold = opened.run, opened.ledger.fold
    topics, problem = _positions(run, fold)
    return {
        "records": plan.records,
        "commits": [
            describe_commit(opened, commits[each["chunk"]][1], each) for each in summary["commits"]
        ],
        "gaps": [gap.to_json() for gap in fold.gaps if gap.by == run.run_id],
        "taken_up": note.get("taken_up", {}),
        "topics": topics,
        "broker": problem,
        "settings": {
            name: each.to_json()
            for name, each in effective_settings(run.spec, run.kafka, {}).items()
        },
    }


def _accounts(commit: Commit) -> dict[str, dict[str, dict[str, int]]]:
    return {
        topic: {str(p): account._asdict() for p, account in partitions.items()}
        for topic, partitions in commit.accounts.items()
    }


def describe_commit(
    opened: OpenRun[Run], commit: Commit, summary: Mapping[str, Any]
) -> dict[str, Any]:
    """Add proofs, versions and files to the summary of a commit."""
    store = opened.store
    known = opened.manifests.get(Attempt.of(commit))
    manifest = known or attempts.committed_manifest(store, commit)
    return {
        **summary,
        "attempt": commit.attempt,
        "bytes": sum(file.size for file in manifest.files),
        "versions": dict(manifest.versions),
        "proofs": {
            topic: {str(p): proof._asdict() for p, proof in partitions.items() if proof.holes}
            for topic, partitions in manifest.proofs.items()
        },
        "files": [
            {
                "uri": store.uri(file.final),
                "topic": file.topic,
                "parts": committed_parts(file),
                "rows": file.rows,
                "bytes": file.size,
            }
            for file in manifest.files
        ],
    }


def _positions(run: Run, fold: Fold) -> tuple[dict[str, Any], str | None]:
    """Return the position of each partition of the run's topics, and the broker's error if any."""
    topics = [t for t in run.topics if t in fold.topic_ids]
    try:
        seen = run.kafka.survey(topics, run.spec.isolation) if topics else None
        marks = seen.only(run.spec.assign).watermarks if seen else {}
        waiting = [
            OffsetRange(topic, p, cursor, marks[topic][p].end)
            for topic in topics
            for p, cursor in fold.cursors(topic).items()
            if p in marks.get(topic, {}) and cursor < marks[topic][p].end
        ]
        expire = run.kafka.expiries(waiting, run.spec.isolation) if waiting else {}
        since = run.kafka.open_since(marks)
        problem = None
    except TidegateError as error:
        marks, expire, since, problem = {}, {}, {}, str(error)
    return {
        topic: {
            "topic_id": fold.topic_ids[topic],
            "partitions": {
                str(p): {
                    "cursor": at.cursor,
                    "end": at.end,
                    "high": at.high,
                    "lag": at.lag,
                    "open_since": iso(since.get((topic, p))),
                    "expires_at": iso(expire.get((topic, p))),
                }
                for p, at in positions(
                    fold, fold.topic_ids[topic], marks.get(topic, {}), run.spec.partitions_of(topic)
                ).items()
                if at.cursor is not None
            },
        }
        for topic in topics
    }, problem
