"""Regular expressions of users, matched in linear time: by the engine of pydantic, Rust's."""

from __future__ import annotations

from functools import cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@cache
def _compiled(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=f"^(?:{pattern})$"))
    except SchemaError as error:
        raise ValueError(
            f"{' '.join(str(error).split())}; it is matched in linear time: without look-around, "
            "back references and \\Z, and with + in place of large bounds such as {1,249}"
        ) from error


def fullmatch(pattern: str, text: str) -> bool:
    """Return whether a whole text matches; ValueError for what is no such pattern."""
    return _compiled(pattern).isinstance_python(text)
