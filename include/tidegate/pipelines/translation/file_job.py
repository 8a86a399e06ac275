"""Jobs that send files to a topic, and the properties of a producer."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.pipelines.translation import passed, start
from tidegate.pipelines.translation.draft import Draft, scalar
from tidegate.pipelines.translation.given import Given
from tidegate.settings.setting import Place
from tidegate.spark import file_reader_options

_FORMATS = ("parquet", "json", "csv", "text")
_EVERY_FILE = "each run sends the files that were not sent before, up to max_files"
_DROPPED = {
    "maxfilespertrigger": _EVERY_FILE,
    "latestfirst": _EVERY_FILE,
    "filenameonly": _EVERY_FILE,
    "maxcachedfiles": _EVERY_FILE,
    "cleansource": "files stay where they are",
    "sourcearchivedir": "files stay where they are",
}


def of_files(draft: Draft, options: Mapping[str, Given], stem: str) -> None:
    """Set the source and the target of an egress."""
    topic = options.get("topic")
    value = draft.text(topic) if topic else None
    draft.name(f"{value}_out" if value else stem)
    _source(draft, options)
    if topic and value:
        draft.set(("target", "topic"), value, topic)
    else:
        draft.missing.append("target.topic: no topic is named: add `target: {topic: NAME}`")
    for name, each in options.items():
        if name in start.CHECKPOINTS:
            draft.need(each, "the stream has sent the files that are named in the directory "
                       "`sources` there, and the pipeline would send them again: narrow "
                       "source.path to later ones")  # fmt: skip
        elif name == "schema":
            _schema(draft, each)
        elif name in ("topic", "path", "format"):
            pass  # answered above
        elif name in file_reader_options.NAMES or name in _DROPPED:
            _reader_option(draft, name, each)
        else:
            passed.pass_on(draft, Place.SINK, name, each)


def _source(draft: Draft, options: Mapping[str, Given]) -> None:
    path, format_ = options.get("path"), options.get("format")
    if path and (value := draft.text(path)):
        draft.set(("source", "path"), value.replace("s3a://", "s3://", 1), path)
        if format_ and format_.value in _FORMATS:
            draft.set(("source", "format"), format_.value, format_)
    if "source" not in draft.form:
        draft.missing.append(
            "source: no files are named: add `source: {path: …, format: parquet}`, or "
            "`source: {lake: NAME}`, to the file"
        )


def _schema(draft: Draft, each: Given) -> None:
    if value := draft.text(each):
        draft.set(("source", "columns"), value, each)
    elif each.value.strip():
        draft.need(each, "without it other columns would be read: give it to source.columns, in "
                   "Spark's DDL")  # fmt: skip


def _reader_option(draft: Draft, name: str, each: Given) -> None:
    """Give an option of the reader to the source; without it, other rows would be sent."""
    if name in _DROPPED or (name == "recursivefilelookup" and each.value == "true"):
        draft.drop(each, _DROPPED.get(name, "files in directories below source.path are sent, too"))
        return
    value = draft.text(each)
    if value is None:
        if each.value != "":
            draft.need(each, "without it other rows would be read: give it to source.options")
        return
    format_ = draft.form.get("source", {}).get("format", "csv")
    if file_reader_options.complaints(format_, {name: value}):
        draft.need(each, file_reader_options.why_refused(format_, name))
    else:
        draft.set(("source", "options", each.name), scalar(value), each)
