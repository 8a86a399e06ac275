"""What a source has that was not sent, and what of it is excluded, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tidegate.core.ledger import Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.egress import lake_source
from tidegate.errors import ConfigurationError, SourceRefused
from tidegate.lake import sources
from tidegate.lake.sources import Root
from tidegate.pipelines.spec import Egress

# Why a range of a lake is excluded.
_LATE = (
    "committed to the lake after later offsets of its partition were sent: order: strict, or a "
    "compacted target, does not take it behind them. `tidegate replay` sends it all the same, "
    "`tidegate release --late --how declare-sent` counts it as sent"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Waiting:
    """What is there to be sent: files, or ranges of a lake; and what is left out, and why.

    `taken` are the files that one run takes. Only those are looked into. `ahead` counts offsets of
    a lake behind an unseen one, `unselected` those left of topics that left `source.topics`.
    """

    files: tuple[SourceFile, ...] = ()
    taken: tuple[SourceFile, ...] = ()
    young: tuple[SourceFile, ...] = ()
    topic_ids: Mapping[str, str] | None = None
    ranges: Window = ()
    left_out: tuple[LeftOutFile, ...] = ()
    ahead: int = 0
    unselected: int = 0


def waiting(
    spec: Egress,
    fold: Fold,
    max_records: int | None,
    *,
    resend: bool = False,
    compacted: bool = False,
) -> Waiting:
    """Return what the source has that was neither sent nor refused.

    Without `max_records` nothing is taken, and no file is looked into. `compacted`: a target is.
    """
    if spec.source.lake is not None:
        if resend:
            raise ConfigurationError(
                f"pipeline {spec.name!r}: --resend is for files that came back; what was sent of a "
                "lake does not change"
            )
        in_order = compacted or spec.order == "strict"
        of_lake = lake_source.unsent(spec, spec.source.lake, fold, in_order=in_order)
        excluded = [LeftOutFile(str(r), _LATE) for _, r in of_lake.late] if in_order else []
        for topic, left in of_lake.unselected.items():
            logger.warning(
                "%s: %s: %d offsets of the lake are not sent: source.topics has it no more",
                spec.name, topic, left,
            )  # fmt: skip
        return Waiting(
            topic_ids=of_lake.topic_ids,
            ranges=of_lake.ranges,
            left_out=tuple(excluded),
            ahead=of_lake.ahead,
            unselected=sum(of_lake.unselected.values()),
        )
    assert spec.source.path is not None
    root = Root.of(spec.source.path)
    listed = sources.listing(root, settle=spec.settle)
    if not (listed.files or listed.young or listed.left_out or fold.sent or fold.refused):
        raise SourceRefused(
            f"pipeline {spec.name!r}: no file matches {spec.source.path}, and none ever did: is "
            "the path right? Names with a part that begins with a dot or underscore do not count"
        )
    new, left_out = [], []
    for file in listed.files:
        if fold.sent.get(file.name) == file.etag:
            continue
        if resend:
            new.append(file)
        elif (reason := _refused(spec, fold, file)) is not None:
            left_out.append(LeftOutFile(file.name, reason))
        elif file.name not in fold.sent:
            new.append(file)
        else:
            left_out.append(
                LeftOutFile(file.name, "sent before, with other content: --resend sends it again")
            )
    broken: list[LeftOutFile] = []
    candidates: Iterable[SourceFile] = new
    if max_records is None:
        candidates = ()
    elif spec.source.format == "parquet" and spec.source.columns is None:
        candidates = _whole(sources.looked_into(root, new, spec.max_files), broken)
    taken = _taken(candidates, spec.max_files, max_records or 0)
    names = {each.file for each in broken}
    return Waiting(
        tuple(file for file in new if file.name not in names),
        taken,
        listed.young,
        left_out=(*listed.left_out, *left_out, *broken),
    )


def _refused(spec: Egress, fold: Fold, file: SourceFile) -> str | None:
    """Return why a file that was refused is not tried again, if it is not: what was refused for its
    bad rows is taken once `on_bad_row` keeps those back.
    """
    if fold.unfit.get(file.name) == file.etag:
        return (
            "refused, though bad rows go into quarantine; it has not changed: --resend tries again"
        )
    if fold.refused.get(file.name) != file.etag or spec.on_bad_row == "quarantine":
        return None
    return (
        "refused for its rows; it has not changed: correct it, or set on_bad_row: quarantine; "
        "--resend tries again"
    )


def _whole(
    found: Iterable[SourceFile | LeftOutFile], broken: list[LeftOutFile]
) -> Iterator[SourceFile]:
    """Yield the files that are whole; put the others into `broken`."""
    for each in found:
        if isinstance(each, LeftOutFile):
            broken.append(each)
        else:
            yield each


def _taken(found: Iterable[SourceFile], max_files: int, max_records: int) -> tuple[SourceFile, ...]:
    """Return the first files, at least one, that stay within the limits as far as is known."""
    taken: list[SourceFile] = []
    records = 0
    for file in islice(found, max_files):
        records += file.rows or 0
        if taken and records > max_records:
            break
        taken.append(file)
    return tuple(taken)
