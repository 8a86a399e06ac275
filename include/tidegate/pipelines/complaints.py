"""Messages about a pipeline file, key by key, without values that may be secret."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

# Keys whose values may be or contain secrets.
_UNQUOTED = {"conf", "producer", "options"}
_EXPECTS_MAPPING = {"model_type", "model_attributes_type", "dict_type"}
_LONGEST = 100


def complaint(error: Any, known_keys: Mapping[str, list[str]]) -> str:
    """Return one of pydantic's errors as a line that begins with the key.

    `known_keys` maps the path of each mapping to the keys that it may have.
    """
    path = [str(p) for p in error["loc"] if p not in ("Word", "At", "[key]")]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        keys = known_keys.get(".".join(path[:-1]), [])
        near = difflib.get_close_matches(path[-1], keys, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(keys)}"
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
    return ": ".join(filter(None, [key, quoted(error["input"]), message]))


def quoted(value: Any) -> str:
    """Return a value as text, shortened; nothing for a collection, unless it is empty."""
    if isinstance(value, dict | list | tuple | set | bytes) and value:
        return ""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
