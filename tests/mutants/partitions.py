"""Mutants of files that are partitioned by values: names, coverage, replays and readers."""

from mutants.mutant import Mutant

_RULES = "tests/unit/core/test_parquet_settings.py"
_NAMES = "tests/spark/test_partition_values.py"
_LAKE = "tests/integration/test_partitioned_lake.py"

MUTANTS = (
    Mutant(
        "what lies in other directories is no data file",
        "parquet_settings.staged_directories",
        'is_file = [each.partition("=")[0] for each in directories] == levels',
        "is_file = len(directories) == len(levels)",
        f"{_RULES}::test_what_lies_elsewhere_is_no_data_file",
    ),
    Mutant(
        "a column of another type is refused",
        "parquet_settings.complaints",
        "for kind in sorted(types - _TYPES[field.transform]):",
        "for kind in ():",
        f"{_RULES}::test_what_is_wrong_with_a_partition_by_is_said",
    ),
    Mutant(
        "no directory is named as a column",
        "parquet_settings.complaints",
        "if field.directory.lower() in {name.lower() for name in names}:",
        "if False:",
        f"{_RULES}::test_what_is_wrong_with_a_partition_by_is_said",
    ),
    Mutant(
        "a text that cannot be a name is named by a digest",
        "parquet_writer._value",
        "F.when(text.rlike(PLAIN_VALUE), text)",
        "F.when(text.isNotNull(), text)",
        f"{_NAMES}::test_texts",
    ),
    Mutant(
        "a plain text has no end of a line",
        "PLAIN_VALUE",
        ")?\\z",
        ")?$",
        f"{_NAMES}::test_texts",
    ),
    Mutant(
        "a text that Hive reads as null is named by a digest",
        "PLAIN_VALUE",
        "(?!__HIVE)",
        "",
        f"{_NAMES}::test_texts",
    ),
    Mutant(
        "a topic without the column has a directory",
        "parquet_writer._value",
        "if field.column not in names:",
        "if False:",
        f"{_NAMES}::test_numbers_and_what_a_topic_does_not_have",
    ),
    Mutant(
        "files with offsets between one another's are replaced together",
        "tiles_of",
        "if r.topic in mixed:",
        "if False:",
        "tests/unit/core/test_files.py::"
        "test_files_with_offsets_between_one_anothers_stand_for_all_ranges_together",
    ),
    Mutant(
        "rows of several files are compared in the order of offsets",
        "verify._rows",
        "        if first > end:",
        "        if True:",
        "tests/unit/lake/test_audit.py::"
        "test_files_with_offsets_between_one_anothers_are_compared_in_order",
    ),
    Mutant(
        "verify: rows beside a damaged file are compared",
        "_compare_commit",
        "for retained in r.parts(Intervals.of([(start, r.end)])):",
        "for retained in r.parts(lost.missing(start, r.end)):",
        "tests/unit/lake/test_audit.py::test_a_damaged_file_hides_no_other",
    ),
    Mutant(
        "a file is never opened beside too many others",
        "verify._rows",
        "if are_in_order and len(group) <= _MOST_OPEN:",
        "if are_in_order:",
        "tests/unit/lake/test_audit.py::test_more_files_than_can_be_open",
    ),
    Mutant(
        "the first row since a time is that of all files",
        "first_since",
        "found[ms][p] = min(offset, found[ms].get(p, offset))",
        "found[ms].setdefault(p, offset)",
        "tests/unit/lake/test_timestamps.py::test_files_with_offsets_between_one_anothers",
    ),
    Mutant(
        "no view of directories of different forms",
        "Lake.view",
        "if len(levels) > 1:",
        "if False:",
        f"{_LAKE}::test_another_layout_for_new_files",
    ),
    Mutant(
        "an earlier state has all its files",
        "_refuse_deleted",
        "if gone := [path for path, size in zip(paths, sizes, strict=True) if size is None]:",
        "if gone := []:",
        "tests/contracts/test_read_api.py::test_a_lake_as_it_was",
    ),
    Mutant(
        "an earlier state has no later entry",
        "Ledger._read",
        "        if until is None:\n            self.refresh()",
        "        self.refresh()",
        "tests/contracts/test_read_api.py::test_a_lake_as_it_was",
    ),
)
