"""CSV as RFC 4180 says it, judged by Python's own reader where that can judge."""

import csv
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.spark.formats import csv_records
from tidegate.spark.formats.csv_records import FILE, Dialect, Record, parse_rows, split_records

RFC = Dialect()
NOT_CLOSED = "a quote that is not closed"
BEHIND = "text behind a closing quote"
CR = "a carriage return outside quotes: see source.options.lineSep"
PIECES = ("a", ",", '"', "\n", "\r\n", "\r", " ", "ü", '""', '"a"', "b,c", '","', "\\", "\ufffd")


def lines_of(content: bytes, end: bytes = b"\n") -> list[bytes]:
    """Return what Spark's reader of text makes of a file."""
    return content.removesuffix(end).split(end) if content else []


def read(content: str | bytes, dialect: Dialect = RFC) -> list[Record]:
    content = content if isinstance(content, bytes) else content.encode()
    return [*split_records(lines_of(content, dialect.line_end.encode()), dialect)]


def values(content: str | bytes, **dialect: object) -> list[list[str | None] | None]:
    return [record.values for record in read(content, Dialect(**dialect))]  # type: ignore[arg-type]


def by_python(content: str) -> tuple[list[list[str]], bool]:
    """Return the rows that Python's reader finds before an error, and whether there is one."""
    found: list[list[str]] = []
    lines = (f"{line}\n" for line in lines_of(content.encode()) for line in (line.decode(),))
    try:
        for row in csv.reader(lines, strict=True):
            found += [row] if row else []
    except csv.Error:
        return found, True
    return found, False


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=2_000, deadline=None)
def test_python_reads_the_same(content: str) -> None:
    """Up to the first fault; a file without one has the same rows."""
    expected, is_faulty = by_python(content)
    found = read(content)
    good = [*iter(lambda it=iter(found): next(it, Record(b"", None)).values, None)]  # type: ignore[misc]
    assert [[value or "" for value in row] for row in good] == expected
    assert is_faulty == any(record.fault for record in found)


@given(st.lists(st.lists(st.none() | st.text('a,"\n\r é', max_size=4), min_size=2, max_size=4)))
@settings(max_examples=500, deadline=None)
def test_what_was_written_is_read(table: list[list[str | None]]) -> None:
    """Null is nothing, text is in quotes, whatever is in it."""
    quoted = (
        '"' + each.replace('"', '""') + '"' if each is not None else ""
        for row in table
        for each in row
    )
    texts = iter(quoted)
    content = "".join(",".join(next(texts) for _ in row) + "\r\n" for row in table)
    assert values(content) == table
    assert b"".join(record.text + b"\r\n" for record in read(content)) == content.encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('1,"a\nb"\n2,c\n', [["1", "a\nb"], ["2", "c"]]),
        ('1,"a\r\nb"\r\n2,c\r\n', [["1", "a\r\nb"], ["2", "c"]]),
        ('2,"C:\\"\n3,"b"\n', [["2", "C:\\"], ["3", "b"]]),
        ('1,\n2,""\n', [["1", None], ["2", ""]]),
        ('1,"a ""b"" c"\n', [["1", 'a "b" c']]),
        ("a\r\r\nb", [["a"], ["b"]]),
        ("a\n\n\r\n  \n", [["a"], ["  "]]),
        ('"a","b"', [["a", "b"]]),
        ('a"b,c\n', [['a"b', "c"]]),
        ("\ufffd,ü\n", [["\ufffd", "ü"]]),
        ("", []),
        (",\n", [[None, None]]),
    ],
)  # fmt: skip
def test_records_by_rfc_4180(content: str, expected: list[list[str | None]]) -> None:
    assert values(content) == expected


@pytest.mark.parametrize(
    ("content", "texts", "faults"),
    [
        ('1,"a\n2,b\n', ['1,"a\n2,b'], [NOT_CLOSED]),
        ('1,"a"b\n2,c\n', ['1,"a"b', "2,c"], [BEHIND, None]),
        ('1,"a\n2,"b"\n3,c\n', ['1,"a\n2,"b"', "3,c"], [BEHIND, None]),
        ("1,a\rb\n2,c\n", ["1,a\rb", "2,c"], [CR, None]),
        ('1,"a",x\ry\n', ['1,"a",x\ry'], [CR]),
        ('"', ['"'], [NOT_CLOSED]),
        ('"a\r\n', ['"a\r'], [NOT_CLOSED]),
    ],
)
def test_a_faulty_record_makes_no_other_one(
    content: str, texts: Sequence[str], faults: Sequence[str | None]
) -> None:
    """It is as long as its quotes say; its text is that of the file."""
    found = read(content)
    assert [record.text.decode() for record in found] == texts
    assert [record.fault for record in found] == faults
    assert all((record.values is None) == bool(record.fault) for record in found)


@pytest.mark.parametrize(
    ("content", "dialect", "expected"),
    [
        ("a;b\tc\n", {"sep": ";"}, [["a", "b\tc"]]),
        ("a||b|c||'d||e'\n", {"sep": "||", "quote": "'"}, [["a", "b|c", "d||e"]]),
        ("'it''s',a\"b\n", {"quote": "'", "escape": "'"}, [["it's", 'a"b']]),
        ('"a\\"b","c\\\\","d\\e"\n', {"escape": "\\"}, [['a"b', "c\\", "d\\e"]]),
        ('"a\\\n', {"escape": "\\"}, [None]),
        ('a,"b\n', {"quote": ""}, [["a", '"b']]),
        ("#x\n1\n \n", {"comment": "#"}, [["1"], [" "]]),
        ('"\n#x"\n#"\n1', {"comment": "#"}, [["\n#x"], ["1"]]),
        ('-,"-",,""\n', {"null": "-"}, [[None, None, None, ""]]),
        ('"",\n', {"null": ""}, [[None, None]]),
        ('"",\n', {"empty": "E"}, [["E", None]]),
        (' a , "b" \n', {"skip_leading": True}, [["a ", None]]),
        (' a , "b" \n', {"skip_leading": True, "skip_trailing": True}, [["a", "b"]]),
        (" a ,b \n", {"skip_trailing": True}, [[" a", "b"]]),
        ("a\r,b|'c|d'|e", {"line_end": "|", "quote": "'"}, [["a\r", "b"], ["c|d"], ["e"]]),
        ("ü,x\n".encode("latin-1"), {"encoding": "ISO-8859-1"}, [["ü", "x"]]),
        ("'ü',x\n".encode("latin-1"), {"encoding": "ISO-8859-1", "quote": "'"}, [["ü", "x"]]),
    ],
)
def test_other_ways_to_write(content: str, dialect: dict[str, object], expected: object) -> None:
    if "skip_leading" in dialect and "skip_trailing" not in dialect:
        expected = [None]  # a blank behind a closing quote
    assert values(content, **dialect) == expected


def test_bytes_that_are_no_text() -> None:
    """They make their own row bad, in quotes or not."""
    found = read(b'a,b\nx,\xff\n"\xff",y\n"\n",c\n')
    why = "text that is not in UTF-8: set source.options.encoding"
    assert [record.fault for record in found] == [None, why, why, None]
    assert [record.text for record in found][1:3] == [b"x,\xff", b'"\xff",y']


def test_an_endless_record_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote that is not closed does not take a large file into memory."""
    monkeypatch.setattr(csv_records, "MAX_TEXT", 100)
    (record,) = split_records([b'"a', *[b"x" * 60] * 50], RFC)
    assert (record.fault or "").startswith("a quote that is not closed within")
    assert len(record.text) <= 100


def numbered(content: str) -> list[tuple[int, bytes]]:
    return [(7, line) for line in lines_of(content.encode())]


def all_rows(content: str, *columns: str, **dialect: object) -> list[object]:
    form = Dialect(**dialect)  # type: ignore[arg-type]
    return [*parse_rows(numbered(content), form, columns, with_text=False)]


def test_rows_behind_the_header() -> None:
    assert all_rows("id,name\n1,x\n\n2\n3,z,\n", "ID", "name") == [
        (None, ["1", "x"], None, None),
        (None, None, "1 values, and there are 2 columns", b"2"),
        (None, None, "3 values, and there are 2 columns", b"3,z,"),
    ]
    assert all_rows("1,x\n", "a", "b", header=False) == [(None, ["1", "x"], None, None)]
    assert all_rows("", "a") == []
    ((*_, text),) = parse_rows(numbered("a\n1\n"), RFC, ["a"], with_text=True)
    assert text == b"1"


@pytest.mark.parametrize(
    ("content", "columns", "why"),
    [
        ("id,x\n1,2\n", ("id", "name"), "its header is id, x, and not id, name: keep files of"),
        ("id;name\n1;2\n", ("id", "name"), "one column, 'id;name': is source.options.sep ';'?"),
        (
            "id\tname\n1\t2\n",
            ("id", "name"),
            r"one column, 'id\tname': is source.options.sep '\t'?",
        ),
        ("id,\n", ("id", "name"), "does not name its columns: one has no name"),
        ("id,ID\n", ("id", "name"), "two have the same"),
        ('id,"na"me\n', ("id", "name"), f"its header: {BEHIND}"),
    ],
)
def test_a_file_of_other_columns_has_one_row(
    content: str, columns: tuple[str, ...], why: str
) -> None:
    ((number, found, fault, _),) = all_rows(content, *columns)
    assert (number, found) == (FILE, None)
    assert why in str(fault)


def test_lines_of_two_files_are_never_one() -> None:
    lines = [*numbered("a\n1\n"), (8, b"a")]
    with pytest.raises(RuntimeError, match="two files"):
        [*parse_rows(lines, RFC, ["a"], with_text=False)]
