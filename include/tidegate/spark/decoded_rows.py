"""Typed columns from keys and values. A record that does not fit keeps its row and its bytes.

A format finds the structure of a value. What a leaf of it is, the table of `core.value_texts` says.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.core import schema
from tidegate.core.decoding import UNDECODABLE, Decoding
from tidegate.spark.decoded import fields_of, hidden_name


def decode_rows(rows: DataFrame, decoding: Decoding) -> DataFrame:
    """Return rows with the columns of a decoding, `_undecodable` last.

    That column is null for a record that fits. Else it has the fields that do not, and why. A key
    or a value that is null has nothing to decode. Raises OtherFormat for a format that is not here.
    """
    from tidegate.spark import formats

    given, faults, columns = rows.columns, dict[str, Column](), []
    for column, decoder in decoding.decoders.items():
        parsed = formats.format_of_decoder(decoder).parse(rows, column, decoder)
        rows, fields, fault = fields_of(parsed, column)
        columns += [fields[f.name].alias(decoder.prefix + f.name) for f in decoder.fields]
        is_given = F.col(column).isNotNull()
        faults[hidden_name(column, "fault")] = F.when(
            is_given, F.concat(F.lit(f"{column}: "), fault)
        )
    if len(faults) > 1:
        rows = rows.withColumns(faults)
        both = F.concat_ws("; ", *map(F.col, faults))
        faults = {"": F.when(F.coalesce(*map(F.col, faults)).isNotNull(), both)}
    (text,) = faults.values()
    return rows.select(
        *(schema.quote_name(name) for name in given), *columns, text.alias(UNDECODABLE)
    )
