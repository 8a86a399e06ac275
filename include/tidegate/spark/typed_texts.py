"""Texts as values of their type, by the table of `core.value_texts`; null for all others."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.core.schema import Type
from tidegate.core.value_texts import RULES, WITH_EXPONENT, plain_decimal

_FIRST, _END = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_INFINITY = "Infinity"
_SCRATCH = "DECIMAL(38,19)"  # holds each mantissa of WITH_EXPONENT


def typed(text: Column, kind: Type) -> Column:
    """Return a text as a value of a type without parts; null if it does not fit.

    The session's zone is UTC.
    """
    match kind.name:
        case "string":
            return text
        case "decimal":
            return _decimal(text, kind)
        case "binary":
            value = F.unbase64(text)
        case "date":
            value = text.try_cast("DATE")
        case "timestamp" | "timestamp_ntz":
            # Spark takes a zone behind seconds only.
            has_seconds = F.substring(text, 17, 1) == ":"
            parts = F.substring(text, 1, 16), F.lit(":00"), F.substring(text, 17, 6)
            value = F.when(has_seconds, text).otherwise(F.concat(*parts)).try_cast(str(kind))
        case _:
            value = text.try_cast(str(kind))
    fits = text.rlike(whole(RULES[kind.name].pattern))
    return within_type(F.when(fits, value), kind)


def within_type(value: Column, kind: Type) -> Column:
    """Return a value; null for a time that others cannot read, and a number that is infinite.

    Many readers have no year before 1 or after 9999.
    """
    match kind.name:
        case "float" | "double":
            return F.when(F.abs(value) < F.lit(_INFINITY).cast(str(kind)), value)
        case "date" | "timestamp" | "timestamp_ntz":
            first, end = (F.lit(each).cast(str(kind)) for each in (_FIRST, _END))
            return F.when(value.between(first, end), value)
    return value


def whole(pattern: str) -> str:
    r"""Return a pattern of Java for the whole text: `$` would allow a line break behind it."""
    return rf"\A(?:{pattern})\z"


def _decimal(text: Column, kind: Type) -> Column:
    digits, _ = kind.digits or (10, 0)
    # A long text of zeros would be slow to convert.
    plain = F.substring(text, 1, digits + 3).try_cast(str(kind))
    fits = text.rlike(whole(plain_decimal(kind)))
    return F.when(fits, plain).when(text.rlike(whole(WITH_EXPONENT)), _exact(text, kind))


def _exact(text: Column, kind: Type) -> Column:
    """Return a number with an exponent; null if its type does not hold all of its digits.

    Divided by the power of ten again, the value is the mantissa.
    """
    found = text.try_cast(str(kind))
    mantissa = F.regexp_extract(text, "^[^eE]+", 0).try_cast(_SCRATCH)
    power = F.regexp_extract(text, "[0-9]+$", 0)
    back = F.when(text.rlike("[eE]-"), F.lit("e")).otherwise(F.lit("e-"))
    again = F.concat(found.cast("string"), back, power).try_cast(_SCRATCH)
    return F.when(mantissa == 0, F.lit(0).cast(str(kind))).when(again == mantissa, found)
