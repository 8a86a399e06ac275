"""Header keys that are not UTF-8: producers in Go and C write what they are given.

kafka-python refuses the whole batch as corrupt, and nothing is: Spark, as every Java consumer,
reads U+FFFD in place of such bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kafka.record import memory_records
from kafka.record.default_records import DefaultRecordBatch

_UNKNOWN = re.compile("\ufffd+")


class NotUtf8(str):
    """A header's key, with U+FFFD for bytes that are not UTF-8."""

    __slots__ = ()


def read_leniently() -> None:
    """Let the consumers of this process read such keys."""
    memory_records.DefaultRecordBatch = _Batch


def are_equal(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether keys are the same; Java and Python differ in how many U+FFFD they write."""
    return [*map(_folded, one)] == [*map(_folded, other)]


def _folded(key: str) -> str:
    return _UNKNOWN.sub("\ufffd", key)


class _Bytes(bytes):
    """The content of a batch, whose slices are decoded without an error."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Bytes(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", _: str = "strict") -> str:
        try:
            return super().decode(encoding)
        except UnicodeDecodeError:
            return NotUtf8(super().decode(encoding, "replace"))


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    _buffer: Any

    def _read_msg(self, *args: Any, **options: Any) -> Any:
        try:
            return super()._read_msg(*args, **options)
        except UnicodeDecodeError:
            self._buffer = _Bytes(self._buffer)
            return super()._read_msg(*args, **options)
