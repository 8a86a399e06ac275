"""The settings that values depend on, in each application."""

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings
from tidegate.spark import session

ROWS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": "2147483647",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variant.allowDuplicateKeys": "false",
}


class JavaIterator:
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def hasNext(self) -> bool:
        return bool(self.names)

    def next(self) -> str:
        return self.names.pop()


UNSET = {"spark.sql.files.maxPartitionNum": "1", "spark.sql.parser.escapedStringLiterals": "true"}


def test_what_changes_rows_is_set_and_refused() -> None:
    """A retry must make the same records of the same rows, and options are not in the plan."""
    made = dict.fromkeys([*ROWS, *UNSET], "of the cluster")
    for hadoop in [name for name in made if name.startswith("spark.hadoop.")]:
        made[hadoop.removeprefix("spark.hadoop.")] = made.pop(hadoop)
    old = {"spark.sql.legacy.setopsPrecedence.enabled": "true"}
    static = {"spark.sql.legacy.sessionInitWithConfigDefaults": "true"}
    made |= old | static
    conf = SimpleNamespace(
        set=made.__setitem__, unset=made.__delitem__, isModifiable=lambda name: name not in static
    )
    java = mock.MagicMock()
    java.conf().getAll().keysIterator.return_value = JavaIterator(list(made))
    session._pin(cast(Any, SimpleNamespace(conf=conf, _jsparkSession=java)))
    assert made.items() >= static.items()
    del made[next(iter(static))]
    assert made == {name.removeprefix("spark.hadoop."): value for name, value in ROWS.items()}
    for name, value in (ROWS | UNSET).items():
        for place in (Place.SPARK, Place.SENDING):
            (complaint,) = judge_settings(place, {name: value}).complaints
            assert complaint.startswith(f"{name}: refused: Tidegate sets it: a retry must make")
