"""Typed columns from keys and values. A record that does not fit keeps its row and its bytes.

A format finds the structure of a value. What a leaf of it is, the table of `core.value_texts` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core import schema
from tidegate.core.decoding import UNDECODABLE, Decoder, Decoding
from tidegate.spark import decoded_avro, decoded_json
from tidegate.spark.decoded import BAD, MARK, Parsed, fields_of, hidden, no_utf8
from tidegate.spark.typed_texts import typed

_CSV = {
    "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD, "quote": '"', "escape": '"',
    "nullValue": f"{MARK}null", "emptyValue": "", "multiLine": "true", "maxCharsPerColumn": "-1",
}  # fmt: skip


def decoded(rows: DataFrame, decoding: Decoding) -> DataFrame:
    """Return rows with the columns of a decoding, `_undecodable` last.

    That column is null for a record that fits; else it has the fields that do not, and why. A key
    or a value that is null has nothing to decode.
    """
    given, faults, columns = rows.columns, dict[str, Column](), []
    for column, decoder in decoding.decoders.items():
        parsed = _FORMATS[decoder.format](rows, column, decoder)
        rows, fields, fault = fields_of(parsed, column)
        columns += [fields[f.name].alias(decoder.prefix + f.name) for f in decoder.fields]
        is_given = F.col(column).isNotNull()
        faults[hidden(column, "fault")] = F.when(is_given, F.concat(F.lit(f"{column}: "), fault))
    if len(faults) > 1:
        rows = rows.withColumns(faults)
        both = F.concat_ws("; ", *map(F.col, faults))
        faults = {"": F.when(F.coalesce(*map(F.col, faults)).isNotNull(), both)}
    (text,) = faults.values()
    return rows.select(*(schema.quoted(name) for name in given), *columns, text.alias(UNDECODABLE))


def _csv(rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
    """Decode records of CSV by RFC 4180; a line break at the end, and within quotes, is allowed.

    Others are not parsed: Spark fails on one with thousands of values.
    """
    whole_text, fields = F.col(column).cast("string"), decoder.fields
    # Columns of their own, because each field asks for them: Spark would compute them each time.
    text, has_all, row = (F.col(hidden(column, what)) for what in ("text", "complete", "csv"))
    mark = decoder.separator or ","
    between = rf"\x{{{ord(mark):x}}}"
    one = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"\r\n{between}]*+)'
    others = f"(?:{between}{one})"
    rows = rows.withColumn(
        hidden(column, "text"),
        F.regexp_replace(whole_text, r"\r?\n\z", ""),  # which makes it valid UTF-8
    )
    rows = rows.withColumn(
        hidden(column, "complete"), text.rlike(rf"^{one}{others}{{{len(fields) - 1}}}+\z")
    )
    texts = ", ".join(f"{schema.quoted(f.name)} STRING" for f in fields)
    options = {**_CSV, "sep": "\\\\" if mark == "\\" else mark}
    is_odd = whole_text.contains("\0") | whole_text.contains(MARK)
    is_whole = has_all & F.is_valid_utf8(whole_text) & ~is_odd
    rows = rows.withColumn(
        hidden(column, "csv"),
        F.from_csv(F.when(is_whole, text), f"{texts}, `{BAD}` STRING", options),
    )
    whole = F.coalesce(
        no_utf8(whole_text),
        F.when(is_odd, F.lit("U+0000 or U+FDD0, which Spark's reader takes for something else")),
        F.when(~text.rlike(rf"^{one}{others}*+\z"), F.lit("no record of CSV by RFC 4180")),
        F.when(~has_all, F.lit(f"not {len(fields)} values")),
    )

    def unfit(values: Mapping[str, Column]) -> list[tuple[str, str, Column]]:
        return [
            (f.name, str(f.type), row.getField(f.name).isNotNull() & values[f.name].isNull())
            for f in fields
        ]

    values = {f.name: typed(row.getField(f.name), f.type) for f in fields}
    return Parsed(rows, whole, values, unfit, row.getField(BAD).isNotNull())


def _string(rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
    """Decode a text in UTF-8."""
    text = F.col(column).cast("string")
    (field,) = decoder.fields
    value = F.when(F.is_valid_utf8(text), text)
    return Parsed(rows, no_utf8(text), {field.name: value}, lambda _: [], F.lit(False))


_FORMATS: Mapping[str, Callable[[DataFrame, str, Decoder], Parsed]] = {
    "json": decoded_json.parse, "csv": _csv, "avro": decoded_avro.parse, "string": _string,
}  # fmt: skip
