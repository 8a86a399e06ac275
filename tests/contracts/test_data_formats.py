"""What every format of keys, values and files owes without Spark: `spark/format_protocol.py`.

What it owes with Spark is in `tests/spark/test_every_format.py`.
"""

import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pytest

from tidegate.core.decoding import Decoder
from tidegate.core.schema import SchemaError, parse_columns
from tidegate.errors import OtherFormat
from tidegate.spark import formats
from tidegate.spark.format_protocol import FileFormat, RecordFormat
from tidegate.spark.formats.declared import FileFormatBase, RecordFormatBase

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
FIT = {"json": "id BIGINT, l ARRAY<INT>", "csv": "id BIGINT", "avro": AVRO, "string": "t STRING"}
"""A schema of each format of records."""
UNFIT = {"json": "id INTT", "csv": "l ARRAY<INT>", "avro": "id BIGINT", "string": "id BIGINT"}
OPTION = {
    "parquet": ("datetimeRebaseMode", "CORRECTED"), "json": ("lineSep", "|"),
    "csv": ("lineSep", "|"), "text": ("lineSep", "|"),
}  # fmt: skip
"""An option of each format of files, and a value."""


@pytest.fixture(params=get_args(formats.RecordFormatName))
def records(request: pytest.FixtureRequest) -> RecordFormatBase:
    return formats.format_of_records(request.param)


@pytest.fixture(params=get_args(formats.FileFormatName))
def files(request: pytest.FixtureRequest) -> FileFormatBase:
    return formats.format_of_files(request.param)


def test_the_lists_are_complete() -> None:
    """What a pipeline's file may name is what there is, and each is what the port says."""
    records: list[RecordFormat] = [formats.format_of_records(name) for name in FIT]
    files: list[FileFormat] = [formats.format_of_files(name) for name in OPTION]
    assert get_args(formats.RecordFormatName) == tuple(FIT)
    assert get_args(formats.FileFormatName) == tuple(OPTION)
    assert [each.name for each in files] == [*OPTION]
    for base, found in ((RecordFormatBase, records), (FileFormatBase, files)):
        own = {each for each in base.__subclasses__() if each.__module__.startswith("tidegate.")}
        assert {type(each) for each in found} == own


def test_a_name_that_is_not_known() -> None:
    """Read as another one, rows would be other rows; read as none, their columns were lost."""
    with pytest.raises(OtherFormat, match="decoded as 'protobuf', which only a newer Tidegate"):
        formats.format_of_records("protobuf")
    with pytest.raises(OtherFormat, match="files are 'orc', a format which only a newer Tidegate"):
        formats.format_of_files("orc")


def test_an_option_that_is_not_known(records: RecordFormatBase) -> None:
    decoder = records.decoder(FIT[records.name])
    assert formats.format_of_decoder(decoder).name == records.name
    later = replace(decoder, options={**decoder.options, "quote": "'"})
    with pytest.raises(OtherFormat, match=f"as {records.name} with quote, which only a newer"):
        formats.format_of_decoder(later)


def test_the_lists_load_no_spark() -> None:
    """A pipeline's file is read where PySpark is not installed."""
    code = "import tidegate.spark.formats, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_decoder_knows_its_columns_alone(records: RecordFormatBase) -> None:
    """A plan holds all of it: a retry decodes alike, and readers need no format."""
    decoder = records.decoder(FIT[records.name], "v_")
    assert parse_columns(decoder.schema) == records.fields(FIT[records.name]) == decoder.fields
    assert Decoder.from_json(decoder.to_json()) == decoder
    assert [field.name[:2] for field in decoder.columns] == ["v_"] * len(decoder.fields)


def test_a_schema_that_does_not_fit(records: RecordFormatBase) -> None:
    with pytest.raises(SchemaError):
        records.decoder(UNFIT[records.name])


def test_its_example_is_a_schema(records: RecordFormatBase) -> None:
    if "…" not in records.example:
        records.decoder(records.example)
    if records.default:
        records.decoder(records.default)


def test_options_of_a_reader(files: FileFormatBase) -> None:
    """Few are passed on, whatever the case of their names: others change which rows there are."""
    name, value = OPTION[files.name]
    assert files.complaints_of_options({name: value}) == []
    assert files.complaints_of_options({name.upper(): value}) == []
    twice = files.complaints_of_options({name: value, name.lower(): value})
    assert twice == [f"{name.lower()}: given twice"]
    (unknown,) = files.complaints_of_options({"allowComments": "true"})
    assert unknown.startswith(f"allowcomments: not an option of {files.name} that may be given")
    for refused in ("mode", "ignoreCorruptFiles", "samplingRatio", "pathGlobFilter", "basePath"):
        (found,) = files.complaints_of_options({refused: "x"})
        assert found.startswith(f"{refused.lower()}: refused: ")


@pytest.mark.parametrize(
    ("name", "option", "value", "says"),
    [
        ("json", "lineSep", "", "linesep: empty"),
        ("text", "lineSep", "", "linesep: empty"),
        ("text", "wholetext", "yes", "wholetext: true or false"),
        ("text", "wholetext", " true", "wholetext: true or false"),
        (
            "parquet",
            "datetimeRebaseMode",
            "x",
            "datetimerebasemode: EXCEPTION, CORRECTED or LEGACY",
        ),
        ("parquet", "int96RebaseMode", "legacy", "int96rebasemode: EXCEPTION, CORRECTED or LEGACY"),
        ("csv", "encoding", "iso-8859-99", "encoding: no encoding"),
        ("csv", "header", "yes", "header: true or false"),
    ],
)
def test_a_value_that_spark_would_refuse(name: str, option: str, value: str, says: str) -> None:
    """In each run, and it would blame the files for it."""
    assert formats.format_of_files(name).complaints_of_options({option: value}) == [says]


def test_text_has_no_columns() -> None:
    with pytest.raises(SchemaError, match="the column `value` alone"):
        formats.format_of_files("text").check_columns("a INT")


def test_the_ends_of_lines(files: FileFormatBase) -> None:
    """By the option, else the default; None if a footer knows the rows."""
    assert files.line_ends({}) == {
        "parquet": None, "json": "\r\n", "csv": "\n", "text": "\r\n",
    }[files.name]  # fmt: skip
    assert files.line_ends({"LINESEP": "|"}) == (None if files.name == "parquet" else "|")
    whole = files.line_ends({"wholeText": "True"})
    assert whole == ("" if files.name == "text" else files.line_ends({}))


def test_a_proposal_reads_nothing_that_it_does_not_need(files: FileFormatBase) -> None:
    """Listing and reading wait until a format asks for a line."""

    def lines():
        asked.append(files.name)
        yield b""

    asked: list[str] = []
    assert files.propose_columns(lines()) is None
    assert (asked != []) == (files.name in ("json", "csv"))
