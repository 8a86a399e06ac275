"""The report of an ingest run: accounts, files, proofs, lag, expiry, excluded partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from tidegate.core.cluster_answers import iso
from tidegate.core.entries import Account, Commit, Gap
from tidegate.core.files import Part
from tidegate.core.fold import Fold
from tidegate.core.json_codec import Document, as_object
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan
from tidegate.errors import TidegateError
from tidegate.ingest.status import positions
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt, HoleProof
from tidegate.lake.plans import Frozen
from tidegate.runs.client_options import InEffect, effective_settings
from tidegate.runs.run import OpenRun, Run
from tidegate.runs.steps import RunDetails, RunReport

Entries = Mapping[int, tuple[int, Commit]]
"""The commits of a run: chunk → number and entry."""


@dataclass(frozen=True, kw_only=True)
class CommitReport(Document):
    """A commit of a run. `undecodable` counts the rows that do not fit, by topic and reason."""

    chunk: int
    commit: int
    rows: int
    topics: Mapping[str, Mapping[int, Annotated[Account, as_object(Account)]]]
    undecodable: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class IngestReport(RunReport):
    """The summary of a run (contract: the XCom `report`, and `run --json`).

    `covered_by` has, for each chunk that this plan did not commit, the commits that hold its
    offsets. `missing` are the chunks that are not in the lake.
    """

    commits: tuple[CommitReport, ...]
    covered_by: Mapping[int, tuple[int, ...]]
    missing: tuple[int, ...]

    def rows_of(self, topic: str) -> int:
        """Return the rows of a topic over all commits."""
        accounts = (each.topics.get(topic, {}) for each in self.commits)
        return sum(account.rows for partitions in accounts for account in partitions.values())


@dataclass(frozen=True, kw_only=True)
class FileReport(Document):
    """A data file of a commit. `bytes` is its size, `parts` are its rows by partition."""

    uri: str
    topic: str
    parts: tuple[Annotated[Part, as_object(Part)], ...]
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class WholeCommitReport(CommitReport):
    """A commit with its files. `proofs` has the partitions that have holes."""

    attempt: str
    bytes: int
    versions: Mapping[str, str]
    proofs: Mapping[str, Mapping[int, Annotated[HoleProof, as_object(HoleProof)]]]
    files: tuple[FileReport, ...]


@dataclass(frozen=True)
class PartitionAfter(Document):
    """Where a partition stands after the run. All but `cursor` is None without a broker.

    `open_since` and `expires_at` are times in ISO 8601.
    """

    cursor: int
    end: int | None
    high: int | None
    lag: int | None
    open_since: str | None
    expires_at: str | None


@dataclass(frozen=True)
class TopicAfter(Document):
    """A topic of the run by its id, and its partitions."""

    topic_id: str
    partitions: Mapping[int, PartitionAfter]


@dataclass(frozen=True, kw_only=True)
class IngestDetails(RunDetails):
    """What the full report adds. Lag, expiry and settings are those of now.

    `broker` says why positions are missing. `taken_up` are the partitions that the plan added.
    """

    records: int
    commits: tuple[WholeCommitReport, ...]
    gaps: tuple[Gap, ...]
    taken_up: Mapping[str, tuple[int, ...]]
    topics: Mapping[str, TopicAfter]
    broker: str | None
    settings: Mapping[str, InEffect]


def summarize(
    run: Run, frozen: Frozen, commits: Entries, missing: Sequence[int], fold: Fold
) -> IngestReport:
    """Return the summary of a run. `missing` are the chunks that are not in the lake."""
    plan = frozen.plan
    return IngestReport(
        pipeline=run.spec.name,
        run=run.run_id,
        run_key=run.key,
        generation=frozen.generation,
        plan_id=plan.id,
        lane=plan.lane,
        rows=sum(commit.rows for _, commit in commits.values()),
        commits=tuple(
            CommitReport(
                chunk=number,
                commit=n,
                rows=commit.rows,
                topics=commit.accounts,
                undecodable={
                    topic: each.undecodable
                    for topic, each in (commit.decoded or {}).items()
                    if each.undecodable
                },
            )
            for number, (n, commit) in commits.items()
        ),
        covered_by={
            number: tuple(fold.commits_over(window, plan.topics))
            for number, window in enumerate(plan.chunks)
            if number not in commits and number not in missing
        },
        missing=tuple(missing),
        left_out=plan.left_out,
    )


def describe(
    opened: OpenRun[Run],
    summary: IngestReport,
    commits: Entries,
    plan: Plan,
    note: Mapping[str, Any],
    through: Mapping[str, str],
) -> IngestDetails:
    """Return the files, proofs and gaps of a run, and the positions of its partitions."""
    run, fold = opened.run, opened.ledger.fold
    topics, problem = _positions(run, fold)
    described = tuple(
        describe_commit(opened, commits[each.chunk][1], each) for each in summary.commits
    )
    after = [each for topic in topics.values() for each in topic.partitions.values()]
    reasons = [counts for each in summary.commits for counts in each.undecodable.values()]
    return IngestDetails(
        bytes=sum(each.bytes for each in described),
        complete_through=min(through.values())
        if through.keys() == topics.keys() != set()
        else None,
        lag=None if problem else sum(each.lag or 0 for each in after),
        expires_at=min((each.expires_at for each in after if each.expires_at), default=None),
        bad=sum(sum(each.values()) for each in reasons),
        records=plan.records,
        commits=described,
        gaps=tuple(gap for gap in fold.gaps if gap.by == run.run_id),
        taken_up=note.get("taken_up", {}),
        topics=topics,
        broker=problem,
        settings=effective_settings(run.spec, run.kafka, {}),
    )


def describe_commit(
    opened: OpenRun[Run], commit: Commit, summary: CommitReport
) -> WholeCommitReport:
    """Add proofs, versions and files to the summary of a commit."""
    store = opened.store
    known = opened.manifests.get(Attempt.of(commit))
    manifest = known or attempts.committed_manifest(store, commit)
    return WholeCommitReport(
        **vars(summary),
        attempt=commit.attempt,
        bytes=sum(file.size for file in manifest.files),
        versions=manifest.versions,
        proofs={
            topic: {p: proof for p, proof in partitions.items() if proof.holes}
            for topic, partitions in manifest.proofs.items()
        },
        files=tuple(
            FileReport(
                uri=store.uri(file.final),
                topic=file.topic,
                parts=file.parts,
                rows=file.rows,
                bytes=file.size,
            )
            for file in manifest.files
        ),
    )


def _positions(run: Run, fold: Fold) -> tuple[dict[str, TopicAfter], str | None]:
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
        topic: TopicAfter(
            fold.topic_ids[topic],
            {
                p: PartitionAfter(
                    at.cursor, at.end, at.high, at.lag,
                    iso(since.get((topic, p))), iso(expire.get((topic, p))),
                )
                for p, at in positions(
                    fold, fold.topic_ids[topic], marks.get(topic, {}), run.spec.partitions_of(topic)
                ).items()
                if at.cursor is not None
            },
        )
        for topic in topics
    }, problem  # fmt: skip
