"""The backlog of a source: unsent files or offsets, and the excluded ones with their reasons."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.core.fold import Fold
from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.egress.lake_source import Unsent, open_lake, read_unsent
from tidegate.errors import ConfigurationError, SourceRefused, SourceUnavailable
from tidegate.lake import deliveries, sources
from tidegate.lake.sources import Root
from tidegate.lake.store import Store
from tidegate.pipelines.spec import Egress

_LATE = (
    "committed to the lake after later offsets of its partition were sent: order: strict, or a "
    "compacted target, does not take it behind them. `tidegate replay` sends it all the same, "
    "`tidegate release --late --how declare-sent` counts it as sent"
)
_SENT_BEFORE = "sent before, with other content: --resend sends it again"
_UNFIT = "refused, though bad rows go into quarantine; it has not changed: --resend tries again"
_REFUSED = (
    "refused for its rows; it has not changed: correct it, or set on_bad_row: quarantine; "
    "--resend tries again"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backlog:
    """The unsent `files` of a path, or the `unsent` offsets of a lake; `left_out` is excluded.

    `taken` are the files that the next run sends; `young` files are newer than `settle` allows:
    all of them have settled in `settles_in` seconds.
    """

    files: tuple[SourceFile, ...] = ()
    taken: tuple[SourceFile, ...] = ()
    young: tuple[SourceFile, ...] = ()
    left_out: tuple[LeftOutFile, ...] = ()
    unsent: Unsent = field(default_factory=Unsent)
    settles_in: int | None = None


def read_backlog(
    spec: Egress,
    store: Store,
    fold: Fold,
    max_records: int | None,
    *,
    resend: bool = False,
    compacted: bool = False,
) -> Backlog:
    """Return what the source has that was neither sent nor refused.

    Without `max_records` no file is taken and no footer is read. `compacted`: a target topic is
    compacted. A file that was sent and has another time now is compared by its content, if that
    was recorded: it is read.
    """
    if spec.source.lake is not None:
        return _lake_backlog(spec, spec.source.lake, fold, resend=resend, compacted=compacted)
    assert spec.source.path is not None
    root = Root.of(spec.source.path)
    listed = sources.listing(root, settle=spec.settle)
    if not (listed.files or listed.young or listed.left_out or fold.sent or fold.refused):
        raise SourceRefused(
            f"pipeline {spec.name!r}: no file matches {spec.source.path}, and none ever did: is "
            "the path right? Names with a part that begins with a dot or underscore do not count"
        )
    new, left_out = [], list(listed.left_out)
    unchanged = _unchanged(root, store, fold, listed.files)
    for file in listed.files:
        if fold.sent.get(file.name) == file.etag or file.name in unchanged:
            continue
        reason = None if resend else _exclusion(spec, fold, file)
        if reason is None:
            new.append(file)
        else:
            left_out.append(LeftOutFile(file.name, reason))
    taken: list[SourceFile] = []
    if max_records is not None:
        candidates: Iterable[SourceFile | LeftOutFile] = new
        if spec.source.format == "parquet" and spec.source.columns is None:
            candidates = sources.read_footers(root, new, spec.max_files)
        taken, broken = _take(candidates, spec.max_files, max_records)
        names = {each.file for each in broken}
        new = [file for file in new if file.name not in names]
        left_out += broken
    return Backlog(
        tuple(new), tuple(taken), listed.young, tuple(left_out), settles_in=listed.settles_in
    )


def _unchanged(root: Root, store: Store, fold: Fold, files: Sequence[SourceFile]) -> set[str]:
    """Return the files that were sent, have another time now, and the content that was sent.

    Only of a disk, and of the root that they were sent from. One that cannot be read is not among
    them: it is excluded by name.
    """
    if not root.url.startswith("file://") or root.url not in fold.roots:
        return set()
    touched = [
        f
        for f in files
        if (sent := fold.sent.get(f.name, f.etag)) != f.etag and sent.endswith(f"-{f.size:x}")
    ]
    known = deliveries.sent_contents(store, fold, {f.name for f in touched}) if touched else {}
    same = set()
    for file in touched:
        with suppress(SourceUnavailable):
            if known.get(file.name) == (file.size, sources.content(root, file.name)):
                same.add(file.name)
    return same


def _lake_backlog(spec: Egress, name: str, fold: Fold, *, resend: bool, compacted: bool) -> Backlog:
    if resend:
        raise ConfigurationError(
            f"pipeline {spec.name!r}: --resend is for files that came back; what was sent of a "
            "lake does not change"
        )
    in_order = compacted or spec.order == "strict"
    unsent = read_unsent(spec, open_lake(name), fold, in_order=in_order)
    for topic, count in unsent.unselected.items():
        logger.warning(
            "%s: %s: %d offsets of the lake are not sent: it is no longer in source.topics",
            spec.name, topic, count,
        )  # fmt: skip
    left_out = tuple(LeftOutFile(str(r), _LATE) for _, r in unsent.late if in_order)
    return Backlog(left_out=left_out, unsent=unsent)


def _exclusion(spec: Egress, fold: Fold, file: SourceFile) -> str | None:
    """Return why a file is not sent without `--resend`; None if it is sent.

    A file that was refused for bad rows is retried once `on_bad_row` is quarantine.
    """
    if fold.unfit.get(file.name) == file.etag:
        return _UNFIT
    if fold.refused.get(file.name) == file.etag and spec.on_bad_row != "quarantine":
        return _REFUSED
    return _SENT_BEFORE if file.name in fold.sent else None


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
