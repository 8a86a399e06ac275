"""JSON objects of the lake: read as a whole, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tidegate.core import canonical
from tidegate.core.canonical import FORMAT
from tidegate.core.json_codec import MALFORMED
from tidegate.errors import LakeDamaged, OtherFormat
from tidegate.lake.store_protocol import Store

T = TypeVar("T")


def read_document(
    store: Store, path: str, read_form: Callable[[Any], T], *, number: int = FORMAT
) -> T | None:
    """Return what an object says, or None if it does not exist.

    LakeDamaged if it cannot be read, OtherFormat if its format is not `number`.
    """
    data = store.get(path)
    return None if data is None else _read(data, store.uri(path), read_form, number)


def read_same(store: Store, path: str, sha256: str, read_form: Callable[[Any], T]) -> T:
    """Return what an object says. LakeDamaged if it is missing, or has another digest."""
    data, uri = store.get(path), store.uri(path)
    if data is None or canonical.digest(data) != sha256:
        state = "is missing" if data is None else "was changed"
        raise LakeDamaged(f"{uri} {state}; restore it from a copy")
    return _read(data, uri, read_form, FORMAT)


def _read(data: bytes, uri: str, read_form: Callable[[Any], T], number: int) -> T:
    try:
        return read_form(load_json(data, uri, number))
    except MALFORMED as error:
        raise LakeDamaged(f"{uri} cannot be read: {error!r}; restore it from a copy") from None


def load_json(data: bytes, uri: str, number: int = FORMAT) -> Any:
    """Return the JSON of a document. OtherFormat if its format is not `number`.

    Raises one of MALFORMED for bytes that are no JSON, and for a document without a format.
    """
    form = json.loads(data)
    found = form["format"]
    if type(found) is not int:
        raise ValueError(f"format: {found!r}")
    if found < number:
        raise OtherFormat(
            f"{uri} was written by an older Tidegate (format {found}; this version reads {number}),"
            " which was never released: begin a new lake, and read the topics again"
        )
    if found > number:
        raise too_new(uri, f"format {found}; this version reads {number}")
    return form


def too_new(uri: str, what: str) -> OtherFormat:
    """Return the error for a document that has what only a newer release knows."""
    return OtherFormat(f"{uri} was written by a newer Tidegate ({what}): update this installation")
