"""Typed columns from keys and values. A record that does not fit keeps its row and its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core import avro, schema
from tidegate.core.decoding import UNDECODABLE, Decoder, Decoding
from tidegate.core.schema import Field, Fields

# Names with a mark that is no character of Unicode's: no column and no key of a record has one.
_BAD = "\ufdd0bad"
_ROOT = "\ufdd0value"
_END = "\ufdd0end"
_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD, "timeZone": "UTC"}
_JSON = {**_PERMISSIVE, "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_CSV = {
    **_PERMISSIVE, "quote": '"', "escape": '"', "nullValue": "\ufdd0null", "emptyValue": "",
    "multiLine": "true", "maxCharsPerColumn": "-1",
}  # fmt: skip
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rf"^(?:[^\\]|\\[^u]|\\u(?![dD][89a-fA-F])|{_PAIR})*+\\u[dD][89a-fA-F]"
_FLOATS = "float", "double"
# Java reads also `1d`, and its words for what is no number.
_NO_NUMBER = r"[^0-9eE.+-]"


class _Parsed(NamedTuple):
    """A key or a value after parsing.

    `value` is a struct of its fields. `whole` is the reason why nothing of it fits, empty text if
    there is nothing to decode, or null. Only where `is_odd` may a field not fit; it is null
    although its text, in the struct `texts`, is not. `inner` says whether a part of a field does
    not fit.
    """

    rows: DataFrame
    value: Column
    whole: Column
    is_odd: Column
    texts: Column | None = None
    inner: Callable[[Field, Column], Column] | None = None


def decoded(rows: DataFrame, decoding: Decoding) -> DataFrame:
    """Return rows with the columns of a decoding, `_undecodable` last.

    That column is null for a record that fits; else it has the fields that do not, and why. A key
    or a value that is null has nothing to decode.
    """
    given, faults = rows.columns, []
    for column, decoder in decoding.decoders.items():
        fault = _hidden(column, "fault")
        parsed = _FORMATS[decoder.format](rows, column, decoder)
        whole = _hidden(column, "whole")
        fields = F.concat_ws(", ", *_faults(decoder.fields, parsed))
        rows = parsed.rows.withColumn(whole, parsed.whole)
        fits = F.col(whole).isNull()
        rows = rows.withColumns(
            {
                **{
                    f"{decoder.prefix}{f.name}": F.when(fits, _finite(f, parsed.value))
                    for f in decoder.fields
                },
                fault: F.coalesce(
                    F.col(whole),
                    F.when(fields != "", fields),
                    F.when(parsed.is_odd, F.lit("it does not fit")),
                    F.lit(""),
                ),
            }
        )
        faults.append(F.when(F.col(fault) != "", F.concat(F.lit(f"{column}: "), F.col(fault))))
    text = F.concat_ws("; ", *faults)
    return rows.select(
        *map(schema.quoted, given),
        *(schema.quoted(f.name) for f in decoding.columns[:-1]),
        F.when(text != "", text).alias(UNDECODABLE),
    )


def _hidden(column: str, what: str) -> str:
    """Return the name of a column that is not in the result."""
    return f"\ufdd0{what} {column}"


def _struct(fields: Fields, kind: str | None = None) -> str:
    """Return fields and the column for a bad record as DDL; with `kind`, all of this type."""
    columns = (f"{schema.quoted(f.name)} {kind or f.type}" for f in fields)
    return ", ".join([*columns, f"`{_BAD}` STRING"])


def _json(rows: DataFrame, column: str, decoder: Decoder) -> _Parsed:
    """Decode JSON objects by the standard.

    Spark's own parser ignores what follows the object, takes the last of two equal keys, and makes
    `?` of half a surrogate pair.
    """
    text, fields = F.col(column).cast("string"), decoder.fields
    inner = ", ".join(f"{schema.quoted(f.name)}: {f.type}" for f in fields)
    root = f"`{_ROOT}` STRUCT<{inner}>, `{_END}` INT, `{_BAD}` STRING"
    wrapped = F.concat(F.lit(f'{{"{_ROOT}":'), text, F.lit(f',"{_END}":0}}'))
    name, texts = _hidden(column, "json"), _hidden(column, "texts")
    row = F.col(name)
    is_odd = row.getField(_BAD).isNotNull()
    rows = rows.withColumn(name, F.from_json(wrapped, root, _JSON))
    rows = rows.withColumn(
        texts, F.when(is_odd, F.from_json(text, _struct(fields, "STRING"), _JSON))
    )
    whole = F.coalesce(
        F.when(text.isNull(), F.lit("")),
        _no_utf8(text),
        F.when(
            F.try_parse_json(text).isNull(),
            F.lit("no JSON, a key that stands twice in an object, or over 16 MiB"),
        ),
        F.when(row.getField(_END).isNull(), F.lit("no JSON, or more than one value")),
        F.when(row.getField(_ROOT).isNull(), F.lit("no JSON object")),
        F.when(
            (text.contains("\\ud") | text.contains("\\uD")) & text.rlike(_HALF),
            F.lit("half a surrogate pair"),
        ),
    )
    return _Parsed(rows, row.getField(_ROOT), whole, is_odd, F.col(texts), _misses_json)


def _misses_json(field: Field, text: Column) -> Column:
    """Return whether a part of an array or a map, whose JSON is `text`, does not fit."""
    wrapped = F.concat(F.lit('{"f":'), text, F.lit("}"))
    alone = F.from_json(wrapped, f"f {field.type}, `{_BAD}` STRING", _JSON)
    return alone.getField(_BAD).isNotNull()


def _csv(rows: DataFrame, column: str, decoder: Decoder) -> _Parsed:
    """Decode records of CSV by RFC 4180; a line break at the end, and within quotes, is allowed."""
    whole_text, fields = F.col(column).cast("string"), decoder.fields
    text = F.regexp_replace(whole_text, r"\r?\n\z", "")  # which makes it valid UTF-8
    mark = decoder.separator or ","
    options = {**_CSV, "sep": mark, "maxColumns": str(len(fields) + 100)}
    name, texts = _hidden(column, "csv"), _hidden(column, "texts")
    row = F.col(name)
    is_odd = row.getField(_BAD).isNotNull()
    as_texts = F.from_csv(text, _struct(fields, "STRING"), options)
    if not any(f.type.name in _FLOATS for f in fields):
        as_texts = F.when(is_odd, as_texts)
    rows = rows.withColumn(name, F.from_csv(text, _struct(fields), options))
    rows = rows.withColumn(texts, as_texts)
    bare = rf'[^"\r\n\x{{{ord(mark):x}}}]*+'
    one = f'(?:"[^"]*+(?:""[^"]*+)*+"|{bare})'
    line = rf"^{one}(?:\x{{{ord(mark):x}}}{one})*+\z"
    whole = F.coalesce(
        F.when(text.isNull(), F.lit("")),
        _no_utf8(whole_text),
        F.when(~text.rlike(line), F.lit("no record of CSV by RFC 4180")),
        F.when(F.col(texts).getField(_BAD).isNotNull(), F.lit(f"not {len(fields)} values")),
    )
    value = F.struct(*(_number(f, row, F.col(texts)).alias(f.name) for f in fields))
    return _Parsed(rows, value, whole, is_odd | _is_no_number(fields, F.col(texts)), F.col(texts))


def _number(field: Field, row: Column, texts: Column) -> Column:
    found = row.getField(field.name)
    return F.when(~_is_no_number((field,), texts), found) if field.type.name in _FLOATS else found


def _is_no_number(fields: Fields, texts: Column) -> Column:
    """Return whether one of the fields that are floats has a text that only Java reads as one."""
    found = (
        F.coalesce(texts.getField(f.name).rlike(_NO_NUMBER), F.lit(False))
        for f in fields
        if f.type.name in _FLOATS
    )
    return reduce(Column.__or__, found, F.lit(False))


def _avro(rows: DataFrame, column: str, decoder: Decoder) -> _Parsed:
    """Decode binary Avro, written with the declared schema.

    Where each record has one encoding, a value that is not exactly that was written with another
    schema.
    """
    from pyspark.sql.avro.functions import from_avro, to_avro

    name = _hidden(column, "avro")
    row = F.col(name)
    # A value that cannot be read is a record of nulls.
    is_null = reduce(Column.__and__, (row.getField(f.name).isNull() for f in decoder.fields))
    wrong = is_null
    if (nulls := avro.all_null(decoder.schema)) is not None:
        wrong = is_null & (F.col(column) != F.lit(nulls))
    if avro.is_unambiguous(decoder.schema):
        wrong |= ~is_null & (F.when(~is_null, to_avro(row, decoder.schema)) != F.col(column))
    rows = rows.withColumn(name, from_avro(F.col(column), decoder.schema, {"mode": "PERMISSIVE"}))
    whole = F.coalesce(
        F.when(F.col(column).isNull(), F.lit("")), F.when(wrong, F.lit("no Avro of this schema"))
    )
    return _Parsed(rows, row, whole, F.lit(False))


def _string(rows: DataFrame, column: str, decoder: Decoder) -> _Parsed:
    """Decode a text in UTF-8."""
    text = F.col(column).cast("string")
    (field,) = decoder.fields
    whole = F.coalesce(F.when(text.isNull(), F.lit("")), _no_utf8(text))
    return _Parsed(rows, F.struct(text.alias(field.name)), whole, F.lit(False))


_FORMATS: Mapping[str, Callable[[DataFrame, str, Decoder], _Parsed]] = {
    "json": _json, "csv": _csv, "avro": _avro, "string": _string,
}  # fmt: skip


def _no_utf8(text: Column) -> Column:
    return F.when(~F.is_valid_utf8(text), F.lit("no UTF-8"))


def _faults(fields: Fields, parsed: _Parsed) -> Iterator[Column]:
    """Yield for each field null, or which field it is and what it is not."""
    for field in fields:
        found = parsed.value.getField(field.name)
        yield from _beyond(field.name, field, found)
        if parsed.texts is not None:
            text = parsed.texts.getField(field.name)
            yield from _unfit(field.name, field, found, text, parsed)


def _unfit(
    path: str, field: Field, found: Column, text: Column, parsed: _Parsed
) -> Iterator[Column]:
    fault = F.lit(f"{path}: no {field.type}")
    yield F.when(parsed.is_odd & found.isNull() & text.isNotNull(), fault)
    if parsed.inner is None:
        return
    if field.type.name == "struct":
        inner = F.from_json(text, _struct(field.type.parts, "STRING"), _JSON)
        for part in field.type.parts:
            yield from _unfit(
                f"{path}.{part.name}", part, found.getField(part.name),
                F.when(parsed.is_odd, inner).getField(part.name), parsed,
            )  # fmt: skip
    elif field.type.parts:
        yield F.when(parsed.is_odd & found.isNotNull() & parsed.inner(field, text), fault)


def _beyond(path: str, field: Field, found: Column) -> Iterator[Column]:
    """Yield a fault for numbers beyond their type, which Spark reads as infinite."""
    fault = F.lit(f"{path}: beyond {field.type}")
    parts = field.type.parts
    match field.type.name:
        case "float" | "double":
            yield F.when(_is_infinite(field, found), fault)
        case "struct":
            for part in parts:
                yield from _beyond(f"{path}.{part.name}", part, found.getField(part.name))
        case "array" | "map" if parts[-1].type.name in _FLOATS:
            each = found if field.type.name == "array" else F.map_values(found)
            ends = (F.lit(end).cast(str(parts[-1].type)) for end in ("Infinity", "-Infinity"))
            low, high = (F.array_contains(each, end) for end in ends)
            yield F.when(low | high, fault)


def _is_infinite(field: Field, found: Column) -> Column:
    return F.abs(found) == F.lit("Infinity").cast(str(field.type))


def _finite(field: Field, value: Column) -> Column:
    """Return a field of a value; null in place of a number that is infinite, or is none."""
    found = value.getField(field.name)
    if field.type.name not in _FLOATS:
        return found
    return F.when(~_is_infinite(field, found) & ~F.isnan(found), found)
