"""Print the reference of all settings; docs/settings.md is what it prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.settings.setting import Answer, Place, Setting, describe_values
from tidegate.settings.table import TABLE

INTRODUCTION = """\
# Settings

What Tidegate answers to each setting of Kafka's clients, of Spark's Kafka source and sink, and of \
Spark that matters here. `tidegate settings NAME` shows one of them. This page is generated from \
the table that also judges [pipeline files](configuration.md); all answers are given when the file \
is read, without a broker.

A value comes from the pipeline, else from its Kafka connection, else it is Tidegate's default, \
else that of Spark or Kafka. The page's defaults are in this order: Tidegate's, and in brackets \
that of Spark or Kafka. Empty: Tidegate sets none, and the client's own applies.
"""
HEADINGS = {
    Place.SOURCE: (
        "Options of an ingest pipeline",
        "Keys of `options`: Spark's names, in any letter case. What begins with `kafka.` goes to "
        "the consumer of Spark's Kafka source.",
    ),
    Place.SINK: (
        "Options of an egress target",
        "Keys of `target.options`: Spark's names, in any letter case. What begins with `kafka.` "
        "goes to the producer of Spark's Kafka sink, and may be given without that prefix in "
        "`target.producer`.",
    ),
    Place.SPARK: (
        "Spark settings",
        "Keys of `spark.conf`, in their own letter case. A name that ends in `.*` stands for all "
        "that begin so. Other names that begin with `spark.` pass to Spark as they are, unless "
        "they hold a [secret](configuration.md#pipeline-file).",
    ),
    Place.SENDING: ("Spark settings of an egress", "Keys of `spark.conf`, beside those above."),
    Place.CONNECTION: (
        "Kafka connection",
        "Fields of the connection's `extra`, beside those of "
        "[security](configuration.md#connections).",
    ),
}


def text() -> str:
    """Return the reference in Markdown."""
    return "\n".join([INTRODUCTION, *(line for place in HEADINGS for line in _place(place))])


def _place(place: Place) -> Iterator[str]:
    settings = [each for each in TABLE if each.place is place]
    if not settings:
        return
    heading, says = HEADINGS[place]
    yield from (f"## {heading}", "", says, "")
    for answer, columns in (
        (Answer.ACCEPTED, ("Accepted", "Values", "Default", "Note")),
        (Answer.TRANSLATED, ("Translated", "Read as", "Because")),
        (Answer.WARNED, ("Accepted with a notice", "Notice")),
        (Answer.REFUSED, ("Refused", "Because")),
    ):
        of_answer = [each for each in settings if each.answer is answer]
        if not of_answer:
            continue
        yield f"| {' | '.join(columns)} |"
        yield "|" + "---|" * len(columns)
        yield from (f"| {' | '.join(cells)} |" for cells in _rows(answer, of_answer))
        yield ""


def _rows(answer: Answer, settings: Iterable[Setting]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each accepted setting, and one for all others with the same text."""
    same: dict[tuple[str, ...], list[str]] = {}
    for each in settings:
        reason = each.why + (f"; use {each.use}" if each.use else "")
        match answer:
            case Answer.ACCEPTED:
                yield f"`{each.name}`", describe_values(each.check), _default(each), reason
            case Answer.TRANSLATED:
                same.setdefault((f"`{each.becomes}`", reason), []).append(each.name)
            case _:
                same.setdefault((reason,), []).append(each.name)
    for cells, names in same.items():
        yield ", ".join(f"`{name}`" for name in names), *cells


def _default(setting: Setting) -> str:
    outside = f"({setting.outside})" if setting.outside else ""
    return " ".join(filter(None, [setting.default and f"`{setting.default}`", outside]))


if __name__ == "__main__":
    print(text(), end="")
