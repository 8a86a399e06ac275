"""JSON objects of the lake: read as a whole, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tidegate.core.json_codec import MALFORMED
from tidegate.errors import FormatTooNew, LakeDamaged
from tidegate.lake.store import Store

FORMAT = 1
"""The highest format number that this version can read, of every kind of document."""
T = TypeVar("T")


def read(store: Store, path: str, read_form: Callable[[Any], T]) -> T | None:
    """Return what an object says; None where there is none.

    LakeDamaged if it makes no sense, FormatTooNew if a newer release must read it.
    """
    data = store.get(path)
    if data is None:
        return None
    uri = store.uri(path)
    try:
        return read_form(loads(data, uri))
    except MALFORMED as error:
        raise LakeDamaged(f"{uri} cannot be read: {error!r}; restore it from a copy") from None


def loads(data: bytes, uri: str) -> Any:
    """Return the JSON of a document; FormatTooNew if its format number is above FORMAT.

    Raises one of MALFORMED for bytes that are no JSON.
    """
    form = json.loads(data)
    number = form.get("format") if isinstance(form, dict) else None
    if type(number) is int and number > FORMAT:
        raise too_new(uri, f"format {number}; this version reads {FORMAT}")
    return form


def too_new(uri: str, what: str) -> FormatTooNew:
    """Return the error for a document that has what only a newer release knows."""
    return FormatTooNew(f"{uri} was written by a newer Tidegate ({what}): update this installation")
