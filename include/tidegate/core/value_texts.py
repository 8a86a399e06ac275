"""The texts that a type accepts: one table for JSON, CSV and each other format that has texts.

A text that is not in the table does not fit. Nothing is guessed, rounded or completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.core.schema import Type


class TextRule(NamedTuple):
    """What a type accepts: a pattern of the whole text, and its description for people.

    The pattern means the same in Java and in Python, and is linear.
    """

    pattern: str
    meaning: str


_INTEGER = r"-?(?:0|[1-9][0-9]*+)"
_NUMBER = rf"{_INTEGER}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_DAY = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)"
_WHOLE = TextRule(_INTEGER, "a whole number of JSON, in the range of the type")
_FRACTION = TextRule(
    _NUMBER, "a number of JSON, not beyond the type: it is the nearest number of the type"
)
RULES: Mapping[str, TextRule] = {
    "boolean": TextRule("true|false", "`true` and `false`"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("float", "double"), _FRACTION),
    "decimal": TextRule(
        _NUMBER,
        "a number of JSON that has no more digits than the type, but for zeros at its end: it is "
        "never rounded. With an exponent: at most 18 digits before and 19 behind the point, and 3 "
        "of the exponent",
    ),
    "date": TextRule(
        _DAY, "`YYYY-MM-DD` of ISO 8601, a day of the calendar in the years 0001 to 9999"
    ),
    "timestamp": TextRule(
        f"{_DAY}[T ]{_TIME}{_ZONE}?",
        "a date, `T` or a blank, `HH:MM`, `HH:MM:SS` or with 1 to 9 digits of a second, of which "
        "the type keeps 6; then `Z`, `+HH:MM`, `+HHMM`, `+HH` (at most 17:59), or nothing for UTC; "
        "in UTC in the years 0001 to 9999",
    ),
    "timestamp_ntz": TextRule(f"{_DAY}[T ]{_TIME}", "the same, without a zone"),
    "binary": TextRule(
        "(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", "base64 of RFC 4648"
    ),
    "string": TextRule("(?s).*", "each text"),
}  # fmt: skip
"""By the names of types that have no parts."""
WITH_EXPONENT = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,19})?[eE][+-]?[0-9]{1,3}"
"""The texts of a DECIMAL that have an exponent."""


def plain_decimal(kind: Type) -> str:
    """Return the pattern of the texts without an exponent that a DECIMAL holds exactly.

    All but zeros is within the first `digits + 3` characters.
    """
    digits, scale = kind.digits or (10, 0)
    before, behind = digits - scale, f"[0-9]{{1,{scale}}}" if scale else ""
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return rf"-?{whole}(?:\.{behind}0*+)?" if scale else rf"-?{whole}(?:\.0++)?"


def table_page() -> str:
    """Return the table of docs/configuration.md."""
    names: dict[TextRule, list[str]] = {}
    for name, rule in RULES.items():
        names.setdefault(rule, []).append(f"`{name.upper()}`")
    rows = (f"| {', '.join(kinds)} | {rule.meaning} |" for rule, kinds in names.items())
    return "\n".join(["| Type | Texts that fit |", "|---|---|", *rows])
