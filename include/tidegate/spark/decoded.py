"""What a format makes of a key or a value, before its columns are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

MARK = "\ufdd0"
"""No character of Unicode's: no column and no key of a record has it."""
BAD = f"{MARK}bad"
"""The column in which Spark's parsers leave a record that they cannot read as a whole."""


class Parsed(NamedTuple):
    """A key or a value after parsing.

    `whole` is the reason why nothing of it fits, or null. `values` are the fields, null where they
    do not fit. `unfit`, which is given these as columns of `rows`, returns for each part its path,
    its type, and whether it does not fit. `is_bad`: Spark has found a fault.
    """

    rows: DataFrame
    whole: Column
    values: Mapping[str, Column]
    unfit: Callable[[Mapping[str, Column]], list[tuple[str, str, Column]]]
    is_bad: Column


def fields_of(parsed: Parsed, column: str) -> tuple[DataFrame, dict[str, Column], Column]:
    """Return the rows, the fields by name, and why some do not fit: null for a record that fits.

    The fields are hidden columns of their own: a reason asks whether the value is null.
    """
    names = {name: hidden_name(column, f"field {n}") for n, name in enumerate(parsed.values)}
    rows = parsed.rows.withColumns({names[n]: value for n, value in parsed.values.items()})
    fields = {name: F.col(each) for name, each in names.items()}
    unfit = parsed.unfit(fields)
    reasons = (F.when(is_unfit, F.lit(f"{path}: no {kind}")) for path, kind, is_unfit in unfit)
    is_any = any_of(is_unfit for *_, is_unfit in unfit)
    reason = F.coalesce(
        parsed.whole,
        F.when(is_any, F.concat_ws(", ", *reasons)),
        F.when(parsed.is_bad, F.lit("it does not fit")),
    )
    return rows, fields, reason


def any_of(conditions: Iterable[Column]) -> Column:
    """Return whether one of many conditions is true, as a tree: Spark visits it by recursion."""
    found = [*conditions] or [F.lit(False)]
    while len(found) > 1:
        pairs = zip_longest(found[::2], found[1::2])
        found = [one if other is None else one | other for one, other in pairs]
    return found[0]


def hidden_name(column: str, what: str) -> str:
    """Return the name of a column that is not in the result."""
    return f"{MARK}{what} {column}"


def no_utf8(text: Column) -> Column:
    """Return the reason for a text that is not UTF-8. Null for others."""
    return F.when(~F.is_valid_utf8(text), F.lit("no UTF-8"))
