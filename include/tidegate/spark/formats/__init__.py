"""The formats of keys, values and files, by their names. Only the one that is asked for is loaded.

No Spark is loaded before a format is asked to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tidegate.errors import OtherFormat

if TYPE_CHECKING:
    from tidegate.core.decoding import Decoder
    from tidegate.spark.formats.declared import FileFormatBase, RecordFormatBase

RecordFormatName = Literal["json", "csv", "avro", "string"]
FileFormatName = Literal["parquet", "json", "csv", "text"]
_UPDATE = "which only a newer Tidegate knows: update this installation"


def format_of_decoder(decoder: Decoder) -> RecordFormatBase:
    """Return the format of a plan's decoder. Raises OtherFormat for another name or option."""
    found = format_of_records(decoder.format)
    if unknown := decoder.options.keys() - found.own_options:
        options = ", ".join(sorted(unknown))
        raise OtherFormat(f"records are decoded as {found.name} with {options}, {_UPDATE}")
    return found


def format_of_records(name: str) -> RecordFormatBase:
    """Return the format of keys and values with a name. Raises OtherFormat for another name."""
    match name:
        case "json":
            from tidegate.spark.formats.json_format import JsonRecords

            return JsonRecords()
        case "csv":
            from tidegate.spark.formats.csv_format import CsvRecords

            return CsvRecords()
        case "avro":
            from tidegate.spark.formats.avro_schema import AvroRecords

            return AvroRecords()
        case "string":
            from tidegate.spark.formats.text_format import TextRecords

            return TextRecords()
    raise OtherFormat(f"records are decoded as {name!r}, {_UPDATE}")


def format_of_files(name: str) -> FileFormatBase:
    """Return the format of files with a name. Raises OtherFormat for another name."""
    match name:
        case "parquet":
            from tidegate.spark.formats.parquet_format import ParquetFiles

            return ParquetFiles()
        case "json":
            from tidegate.spark.formats.json_format import JsonFiles

            return JsonFiles()
        case "csv":
            from tidegate.spark.formats.csv_format import CsvFiles

            return CsvFiles()
        case "text":
            from tidegate.spark.formats.text_format import TextFiles

            return TextFiles()
    raise OtherFormat(f"files are {name!r}, a format {_UPDATE}")
