"""Which SQL the expressions of a pipeline may use: functions of the values of their own row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.nearest import did_you_mean
from tidegate.spark.spark_versions import error_condition
from tidegate.spark.spark_versions import error_message as message_of

# By the groups of Spark's function registry, so that what a later Spark adds elsewhere (aggregates,
# generators, windows, XML with schema files, anything new) is refused until it is reviewed.
GROUPS = frozenset(
    f"{group}_funcs"
    for group in (
        "array", "bitwise", "collection", "conditional", "conversion", "csv", "datetime", "hash",
        "json", "lambda", "map", "math", "predicate", "string", "struct", "url", "variant",
    )
)  # fmt: skip
# In no allowed group, and harmless.
ALLOWED = frozenset({"aes_decrypt", "assert_true", "raise_error", "try_aes_decrypt", "typeof"})
# In an allowed group, but they make several rows of one, or read other rows.
REFUSED = frozenset({"json_tuple", "schema_of_variant_agg", "session_window", "window",
                     "window_time"})  # fmt: skip

_CATALYST = "org.apache.spark.sql.catalyst"
_PLAIN = f"{_CATALYST}.expressions."
# What the parser leaves unresolved besides functions. Not IDENTIFIER(…), which computes the name of
# a function.
_UNRESOLVED = frozenset(
    f"{_CATALYST}.analysis.Unresolved{name}"
    for name in ("Attribute", "ExtractValue", "Star", "Regex")
)
_OTHER_ROWS = frozenset(
    {"Exists", "InSubquery", "LateralSubquery", "ListQuery", "ScalarSubquery", "WindowExpression",
     "FunctionTableSubqueryArgumentExpression"}
)  # fmt: skip
# Texts of a time that Spark's parser replaces by the clock's.
_OF_THE_CLOCK = re.compile(
    r"\b(?:date|timestamp(?:_ltz|_ntz)?)\s*r?['\"]\s*(?:now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
_LISTED = 50  # columns that a message names

ALL = "*"
"""All columns of a row, in the result of `columns_named`."""


class NotAllowed(Exception):
    """An expression may do more than compute a value of its own row."""


class NotRepeatable(Exception):
    """An expression is not deterministic: a retry could not find out what was sent."""


class NotComputable(Exception):
    """Spark cannot compute an expression of a source's columns."""


def compute_column(source: DataFrame, sql: str, key: str, hidden: Collection[str] = ()) -> Column:
    """Return the column of an expression, which is the value of `key` in the pipeline's file.

    NotComputable, with the columns that are not `hidden`, if Spark cannot compute it.
    """
    try:
        column = F.expr(sql)
        source.select(column)
    except AnalysisException as error:
        # Behind the first line comes Spark's own plan.
        message = " ".join(message_of(error).partition(";\n")[0].split())
        if error_condition(error).startswith("UNRESOLVED_COLUMN"):
            names = [name for name in source.columns if name not in hidden]
            name = (error.getMessageParameters() or {}).get("objectName", sql)
            near = did_you_mean(name.strip("`"), names)
            columns = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
            message = f"there is no column {name}{near} The columns are: {columns}"
            message = message if near else message.replace(" The", "; the", 1)
        raise NotComputable(f"{key}: {message[:1000]}") from error
    return column


def refuse_disallowed(spark: SparkSession, what: str, sql: str) -> None:
    """Raise NotAllowed unless Spark's parser finds only operators and allowed functions in `sql`.

    Raises NotRepeatable for a time like `timestamp'now'`, which the parser takes from the clock.

    Subqueries, table and Java calls, aggregates, windows, generators and functions that are not
    built in are refused by name. What does not parse gets Spark's own error later.
    """
    if found := _OF_THE_CLOCK.search(sql):
        raise _not_repeatable(what, f"{found[0]}…")
    for node in _nodes(spark, sql):
        name = str(node.getClass().getName())
        if name == f"{_CATALYST}.analysis.UnresolvedFunction":
            function = str(node.nameParts().mkString(".")).lower()
            if not is_allowed(spark, function):
                raise NotAllowed(
                    f"{what}: function {function} is not allowed: an expression may only compute a "
                    "value from its own row, the same one each time, and call built-in functions"
                )
        elif name not in _UNRESOLVED and (
            not name.startswith(_PLAIN)
            or "." in name.removeprefix(_PLAIN)
            or name.removeprefix(_PLAIN) in _OTHER_ROWS
        ):
            raise NotAllowed(
                f"{what}: {name.rpartition('.')[2]} is not allowed: subqueries, aggregates and "
                "windows read other rows, and IDENTIFIER hides what is called"
            )


def columns_named(spark: SparkSession, sql: str) -> set[str]:
    """Return the columns that an expression names, in lower case. ALL stands for all of them."""
    names: set[str] = set()
    for node in _nodes(spark, sql):
        kind = str(node.getClass().getName()).rpartition(".")[2]
        # In the body of a lambda, columns are of the second kind, as its own arguments are.
        if kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            names.add(str(node.nameParts().apply(0)).lower())
        elif kind in ("UnresolvedStar", "UnresolvedRegex"):
            names.add(ALL)
    return names


def is_allowed(spark: SparkSession, function: str) -> bool:
    """Return whether a function, by its name as written, may be called."""
    name = function.removeprefix("system.").removeprefix("builtin.")
    if "." in name or name in REFUSED:
        return False
    session: Any = spark._jsparkSession
    found = session.sessionState().catalog().lookupBuiltinOrTempFunction(name)
    if found.isEmpty() or found.get().getSource() != "built-in":
        return False
    return name in ALLOWED or found.get().getGroup() in GROUPS


def refuse_nondeterministic(source: DataFrame, column: Column, what: str) -> None:
    """Raise NotRepeatable if a column depends on chance or on the clock, by Spark's analysis.

    On the clock depends also a constant text like `now` that is cast to a date or a timestamp: one
    rule of Spark's optimiser replaces it, when another one has written casts for `to_date` and the
    like.
    """
    jvm: Any = source.sparkSession.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    clock = catalyst.trees.TreePattern.CURRENT_LIKE()
    one = source.select(column)
    plan = one._jdf.queryExecution().analyzed()
    written = catalyst.optimizer.ReplaceExpressions.apply(plan)
    settled = catalyst.optimizer.SpecialDatetimeValues.apply(written)
    is_fixed = plan.deterministic() and not plan.containsPattern(clock)
    if not is_fixed or not settled.fastEquals(written):
        raise _not_repeatable(what, one.columns[0])


def _not_repeatable(what: str, value: str) -> NotRepeatable:
    return NotRepeatable(
        f"{what}: {value} would be another one each time that it is computed (by chance, or by the "
        "clock): what was sent could not be told from what was not"
    )


def _nodes(spark: SparkSession, sql: str) -> Iterator[Any]:
    """Yield the nodes of an expression's tree. Nothing if it does not parse."""
    session: Any = spark._jsparkSession
    try:
        trees = [session.sessionState().sqlParser().parseExpression(sql)]
    except ParseException:
        return
    for tree in trees:
        yield tree
        children = tree.children()
        trees += (children.apply(n) for n in range(children.size()))
