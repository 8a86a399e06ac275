"""Typed columns from keys and values. A record that does not fit keeps its row and its bytes."""

from __future__ import annotations

import json
import re
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
_TIMES = "timestamp", "timestamp_ntz"
_RECHECKED = (*_FLOATS, *_TIMES, "struct")
_ONLY_DIGITS = r"^-?[0-9.]+(?:[eE][+-]?[0-9]+)?$"
# Java reads also `1d`, and its words for what is no number.
_NO_NUMBER = r"[^0-9eE.+-]"


class _Parsed(NamedTuple):
    """A key or a value after parsing.

    `value` is a struct of its fields. `whole` is the reason why nothing of it fits, empty text if
    there is nothing to decode, or null. Only where `is_odd` may a field not fit; it is null
    although its text, in the struct `texts`, is not. `is_bad` says that Spark has found a fault;
    `inner` returns whether a part of a field does not fit.
    """

    rows: DataFrame
    value: Column
    whole: Column
    is_odd: Column
    texts: Column | None = None
    inner: Callable[[Field, Column], Column] | None = None
    is_bad: Column | None = None


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
                    f"{decoder.prefix}{f.name}": F.when(
                        fits,
                        _taken(
                            f,
                            parsed.value.getField(f.name),
                            None if parsed.texts is None else parsed.texts.getField(f.name),
                            parsed,
                        ),
                    )
                    for f in decoder.fields
                },
                fault: F.coalesce(
                    F.col(whole),
                    F.when(fields != "", fields),
                    F.lit("")
                    if parsed.is_bad is None
                    else F.when(parsed.is_bad, F.lit("it does not fit")),
                    F.lit(""),
                ),
            }
        )
        faults.append(F.when(F.col(fault) != "", F.concat(F.lit(f"{column}: "), F.col(fault))))
    text = F.concat_ws("; ", *faults)
    kept = {name: F.when(text != "", F.col(name)).alias(name) for name in decoding.dropped}
    return rows.select(
        *(kept.get(name, F.col(schema.quoted(name))) for name in given),
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
    has_escapes, is_odd = F.col(_hidden(column, "escapes")), F.col(_hidden(column, "odd"))
    row = F.col(name)
    is_bad = row.getField(_BAD).isNotNull()
    # Columns of their own, because each field asks for them: Spark would compute them each time.
    rows = rows.withColumns(
        {
            _hidden(column, "escapes"): text.contains("\\u"),
            name: F.from_json(wrapped, root, _JSON),
        }
    )
    rows = rows.withColumn(
        _hidden(column, "odd"), is_bad | _may_have_seconds(text, fields, has_escapes)
    )
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
        F.when(has_escapes & text.rlike(_HALF), F.lit("half a surrogate pair")),
    )
    value = row.getField(_ROOT)
    return _Parsed(rows, value, whole, is_odd, F.col(texts), _misses_json, is_bad)


def _may_have_seconds(text: Column, fields: Fields, has_escapes: Column) -> Column:
    """Return whether a time may be a number: Spark takes seconds, of which some overflow, and most
    producers mean milliseconds. Keys within an array or a map are not looked at.
    """

    def times(of: Fields) -> Iterator[str]:
        for name, kind in of:
            if kind.name in _TIMES:
                yield re.escape(json.dumps(name, ensure_ascii=False))
            elif kind.name == "struct":
                yield from times(kind.parts)

    # One pattern for each key: Java searches for one that begins with a text by leaps.
    found = [text.rlike(rf"{name}\s*:\s*[-0-9]") for name in sorted(set(times(fields)))]
    # A key may also be written with escapes.
    return reduce(Column.__or__, found, has_escapes) if found else F.lit(False)


def _misses_json(field: Field, text: Column) -> Column:
    """Return whether a part of an array or a map, whose JSON is `text`, does not fit."""
    wrapped = F.concat(F.lit('{"f":'), text, F.lit("}"))
    alone = F.from_json(wrapped, f"f {field.type}, `{_BAD}` STRING", _JSON)
    return alone.getField(_BAD).isNotNull()


def _csv(rows: DataFrame, column: str, decoder: Decoder) -> _Parsed:
    """Decode records of CSV by RFC 4180; a line break at the end, and within quotes, is allowed.

    Others are not parsed: Spark fails on one with thousands of values.
    """
    whole_text, fields = F.col(column).cast("string"), decoder.fields
    # Columns of their own, as of JSON.
    text, has_all, is_odd = (F.col(_hidden(column, what)) for what in ("text", "complete", "odd"))
    mark = decoder.separator or ","
    between = rf"\x{{{ord(mark):x}}}"
    one = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"\r\n{between}]*+)'
    others = f"(?:{between}{one})"
    rows = rows.withColumn(
        _hidden(column, "text"),
        F.regexp_replace(whole_text, r"\r?\n\z", ""),  # which makes it valid UTF-8
    )
    rows = rows.withColumn(
        _hidden(column, "complete"), text.rlike(rf"^{one}{others}{{{len(fields) - 1}}}\z")
    )
    options = {**_CSV, "sep": mark}
    name, texts = _hidden(column, "csv"), _hidden(column, "texts")
    row = F.col(name)
    is_bad = row.getField(_BAD).isNotNull()
    record = F.when(has_all, text)
    as_texts = F.from_csv(record, _struct(fields, "STRING"), options)
    if not any(f.type.name in _FLOATS for f in fields):
        as_texts = F.when(is_bad, as_texts)
    rows = rows.withColumn(name, F.from_csv(record, _struct(fields), options))
    rows = rows.withColumn(texts, as_texts)
    rows = rows.withColumn(_hidden(column, "odd"), is_bad | _is_no_number(fields, F.col(texts)))
    whole = F.coalesce(
        F.when(text.isNull(), F.lit("")),
        _no_utf8(whole_text),
        F.when(~text.rlike(rf"^{one}{others}*+\z"), F.lit("no record of CSV by RFC 4180")),
        F.when(~has_all, F.lit(f"not {len(fields)} values")),
    )
    value = F.struct(*(_number(f, row, F.col(texts)).alias(f.name) for f in fields))
    return _Parsed(rows, value, whole, is_odd, F.col(texts), is_bad=is_bad)


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
    wrong = found.isNull()
    if field.type.name in _TIMES:
        wrong |= text.rlike(_ONLY_DIGITS)
    yield F.when(parsed.is_odd & text.isNotNull() & wrong, fault)
    if parsed.inner is None:
        return
    if field.type.name == "struct":
        inner = _texts_within(field, text, parsed)
        for part in field.type.parts:
            yield from _unfit(
                f"{path}.{part.name}", part, found.getField(part.name),
                inner.getField(part.name), parsed,
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


def _taken(field: Field, found: Column, text: Column | None, parsed: _Parsed) -> Column:
    """Return a field; null in place of a number that is infinite, or is none, and of a time that is
    a number, also within structs.
    """
    name, parts = field.type.name, field.type.parts
    if name in _FLOATS:
        return F.when(~_is_infinite(field, found) & ~F.isnan(found), found)
    if name in _TIMES and text is not None:
        is_number = F.coalesce(parsed.is_odd & text.rlike(_ONLY_DIGITS), F.lit(False))
        return F.when(~is_number, found)
    if name == "struct" and any(part.type.name in _RECHECKED for part in parts):
        inner = None if text is None else _texts_within(field, text, parsed)
        taken = (
            _taken(
                part, found.getField(part.name),
                None if inner is None else inner.getField(part.name), parsed,
            ).alias(part.name)
            for part in parts
        )  # fmt: skip
        return F.when(found.isNotNull(), F.struct(*taken))
    return found


def _texts_within(field: Field, text: Column, parsed: _Parsed) -> Column:
    """Return the parts of a struct, whose JSON is `text`, as texts, where they may not fit."""
    return F.when(parsed.is_odd, F.from_json(text, _struct(field.type.parts, "STRING"), _JSON))
