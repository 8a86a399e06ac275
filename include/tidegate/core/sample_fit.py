"""What of sampled JSON values does not fit declared columns, and the columns that would.

A preview for people: what a run decodes is decided by Spark (`tidegate.spark.decoding`).
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidegate.core import sampled_columns
from tidegate.core.schema import Field, Fields, Type, widest

_LARGEST = Decimal(sys.float_info.max)
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def reasons(values: Iterable[bytes], fields: Fields) -> Counter[str]:
    """Count why values do not fit, in the words of `_undecodable`; a value may have several."""
    found: Counter[str] = Counter()
    for value in values:
        try:
            form = json.loads(value, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError):
            found["no JSON"] += 1
            continue
        if not isinstance(form, dict):
            found["no JSON object"] += 1
            continue
        found.update(
            f"{field.name}: no {field.type}"
            for field in fields
            if not _fits(field.type, form.get(field.name))
        )
    return found


def extended(values: Iterable[bytes], fields: Fields) -> Fields:
    """Return declared columns, wider where sampled values need it, and those that they lack."""
    values = list(values)
    sampled = {field.name.lower(): field for field in sampled_columns.of_objects(values)}
    unfit, found = reasons(values, fields), []
    for field in fields:
        seen, kind = sampled.pop(field.name.lower(), None), field.type
        if seen and f"{field.name}: no {kind}" in unfit:
            kind = widest(kind, seen.type)
        found.append(Field(field.name, kind))
    return (*found, *sampled.values())


def _fits(kind: Type, value: Any) -> bool:
    if value is None or kind.name == "string":
        return True
    match kind.name:
        case "boolean":
            return isinstance(value, bool)
        case "tinyint" | "smallint" | "int" | "bigint":
            limit = 1 << (_BITS[kind.name] - 1)
            return type(value) is int and -limit <= value < limit
        case "float" | "double":
            return type(value) in (int, Decimal) and abs(value) <= _LARGEST
        case "decimal":
            return _is_decimal(kind, value)
        case "array":
            inner = kind.parts[0].type
            return isinstance(value, list) and all(_fits(inner, each) for each in value)
        case "map":
            inner = kind.parts[1].type
            return isinstance(value, dict) and all(_fits(inner, each) for each in value.values())
        case "struct":
            return isinstance(value, dict) and all(
                _fits(part.type, value.get(part.name)) for part in kind.parts
            )
    return _is_of_text(kind.name, value)


def _is_decimal(kind: Type, value: Any) -> bool:
    digits, scale = kind.digits or (10, 0)
    try:
        number = Decimal(value) if isinstance(value, int | str | Decimal) else None
    except ArithmeticError:
        return False
    return (
        number is not None
        and not isinstance(value, bool)
        and number.is_finite()
        and abs(number) < Decimal(10) ** (digits - scale)
    )


def _is_of_text(kind: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        match kind:
            case "binary":
                base64.b64decode(value, validate=True)
            case "date":
                date.fromisoformat(value[:10])
            case _:
                datetime.fromisoformat(value)
    except (ValueError, binascii.Error):
        return False
    return True
