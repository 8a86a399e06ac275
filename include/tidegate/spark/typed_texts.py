"""Texts as values of their type, by the table of `core.value_texts`. Null for all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidegate.core.schema import Type
from tidegate.core.value_texts import RULES, WITH_EXPONENT, plain_decimal

_FIRST, _END = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_INFINITY = "Infinity"
# What `from_csv` is given: one value, in which nothing is special.
_ONE_VALUE = {"sep": "\u0001", "quote": "", "escape": "\u0002", "nullValue": "\uffff"}
_SPECIAL = "[\u0000-\u0002\r\n]"  # in a value of another type than text: it is none
_FORMATS = {
    "date": "dateformat", "timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat",
}  # fmt: skip
OF_TIMES = {*_FORMATS.values(), "timezone", "locale"}
"""Options of a file reader that say how dates and times are written, in small letters."""
_OF_NUMBERS = ("nanvalue", "positiveinf", "negativeinf")
_SCRATCH = "DECIMAL(38,19)"  # holds each mantissa of WITH_EXPONENT


def convert_text(text: Column, kind: Type) -> Column:
    """Return a text as a value of a type without parts. Null if it does not fit.

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
            value = _with_seconds(text).try_cast(str(kind))
        case _:
            value = text.try_cast(str(kind))
    fits = text.rlike(whole_pattern(RULES[kind.name].pattern))
    match kind.name:
        case "float" | "double":
            fits &= _is_within(value, kind)
        case "timestamp":  # a zone moves it by less than a day
            is_inside = ~(text.startswith(_FIRST[:10]) | text.startswith(_END[:10]))
            fits &= is_inside | _is_within(value, kind)
    return F.when(fits, value)


def _with_seconds(time: Column) -> Column:
    """Return a time with seconds: Spark takes a zone behind them only."""
    parts = F.substring(time, 1, 16), F.lit(":00"), F.substring(time, 17, 6)
    return F.when(F.substring(time, 17, 1) == ":", time).otherwise(F.concat(*parts))


def convert_with_options(text: Column, kind: Type, options: Mapping[str, str]) -> Column:
    """Return a text as a value of a type, by those options of a file reader that are given for it.

    `options` are `dateFormat` and its like, in small letters. What they leave open the table says.
    """
    name = kind.name
    special = [options[each] for each in _OF_NUMBERS if each in options]
    if name in ("float", "double") and special:
        return F.when(text.isin(special), _by_spark(text, kind, options)).otherwise(
            convert_text(text, kind)
        )
    if name == "decimal" and "locale" in options:
        return convert_text(_without_groups(text, options["locale"]), kind)
    if _FORMATS.get(name) in options:
        return within_type(_by_spark(text, kind, options), kind)
    if name == "timestamp" and "timezone" in options:
        fits = text.rlike(whole_pattern(RULES[name].pattern))
        return within_type(_by_spark(F.when(fits, _with_seconds(text)), kind, options), kind)
    return convert_text(text, kind)


def _by_spark(text: Column, kind: Type, options: Mapping[str, str]) -> Column:
    given = {k: v for k, v in options.items() if k in OF_TIMES or k in _OF_NUMBERS}
    one = F.when(~text.rlike(_SPECIAL) & (text != ""), text)
    return F.from_csv(one, f"v {kind}", {**given, **_ONE_VALUE}).getField("v")


def _without_groups(text: Column, locale: str) -> Column:
    """Return a number of a language as that of JSON. Null if its groups are not of three digits.

    Spark's own reader ignores where they are: in German, 12.50 would be 1250.
    """
    java: Any = SparkSession.active()._jvm
    symbols = java.java.text.DecimalFormatSymbols(java.java.util.Locale.forLanguageTag(locale))
    group, point = symbols.getGroupingSeparator(), symbols.getDecimalSeparator()
    a_group, a_point = (rf"\x{{{ord(each):x}}}" for each in (group, point))
    fits = text.rlike(
        whole_pattern(rf"-?(?:[0-9]++|[0-9]{{1,3}}(?:{a_group}[0-9]{{3}})++)(?:{a_point}[0-9]++)?")
    )
    return F.when(fits, F.translate(text, point + group, "."))


def within_type(value: Column, kind: Type) -> Column:
    """Return a value. Null for a time that others cannot read, and a number that is infinite.

    Many readers have no year before 1 or after 9999.
    """
    return F.when(_is_within(value, kind), value)


def _is_within(value: Column, kind: Type) -> Column:
    match kind.name:
        case "float" | "double":
            return F.abs(value) < F.lit(_INFINITY).cast(str(kind))
        case "date" | "timestamp" | "timestamp_ntz":
            first, end = (F.lit(each).cast(str(kind)) for each in (_FIRST, _END))
            return value.between(first, end)
    return F.lit(True)


def whole_pattern(pattern: str) -> str:
    r"""Return a pattern of Java for the whole text: `$` would allow a line break behind it."""
    return rf"\A(?:{pattern})\z"


def _decimal(text: Column, kind: Type) -> Column:
    digits, _ = kind.digits or (10, 0)
    # A long text of zeros would be slow to convert.
    plain = F.substring(text, 1, digits + 3).try_cast(str(kind))
    fits = text.rlike(whole_pattern(plain_decimal(kind)))
    return F.when(fits, plain).when(text.rlike(whole_pattern(WITH_EXPONENT)), _exact(text, kind))


def _exact(text: Column, kind: Type) -> Column:
    """Return a number with an exponent. Null if its type does not hold all of its digits.

    Divided by the power of ten again, the value is the mantissa.
    """
    found = text.try_cast(str(kind))
    mantissa = F.regexp_extract(text, "^[^eE]+", 0).try_cast(_SCRATCH)
    power = F.regexp_extract(text, "[0-9]+$", 0)
    back = F.when(text.rlike("[eE]-"), F.lit("e")).otherwise(F.lit("e-"))
    again = F.concat(found.cast("string"), back, power).try_cast(_SCRATCH)
    return F.when(mantissa == 0, F.lit(0).cast(str(kind))).when(again == mantissa, found)
