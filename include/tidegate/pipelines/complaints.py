"""What is wrong with a pipeline file, key by key, without a value that may be secret."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

# Their values may be secret, or hold one.
_UNQUOTED = {"conf", "producer", "options"}
_EXPECTS_MAPPING = {"model_type", "model_attributes_type", "dict_type"}
_LONGEST = 100


def complaint(error: Any, known_keys: Mapping[str, list[str]]) -> str:
    """Return one of pydantic's errors as a line that begins with the key."""
    path = [str(p) for p in error["loc"] if p not in ("Word", "At", "[key]")]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        known = known_keys.get(".".join(path[:-1]), [])
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
        return f"{key}: unknown key{hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    if key == "kind":
        message = "ingest (topics into the lake) or egress (files into topics)"
    if not key:
        return str(message)
    if _UNQUOTED & set(path) or error["type"] in _EXPECTS_MAPPING:
        return f"{key}: {message}"
    said = quoted(error["input"])
    return f"{key}: {said}: {message}" if said else f"{key}: {message}"


def quoted(value: Any) -> str:
    """Return a value as it is shown, shortened; nothing for one that holds others, unless empty."""
    if isinstance(value, dict | list | tuple | set | bytes) and value:
        return ""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
