"""Mutants of the readers of source files."""

from mutants.mutant import Mutant

_RECORDS = "tests/unit/spark/test_csv_records.py"
_TYPED = "tests/spark/test_typed_files.py"
_COLUMNS = "tests/spark/test_json_columns.py"
_BAD = "tests/spark/test_egress_refusals.py::test_bad_files_are_left_out"

MUTANTS = (
    Mutant(
        "CSV: a quote that is not closed is a fault",
        "_Quoted.record",
        "self._fault or (None if self.is_complete else _NOT_CLOSED)",
        "self._fault",
        f"{_RECORDS}::test_a_faulty_record_makes_no_other_one",
    ),
    Mutant(
        "CSV: text behind a closing quote is a fault",
        "_read_value",
        "            self._fault = self._fault or _BEHIND_QUOTE\n",
        "",
        f"{_RECORDS}::test_a_faulty_record_makes_no_other_one",
    ),
    Mutant(
        "CSV: a CR within quotes is text",
        "_read_value",
        "form.inside.match(text, position)",
        "form.inside.match(text.rstrip(chr(13)), position)",
        f"{_RECORDS}::test_records_by_rfc_4180",
    ),
    Mutant(
        "CSV: a CR outside quotes is a fault",
        "_Form.plain",
        'if self.has_cr and b"\\r" in line:',
        "if False:",
        f"{_RECORDS}::test_a_faulty_record_makes_no_other_one",
    ),
    Mutant(
        'CSV: "" is no null',
        "quick",
        "if self.twice in text and self.empty_text.search(text):",
        "if False:",
        f"{_RECORDS}::test_records_by_rfc_4180",
    ),
    Mutant(
        "CSV: a row has as many values as the header",
        "csv_records.parse_rows",
        "elif len(values) != width:",
        "elif False:",
        f"{_RECORDS}::test_rows_behind_the_header",
    ),
    Mutant(
        "CSV: a file of other columns has no rows",
        "csv_records.parse_rows",
        "if header and (why := _complaint(header, columns, dialect)):",
        "if header and (why := _complaint(header, columns, dialect)) and False:",
        f"{_RECORDS}::test_a_file_of_other_columns_has_one_row",
    ),
    Mutant(
        "CSV: a header with another separator",
        "_name_complaint",
        "if len(header) == 1 and seps:",
        "if False:",
        f"{_RECORDS}::test_a_file_of_other_columns_has_one_row",
    ),
    Mutant(
        "CSV: an endless record is not kept",
        "_Quoted.add",
        "if self._size > MAX_TEXT:",
        "if False:",
        f"{_RECORDS}::test_an_endless_record_is_not_kept",
    ),
    Mutant(
        "CSV: a task reads one file",
        "_of_one_file",
        "elif of != number:",
        "elif False:",
        f"{_RECORDS}::test_lines_of_two_files_are_never_one",
    ),
    Mutant(
        "CSV: a value of another type is a fault",
        "csv_rows.read_csv",
        'F.when(other_types != "", F.concat(F.lit(_OTHER_TYPE), other_types))',
        "F.lit(None)",
        f"{_BAD}[a value of CSV of another type]",
    ),
    Mutant(
        "CSV: a file of other columns is bad as a whole",
        "preflight.read_all",
        """if unfit := {each.file: each.unfit for each in inputs if each.unfit}:""",
        """if (unfit := {each.file: each.unfit for each in inputs}) and False:""",
        "tests/spark/test_bad_files.py::test_files_of_csv_with_another_header",
    ),
    Mutant(
        "CSV: a number of a language has groups of three digits",
        "_without_groups",
        "return F.when(fits, F.translate(text, point + group",
        "return F.when(F.lit(True), F.translate(text, point + group",
        f"{_TYPED}::test_by_options",
    ),
    Mutant(
        "files: the table says which text a value is",
        "typed_texts.convert_text",
        "fits = text.rlike(whole_pattern(RULES[kind.name].pattern))",
        "fits = F.lit(True)",
        f"{_TYPED}::test_csv",
    ),
    Mutant(
        "JSON: no key occurs twice in an object that is wanted",
        "json_lines.parse_lines",
        "F.when(F.try_parse_json(F.col(_READ)).isNull(), F.lit(_TWICE))",
        "F.lit(None)",
        f"{_TYPED}::test_keys_within_objects",
    ),
    Mutant(
        "JSON: what only Spark takes is no JSON",
        "parse_lines",
        "is_bad & ~_parses(_STRICT)",
        "is_bad & ~_parses({})",
        f"{_COLUMNS}::test_what_only_spark_takes_for_json",
    ),
    Mutant(
        "JSON: a number as text is as it was written",
        "read_fields",
        'hidden_name(column, "exact"): F.when(is_odd, ',
        'hidden_name(column, "exact"): F.when(F.lit(False), ',
        f"{_COLUMNS}::test_a_number_as_text_is_as_it_was_written",
    ),
    Mutant(
        "JSON: text that Spark would change is a bad row",
        "json_lines.parse_lines",
        "why = F.coalesce(of_line.whole, F.when(changed, F.lit(_CHANGED)), why)",
        "pass",
        f"{_COLUMNS}::test_text_that_spark_would_change",
    ),
    Mutant(
        "quarantine: the text of a row is bytes",
        "source_rows.select_rows",
        'rows.text.cast("binary")',
        "rows.text",
        "tests/spark/test_egress.py::test_bad_rows_into_quarantine",
    ),
)
