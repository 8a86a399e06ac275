"""JSON objects of keys and values, by the standard.

Spark's own parser ignores what follows an object, takes the last of two equal keys, makes `?` of
half a surrogate pair, reads other texts as dates, times and decimals than the table has, and
computes a number that it reads as text. So all of that is looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core.decoding import Decoder
from tidegate.core.schema import Field, Fields, Type, render_ddl
from tidegate.spark.decoded import BAD, MARK, Parsed, any_of, hidden_name, no_utf8
from tidegate.spark.typed_texts import convert_text, within_type

_END, _MARKED_END = "tidegate end", f"{MARK}end"
_OPTIONS = {
    "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD, "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}  # fmt: skip
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rf"^(?:[^\\]|\\[^u]|\\u(?![dD][89a-fA-F])|{_PAIR})*+\\u[dD][89a-fA-F]"
_ESCAPED_MARK = r"^(?:[^\\]|\\[^u]|\\u(?!(?i:fdd0)))*+\\u(?i:fdd0)"
_BLANK_OBJECT = r"^[ \t\r\n]++\{"  # Spark warns of a trim of other characters than blanks
# Spark computes a number that it reads as text: 1.10 becomes 1.1. Quoted, with a mark, it is kept.
_IN_TEXT = r'[^"0-9tf-]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"0-9tf-]*+)*+'
_A_NUMBER = "-?[0-9][0-9.eE+-]*+"
_LITERAL = rf"\G({_IN_TEXT})({_A_NUMBER}|true|false)"
_COMPUTED = r"[:,\[]\s*+(?:-?[0-9]++[.eE]|-0)"
_MARKED = f'"{MARK}([^"]*)"|^{MARK}(.*)$'
# How a text may begin that Spark has computed of a number, or that has one in it.
_BEGINS_SO = r'(?m)^(?:[{\["]|-?[0-9]++[.E]|0$|-?Inf)'
_LONGEST = 24  # bytes of a computed number: -1.2345678901234567E-308
_TEXTS = ("string", "decimal", "binary", "date", "timestamp", "timestamp_ntz")
_CHECKED = (*_TEXTS, "tinyint", "float", "double")
_PLAIN = re.compile("[A-Za-z0-9_ -]+")
_STRING, _SMALLINT = Type("string"), Type("smallint")
Convert = Callable[[Column, Type], Column]
"""Makes a text a value of a type without parts. Null if it does not fit."""


def parse_json(rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
    """Decode JSON objects."""
    text = F.col(column).cast("string")
    # Spark's parsers ignore what follows a value. In an array it is an error, or another element.
    # The mark is for texts that may have the usual end: it makes Java use two bytes a character.
    has_end = text.contains(_END) | text.contains("\\u")
    end = F.when(has_end, F.lit(_MARKED_END)).otherwise(F.lit(_END))
    in_array = F.try_parse_json(F.concat(F.lit("["), text, F.lit(',"'), end, F.lit('"]')))
    is_one = F.try_variant_get(in_array, "$[1]", "string") == end
    escapes = F.when(text.rlike(_HALF), F.lit("half a surrogate pair")).when(
        text.rlike(_ESCAPED_MARK), F.lit("U+FDD0, which is no character")
    )
    begins_as_object = text.startswith("{") | text.rlike(_BLANK_OBJECT)
    whole = F.coalesce(
        no_utf8(text),
        F.when(text.contains(MARK), F.lit("U+FDD0, which is no character")),
        F.when(text.contains("\\u"), escapes),
        F.when(
            ~F.coalesce(is_one, F.lit(False)),
            F.lit("no JSON, more than one value, or a key that occurs twice in an object"),
        ),
        F.when(~begins_as_object, F.lit("no JSON object")),
    )
    return read_fields(rows, column, decoder.fields, whole)


def read_fields(
    rows: DataFrame, column: str, fields: Fields, whole: Column, convert: Convert = convert_text
) -> Parsed:
    """Read the fields of JSON objects. `whole` is the reason why nothing of one fits, or null.

    Whole numbers, floats and booleans are read by Spark; of all else the text, which `convert`
    makes a value, or null. A record in which Spark may have computed a wanted text is read once
    more, `exact`, with all numbers marked.
    """
    text, reason = F.col(column).cast("string"), whole
    names = ("json", "value", "whole", "exact", "texts")
    row, value, whole, exact, texts = (F.col(hidden_name(column, each)) for each in names)
    quotable = _quotable(fields)
    # Columns of their own, because each field asks for them: Spark would compute them each time.
    read = _with_quotes(text, quotable)
    rows = rows.withColumn(hidden_name(column, "json"), _read(read, _as(fields, fast=True)))
    rows = rows.withColumn(hidden_name(column, "whole"), reason)
    is_bad = row.getField(BAD).isNotNull()
    # In another form than the table's, a number may be a time, as 2026.10 by `yyyy.M`.
    may_be = (
        F.lit(True)
        if convert is not convert_text
        else _may_be_computed(text, row, fields, quotable)
    )
    is_odd = whole.isNull() & (is_bad | may_be)
    marked = F.regexp_replace(text, _LITERAL, f'$1"{MARK}$2"')
    rows = rows.withColumns(
        {
            hidden_name(column, "value"): F.when(whole.isNull(), row),
            hidden_name(column, "exact"): F.when(is_odd, _read(marked, _as(fields, fast=False))),
            hidden_name(column, "texts"): F.when(
                whole.isNull() & is_bad, _read(text, _in_texts(fields))
            ),
        }
    )
    has_exact = exact.isNotNull()
    nodes = {
        f.name: _Node(f.type, value.getField(f.name), exact.getField(f.name), convert)
        for f in fields
    }
    bad = value.getField(BAD).isNotNull()

    def unfit(values: Mapping[str, Column]) -> list[tuple[str, str, Column]]:
        found: list[tuple[str, str, Column]] = []
        for name, node in nodes.items():
            found += _unfit(name, node, values[name], texts.getField(name), bad, has_exact)
        return found

    values = {name: _value(node, has_exact) for name, node in nodes.items()}
    return Parsed(rows, whole, values, unfit, bad)


class _Node(NamedTuple):
    """A part of a value, as Spark has read it, and where it is odd in texts with marks."""

    kind: Type
    given: Column
    exact: Column
    convert: Convert

    def parts(self) -> Iterator[tuple[str, _Node]]:
        """Yield the fields of a struct."""
        for name, kind in self.kind.parts:
            yield name, self.part(kind, self.given.getField(name), self.exact.getField(name))

    def part(self, kind: Type, given: Column, exact: Column) -> _Node:
        return _Node(kind, given, exact, self.convert)


def _as(fields: Fields, *, fast: bool) -> Fields:
    """Return fields with the types by which Spark reads them: `fast`, or each leaf as text."""

    def of(kind: Type) -> Type:
        if kind.parts:
            return Type(kind.name, parts=tuple(Field(n, of(t)) for n, t in kind.parts))
        if not fast or kind.name in _TEXTS:
            return _STRING
        return _SMALLINT if kind.name == "tinyint" else kind  # Spark reads 200 as -56

    return tuple(Field(name, of(kind)) for name, kind in fields)


def _in_texts(fields: Fields) -> Fields:
    return tuple(Field(name, _STRING) for name, _ in fields)


def _read(text: Column, fields: Fields) -> Column:
    return F.from_json(text, f"{render_ddl(fields)}, `{BAD}` STRING", _OPTIONS)


def _quotable(fields: Fields) -> list[str]:
    """Return the keys of decimals whose numbers can be put in quotes where they stand.

    Not if a key may be written in another way than by `\\u`, or may be that of something else.
    """
    kinds: dict[str, set[str]] = {}

    def look(of: Fields) -> None:
        for name, kind in of:
            kinds.setdefault(name, set()).add(kind.name)
            look(kind.parts)

    look(fields)
    hides = any("map" in found for found in kinds.values()) or _has_hidden_texts(fields)
    if hides or any('"' in name for name in kinds):
        return []
    return sorted(n for n, found in kinds.items() if found == {"decimal"} and _PLAIN.fullmatch(n))


def _has_hidden_texts(fields: Fields) -> bool:
    """Return whether there are texts, which may hold objects, that no look at the row finds."""
    return any(
        _has_hidden_texts(kind.parts)
        if kind.name == "struct"
        else kind.parts[0].type != _STRING and "string" in _leaves(kind)
        for _, kind in fields
        if kind.parts
    )


def _with_quotes(text: Column, keys: Sequence[str]) -> Column:
    """Return a text in which the numbers behind these keys are texts: Spark computes none."""
    if not keys:
        return text
    return F.regexp_replace(text, rf'("(?:{"|".join(keys)})"\s*+:\s*+)({_A_NUMBER})', '$1"$2"')


def _may_be_computed(text: Column, row: Column, fields: Fields, quotable: Sequence[str]) -> Column:
    """Return whether Spark may have computed a number that is wanted as it was written."""
    found = [text.contains("\\u")] if quotable else list[Column]()  # a key may be written so

    def look(of: Fields, at: Column) -> bool:
        """Note the texts. Return whether there are others that cannot be looked at so."""
        others = False
        for name, kind in of:
            each = at.getField(name)
            match kind.name:
                case "string":
                    # Most texts begin with a letter, or are long: then comparisons are enough.
                    may_be = (each < "J") & (F.octet_length(each) <= _LONGEST)
                    is_number = may_be & each.rlike(_BEGINS_SO)
                    found.append(each.startswith("{") | each.startswith("[") | is_number)
                case "array" if kind.parts[0].type == _STRING:
                    found.append(F.concat_ws("\n", each).rlike(_BEGINS_SO))
                case "struct":
                    others |= look(kind.parts, each)
                case "decimal":
                    others |= name not in quotable
                case _:
                    others |= bool(_leaves(kind) & {"string", "decimal"})
        return others

    if look(fields, row):
        found.append(text.rlike(_COMPUTED))
    if any("binary" in _leaves(kind) for _, kind in fields):
        found = [F.lit(True)]  # a number is no base64, even if its digits are
    return F.coalesce(any_of(found), F.lit(False))


def _leaves(kind: Type) -> set[str]:
    """Return the names of the types without parts in a type."""
    return set().union(*(_leaves(each) for _, each in kind.parts)) if kind.parts else {kind.name}


def _is_checked(kind: Type) -> bool:
    return bool(_leaves(kind) & {*_CHECKED})


def _value(node: _Node, has_exact: Column) -> Column:
    """Return the value of a part. Null where it, or what is in it, does not fit."""
    kind, given, exact, convert = node
    match kind.name:
        case "string" | "decimal":
            return convert(F.when(has_exact, _unmarked(exact)).otherwise(given), kind)
        case "binary":
            return convert(exact, kind)
        case "date" | "timestamp" | "timestamp_ntz":
            return convert(given if convert is convert_text else exact, kind)
        case "tinyint":
            return F.when(given.between(-128, 127), given).cast("TINYINT")
        case "float" | "double":
            return within_type(given, kind)
    if not _is_checked(kind):
        return given
    inner = kind.parts[-1].type
    match kind.name:
        case "struct":
            parts = (_value(part, has_exact).alias(name) for name, part in node.parts())
            made = F.when(given.isNotNull(), F.struct(*parts))
        case "array":
            made = F.transform(
                given, lambda x, i: _value(node.part(inner, x, F.get(exact, i)), has_exact)
            )
        case _:
            # By their places: to look for each key would take the square of their number.
            values = F.transform(
                F.map_values(given),
                lambda x, i: _value(node.part(inner, x, F.get(F.map_values(exact), i)), has_exact),
            )
            made = F.map_from_arrays(F.map_keys(given), values)
    return F.when(has_exact, made).otherwise(given) if _has_texts_only(kind) else made


def _has_texts_only(kind: Type) -> bool:
    """Return whether all that is looked at in a type are texts: given, unless there is an exact."""
    return _leaves(kind) & {*_CHECKED} == {"string"}


def _unmarked(text: Column) -> Column:
    """Return a text without marks; of an object or an array, its numbers as they were written."""
    return F.regexp_replace(text, _MARKED, "$1$2")


def _unfit(
    path: str, node: _Node, value: Column, text: Column, is_bad: Column, has_exact: Column
) -> list[tuple[str, str, Column]]:
    """Return what of a part does not fit. `text` is what it was in a record that `is_bad`."""
    kind, given = node.kind, node.given
    if kind.name == "struct":
        missed = is_bad & text.isNotNull() & given.isNull()
        found = [(path, str(kind), missed)]
        inner = F.when(is_bad & given.isNotNull(), _read(text, _in_texts(kind.parts)))
        for name, part in node.parts():
            of_part = value.getField(name), inner.getField(name)
            found += _unfit(f"{path}.{name}", part, *of_part, is_bad, has_exact)
        return found
    misses = is_bad & F.coalesce(_misses(kind, given, text), F.lit(False))
    if not _is_checked(kind):
        return [(path, str(kind), misses)]
    lost = _loses(node, value)
    if _has_texts_only(kind):
        lost = has_exact & lost
    return [(path, str(kind), misses | lost)]


def _loses(node: _Node, value: Column) -> Column:
    """Return whether something that Spark has read is null in the value."""
    kind, given, exact, _ = node
    if not _is_checked(kind):
        return F.lit(False)
    match kind.name:
        case "struct":
            found = (_loses(part, value.getField(name)) for name, part in node.parts())
            return any_of(found)
        case "array":
            inner = kind.parts[0].type
            lost = F.transform(
                given, lambda x, i: _loses(node.part(inner, x, F.get(exact, i)), F.get(value, i))
            )
        case "map":
            inner = kind.parts[1].type
            of_exact, of_value = F.map_values(exact), F.map_values(value)
            lost = F.transform(
                F.map_values(given),
                lambda x, i: _loses(node.part(inner, x, F.get(of_exact, i)), F.get(of_value, i)),
            )
        case _:
            return given.isNotNull() & value.isNull()
    return F.coalesce(F.array_contains(lost, True), F.lit(False))


def _misses(kind: Type, given: Column, text: Column) -> Column:
    """Return whether something of a text is null in what Spark has read."""
    missed = text.isNotNull() & given.isNull()
    match kind.name:
        case "struct":
            inner = _read(text, _in_texts(kind.parts))
            for name, part in kind.parts:
                missed |= _misses(part, given.getField(name), inner.getField(name))
        case "array":
            element = kind.parts[0].type
            texts = F.from_json(text, "ARRAY<STRING>", _OPTIONS)
            each = F.transform(texts, lambda x, i: _misses(element, F.get(given, i), x))
            missed |= F.coalesce(F.array_contains(each, True), F.lit(False))
        case "map":
            inner_kind = kind.parts[1].type
            texts = F.from_json(text, "MAP<STRING, STRING>", _OPTIONS)
            each = F.map_zip_with(texts, given, lambda _, x, y: _misses(inner_kind, y, x))
            missed |= F.coalesce(F.array_contains(F.map_values(each), True), F.lit(False))
    return missed
