"""Canonical JSON: one byte sequence per value, so that a digest is an identity."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FORMAT = 2
"""The format number of every document of a lake, but for the reports of runs."""


def encode(value: Any) -> bytes:
    """Return `value` as UTF-8 JSON with sorted keys and no spaces.

    Raises TypeError for floats, which have no single decimal form, and for keys but strings.
    """
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _refuse_floats(value: Any) -> None:
    match value:
        case float():
            raise TypeError(f"no floats in canonical JSON: {value!r}")
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"no key but a string in canonical JSON: {key!r}")
                _refuse_floats(inner)
        case list() | tuple():
            for inner in value:
                _refuse_floats(inner)
