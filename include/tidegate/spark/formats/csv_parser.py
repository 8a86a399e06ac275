"""Records of CSV in keys and values, by Spark."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core import schema
from tidegate.core.decoding import Decoder
from tidegate.spark.decoded import BAD, MARK, Parsed, hidden_name, no_utf8
from tidegate.spark.typed_texts import convert_text

_OPTIONS = {
    "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD, "quote": '"', "escape": '"',
    "nullValue": f"{MARK}null", "emptyValue": "", "multiLine": "true", "maxCharsPerColumn": "-1",
}  # fmt: skip


def parse_csv(rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
    """Decode records of CSV by RFC 4180. A line break at the end, and within quotes, is allowed.

    Others are not parsed: Spark fails on one with thousands of values.
    """
    whole_text, fields = F.col(column).cast("string"), decoder.fields
    # Columns of their own, because each field asks for them: Spark would compute them each time.
    text, has_all, row = (F.col(hidden_name(column, what)) for what in ("text", "complete", "csv"))
    mark = decoder.options.get("separator", ",")
    between = rf"\x{{{ord(mark):x}}}"
    one = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"\r\n{between}]*+)'
    others = f"(?:{between}{one})"
    rows = rows.withColumn(
        hidden_name(column, "text"),
        F.when(whole_text.endswith("\n"), F.regexp_replace(whole_text, r"\r?\n\z", "")).otherwise(
            whole_text
        ),
    )
    rows = rows.withColumn(
        hidden_name(column, "complete"), text.rlike(rf"^{one}{others}{{{len(fields) - 1}}}+\z")
    )
    texts = ", ".join(f"{schema.quote_name(f.name)} STRING" for f in fields)
    options = {**_OPTIONS, "sep": "\\\\" if mark == "\\" else mark}
    # What Spark's reader takes for something else: it drops a mark of byte order at the beginning.
    is_odd = whole_text.contains("\0") | whole_text.contains(MARK) | whole_text.startswith("\ufeff")
    is_whole = has_all & F.is_valid_utf8(whole_text) & ~is_odd
    rows = rows.withColumn(
        hidden_name(column, "csv"),
        F.from_csv(F.when(is_whole, text), f"{texts}, `{BAD}` STRING", options),
    )
    whole = F.coalesce(
        no_utf8(whole_text),
        F.when(is_odd, F.lit("U+0000, U+FDD0 or a first U+FEFF, which Spark's reader changes")),
        F.when(
            ~has_all,
            F.when(
                text.rlike(rf"^{one}{others}*+\z"), F.lit(f"not {len(fields)} values")
            ).otherwise(F.lit("no record of CSV by RFC 4180")),
        ),
    )

    def unfit(values: Mapping[str, Column]) -> list[tuple[str, str, Column]]:
        return [
            (f.name, str(f.type), row.getField(f.name).isNotNull() & values[f.name].isNull())
            for f in fields
        ]

    values = {f.name: convert_text(row.getField(f.name), f.type) for f in fields}
    return Parsed(rows, whole, values, unfit, row.getField(BAD).isNotNull())
