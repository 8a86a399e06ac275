"""The backlog of a source: unsent files or offsets, and the excluded ones with their reasons."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.core.fold import Fold
from tidegate.core.plan import Columns, LeftOutFile, SourceFile
from tidegate.core.source_root import Root
from tidegate.egress.byte_settings import judge_digest, line_ends, record_settings
from tidegate.egress.lake_source import SourceLake, Unsent, open_source_lake, read_unsent
from tidegate.errors import ConfigurationError, SourceRefused, SourceUnavailable
from tidegate.lake import deliveries, sources
from tidegate.lake.ledger import refuse_absent
from tidegate.lake.store_protocol import SourceFiles, Store, Stores
from tidegate.runs.spec_protocol import EgressSpec, Pipelines

_LATE = (
    "committed to the lake after later offsets of its partition were sent: order: strict, or a "
    "compacted target, does not take it behind them. `tidegate replay` still sends it, "
    "`tidegate release --late --how declare-sent` counts it as sent"
)
_SENT_BEFORE = "sent before, with other content: --resend sends it again"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backlog:
    """The unsent `files` of a path, or the `unsent` offsets of a lake; `left_out` is excluded.

    `taken` are the files that the next run sends. Parquet without declared ones has `columns`;
    `young` files are newer than `settle` allows: all of them have settled in `settles_in` seconds.
    """

    files: tuple[SourceFile, ...] = ()
    taken: tuple[SourceFile, ...] = ()
    young: tuple[SourceFile, ...] = ()
    left_out: tuple[LeftOutFile, ...] = ()
    unsent: Unsent = field(default_factory=Unsent)
    settles_in: int | None = None
    columns: Columns | None = None


def read_backlog(
    spec: EgressSpec,
    stores: Stores,
    pipelines: Pipelines,
    store: Store,
    fold: Fold,
    max_records: int | None,
    *,
    resend: bool = False,
    own: Collection[str] = (),
    compacted: bool = False,
) -> Backlog:
    """Return what the source has that was neither sent nor refused.

    Without `max_records` no file is taken and no footer is read. `resend` takes files that were
    sent with other content, or refused by another plan than the run's `own`. `compacted`: a target
    topic is compacted. A file that was sent and has another time now is compared by its content, if
    that was recorded: it is read.
    """
    if spec.source.lake is not None:
        if resend:
            raise ConfigurationError(
                f"pipeline {spec.name!r}: --resend is for files that came back; what was sent of a "
                "lake does not change"
            )
        lake = open_source_lake(spec.source.lake, stores, pipelines)
        refuse_absent(lake.store, lake.fold)  # without a run it would count as sent
        return _lake_backlog(spec, lake, fold, compacted=compacted)
    assert spec.source.path is not None
    source = stores.source(Root.of(spec.source.path))
    was_there = bool(fold.egress.sent or fold.egress.refused)
    try:
        listed = sources.list_source(source, settle=spec.settle)
    except SourceUnavailable as error:
        if was_there or not error.numbers.get("missing"):
            raise
        raise SourceRefused(
            f"pipeline {spec.name!r}: source.path {spec.source.path}: {error}; and nothing was "
            "ever sent from there: is the path right?"
        ) from error
    if not (listed.files or listed.young or listed.left_out or was_there):
        raise SourceRefused(
            f"pipeline {spec.name!r}: no file matches {spec.source.path}, and none ever did: is "
            "the path right? Names with a part that begins with a dot or underscore do not count"
        )
    new, left_out = [], list(listed.left_out)
    judged_by = judge_digest(record_settings(spec).to_json(), spec)
    same = unchanged_files(source, store, fold, listed.files)
    for file in listed.files:
        if fold.egress.sent.get(file.name) == file.etag or file.name in same:
            continue
        reason = _exclusion(fold, file, judged_by, own if resend else None)
        if reason is None:
            new.append(file)
        else:
            left_out.append(LeftOutFile(file.name, reason))
    taken: list[SourceFile] = []
    columns: Columns | None = None
    if max_records is not None:
        candidates: Iterable[SourceFile | LeftOutFile] = new
        if line_ends(spec.source) is None:
            columns, candidates = sources.read_footers(
                source,
                new,
                spec.max_files,
                fold.egress.columns,
                any_columns=spec.source.columns is not None,
            )
        else:
            candidates = (_readable(source, file) for file in new)
        taken, broken = _take(candidates, spec.max_files, max_records)
        names = {each.file for each in broken}
        new = [file for file in new if file.name not in names]
        left_out += broken
    return Backlog(
        tuple(new),
        tuple(taken),
        listed.young,
        tuple(left_out),
        settles_in=listed.settles_in,
        columns=columns,
    )


def unchanged_files(
    source: SourceFiles, store: Store, fold: Fold, files: Sequence[SourceFile]
) -> set[str]:
    """Return the files that were sent, have another time now, and the content that was sent.

    Only of a disk, and of the root that they were sent from. One that cannot be read is not among
    them: it is excluded by name.
    """
    if source.has_content_etags or source.root.url not in fold.egress.roots:
        return set()
    touched = [
        f
        for f in files
        if (was := fold.egress.sent.get(f.name, f.etag)) != f.etag and was.endswith(f"-{f.size:x}")
    ]
    known = deliveries.sent_contents(store, fold, {f.name for f in touched}) if touched else {}
    same = set()
    for file in touched:
        with suppress(SourceUnavailable):
            if known.get(file.name) == (file.size, sources.digest_content(source, file.name)):
                same.add(file.name)
    return same


def _lake_backlog(spec: EgressSpec, lake: SourceLake, fold: Fold, *, compacted: bool) -> Backlog:
    in_order = compacted or spec.order == "strict"
    unsent = read_unsent(spec, lake, fold, in_order=in_order)
    for topic, count in unsent.unselected.items():
        logger.warning(
            "%s: %s: %d offsets of the lake are not sent: it is no longer in source.topics",
            spec.name, topic, count,
        )  # fmt: skip
    left_out = tuple(LeftOutFile(str(r), _LATE) for _, r in unsent.late if in_order)
    return Backlog(left_out=left_out, unsent=unsent)


def _exclusion(
    fold: Fold,
    file: SourceFile,
    judged_by: str,
    resent_by: Collection[str] | None,
) -> str | None:
    """Return why a file is not sent. None if it is. `resent_by` are the plans of a `--resend`."""
    refused = fold.egress.refused.get(file.name)
    counts = refused and (resent_by is None or refused.plan_id in resent_by)
    if refused and counts and refused.stands(file.etag, judged_by):
        return refused.reason
    return _SENT_BEFORE if file.name in fold.egress.sent and resent_by is None else None


def _readable(source: SourceFiles, file: SourceFile) -> SourceFile | LeftOutFile:
    why = sources.compression_complaint(source, file.name)
    return LeftOutFile(file.name, why) if why else file


def _take(
    candidates: Iterable[SourceFile | LeftOutFile], max_files: int, max_records: int
) -> tuple[list[SourceFile], list[LeftOutFile]]:
    """Return the first readable files within the limits, at least one; and the broken ones before.

    A file whose number of rows is unknown counts as 0 rows.
    """
    taken: list[SourceFile] = []
    broken: list[LeftOutFile] = []
    records = 0
    for each in candidates:
        if isinstance(each, LeftOutFile):
            broken.append(each)
            continue
        records += each.rows or 0
        if taken and records > max_records:
            break
        taken.append(each)
        if len(taken) == max_files:
            break
    return taken, broken
