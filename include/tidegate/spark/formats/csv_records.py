"""The records of CSV files as RFC 4180 says them. Executors get this module by value.

It imports the standard library only. Python's own `csv` cannot tell `""` from nothing before 3.13.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_TEXT = 1 << 26
"""Bytes of a record: a quote that is not closed would take the rest of a file into memory."""
FILE = -1
"""In place of a row's number: why nothing of its file can be sent."""
_NOT_CLOSED = "a quote that is not closed"
_TOO_LONG = f"a quote that is not closed within {MAX_TEXT} bytes"
_BEHIND_QUOTE = "text behind a closing quote"
_BARE_CR = "a carriage return outside quotes: see source.options.lineSep"
_NO_NAMES = "its header does not name its columns: one has no name, or two have the same"


class Dialect(NamedTuple):
    """How files are written.

    `escape` stands before a quote within quotes: the quote itself, by RFC 4180. Without a `quote`
    there are none. `null` is a further text that means null, `empty` what `""` means. Lines end
    with `line_end`, also within quotes. Carriage returns before a newline belong to the end.
    `header`: the first record names the columns.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    null: str | None = None
    empty: str = ""
    encoding: str = "utf-8"
    skip_leading: bool = False
    skip_trailing: bool = False
    line_end: str = "\n"
    header: bool = True


class Record(NamedTuple):
    """The bytes of a record without its end, and its values, null for none; or a `fault`."""

    text: bytes
    values: list[str | None] | None
    fault: str | None = None


Line = tuple[int, bytes]
"""A number that all lines of a file have in common, and the line without its end."""
Row = tuple[int | None, list[str | None] | None, str | None, bytes | None]
"""FILE or null, values, fault, and the text if it is asked for or faulty."""


def parse_rows(
    lines: Iterable[Line], dialect: Dialect, columns: Sequence[str], *, with_text: bool
) -> Iterator[Row]:
    """Yield the rows of one file, which must have these columns, in order.

    If it has another header, its only row is FILE, with the reason as its fault.
    """
    found = split_records(_of_one_file(lines), dialect)
    header = next(found, None) if dialect.header else None
    if header and (why := _complaint(header, columns, dialect)):
        yield FILE, None, why, header.text
        return
    width = len(columns)
    for text, values, fault in found:
        if values is None:
            yield None, None, fault, text
        elif len(values) != width:
            yield None, None, f"{len(values)} values, and there are {width} columns", text
        else:
            yield None, values, None, text if with_text else None


def split_records(lines: Iterable[bytes], dialect: Dialect) -> Iterator[Record]:
    """Yield the records of one file, from its lines without their ends, in order.

    An empty line, or a line that begins with `comment`, is no record. Where a record
    ends depends on quotes alone: no record is made of the parts of a faulty one.
    """
    form = _Form(dialect)
    unfinished: _Quoted | None = None
    plain, quote, comment = form.plain, form.quote, form.comment
    for line in lines:
        if unfinished is None:
            if comment and line.startswith(comment):
                continue
            if quote not in line:
                record = plain(line)
                if record.text:
                    yield record
                continue
            if whole := form.quick(line):
                yield whole
                continue
            unfinished = _Quoted(form)
        unfinished.add(line)
        if unfinished.is_complete:
            yield unfinished.record()
            unfinished = None
    if unfinished is not None:
        yield unfinished.record()


def _of_one_file(lines: Iterable[Line]) -> Iterator[bytes]:
    number = None
    for of, line in lines:
        if number is None:
            number = of
        elif of != number:
            raise RuntimeError("a task reads the lines of two files")
        yield line


def _complaint(header: Record, columns: Sequence[str], dialect: Dialect) -> str | None:
    """Return why a file with this header is not one with these columns, in any case of letters."""
    if header.values is None:
        return f"its header: {header.fault}"
    if [(name or "").lower() for name in header.values] == [name.lower() for name in columns]:
        return None
    return _name_complaint(header.values, dialect) or (
        f"its header is {', '.join(map(str, header.values))}, and not {', '.join(columns)}: keep "
        "files of other columns apart by source.path, or correct source.columns"
    )


def _name_complaint(header: Sequence[str | None], dialect: Dialect) -> str | None:
    names = {name.lower() for name in header if name}
    if len(names) < len(header):
        return _NO_NAMES
    seps = [sep for sep in ";\t|" if sep in (header[0] or "") and sep not in dialect.sep]
    if len(header) == 1 and seps:
        return f"its header is one column, {header[0]!r}: is source.options.sep {seps[0]!r}?"
    return None


class _Form:
    """A dialect, with the expressions that read it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        quote, sep, escape = (re.escape(c) for c in (dialect.quote, dialect.sep, dialect.escape))
        self.comment, self.line_end = (
            text.encode(dialect.encoding) for text in (dialect.comment, dialect.line_end)
        )
        # Without quotes, what no line holds.
        self.quote = dialect.quote.encode(dialect.encoding) or self.line_end
        self.has_cr = dialect.line_end == "\n"
        self.changes = dialect.null is not None or dialect.skip_leading or dialect.skip_trailing
        if not quote:
            return
        self.csv = None
        usual = dialect.escape == dialect.quote and not (self.changes or dialect.empty)
        if usual and self.has_cr and len(dialect.sep) == 1:
            self.twice = dialect.quote * 2
            self.empty_text = re.compile(f"(?:^|{sep}){quote}{quote}(?:{sep}|$)")
            name = "tidegate"
            csv.register_dialect(name, delimiter=dialect.sep, quotechar=dialect.quote, strict=True)
            self.csv = csv.get_dialect(name)
        if dialect.escape == dialect.quote:
            self.inside = re.compile(f"(?:[^{quote}]|{quote}{quote})*+")
            self.escaped = re.compile(f"{quote}({quote})")
        else:
            self.escaped = re.compile(f"{escape}([{quote}{escape}])")
            self.inside = re.compile(f"(?:[^{quote}{escape}]|{escape}[{quote}{escape}]?)*+")
        self.opening = re.compile(f"[ \t]*+{quote}" if dialect.skip_leading else quote)
        behind = "[ \t]*+" if dialect.skip_trailing else ""
        self.closing = re.compile(rf"{quote}{behind}(?={sep}|\Z)")

    def without_cr(self, line: bytes) -> bytes:
        return line.rstrip(b"\r") if self.has_cr else line

    def plain(self, line: bytes) -> Record:
        """Return the record of a line without quotes. Without text, the line is no record."""
        if self.has_cr and b"\r" in line:
            line = line.rstrip(b"\r")
            if b"\r" in line:
                return Record(line, None, _BARE_CR)
        try:
            values = line.decode(self.dialect.encoding).split(self.dialect.sep)
        except UnicodeDecodeError:
            return Record(line, None, self.not_encoded)
        if self.changes:
            return Record(line, [*map(self.value, values)])
        return Record(line, [value or None for value in values])

    def quick(self, line: bytes) -> Record | None:
        """Return the record of a line with quotes, by Python's own reader, which is faster. None
        if that cannot be told from this line alone, or where it cannot tell `""` from nothing.
        """
        if self.csv is None:
            return None
        line = line.rstrip(b"\r")
        try:
            text = line.decode(self.dialect.encoding)
            if self.twice in text and self.empty_text.search(text):
                return None
            (values,) = csv.reader((text,), self.csv)
        except (csv.Error, ValueError):
            return None
        return Record(line, [value or None for value in values])

    @property
    def not_encoded(self) -> str:
        encoding = self.dialect.encoding.upper()
        return f"text that is not in {encoding}: set source.options.encoding"

    def value(self, text: str) -> str | None:
        """Return the value of a text without quotes."""
        if self.dialect.skip_leading:
            text = text.lstrip(" \t")
        if self.dialect.skip_trailing:
            text = text.rstrip(" \t")
        return None if not text or text == self.dialect.null else text

    def quoted(self, text: str) -> str | None:
        """Return the value of what is between two quotes."""
        text = self.escaped.sub(r"\1", text) if text else self.dialect.empty
        return None if text == self.dialect.null else text


class _Quoted:
    """A record with quotes, as far as its lines are read."""

    def __init__(self, form: _Form) -> None:
        self._form = form
        self._lines: list[bytes] = []
        self._size = 0
        self._values: list[str | None] = []
        self._parts: list[str] | None = None  # of a value whose quote is open
        self._fault: str | None = None
        self._is_encoded = True

    @property
    def is_complete(self) -> bool:
        return self._parts is None

    def add(self, line: bytes) -> None:
        """Read one more line."""
        self._size += len(line)
        if self._size > MAX_TEXT:
            self._fault = _TOO_LONG
        else:
            self._lines.append(line)
        encoding = self._form.dialect.encoding
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            self._is_encoded = False
            text = line.decode(encoding, "surrogateescape")
        end = len(text) - len(line) + len(self._form.without_cr(line))
        position = 0
        while position <= end:
            position = self._read_value(text, position, end)

    def record(self) -> Record:
        """Return the record. Its lines are read, or those of the file."""
        form = self._form
        text = form.line_end.join(self._lines)
        if self.is_complete:
            text = form.without_cr(text)
        fault = self._fault or (None if self.is_complete else _NOT_CLOSED)
        if not (fault or self._is_encoded):
            fault = form.not_encoded
        return Record(text, None if fault else self._values, fault)

    def _read_value(self, text: str, position: int, end: int) -> int:
        """Read a value, or a part of it. Return where the next one begins, beyond `end` if none."""
        form = self._form
        if self._parts is None:
            opening = form.opening.match(text, position, end)
            if opening is None:
                until = self._until_sep(text, position, end)
                if form.has_cr and "\r" in text[position:until]:
                    self._fault = self._fault or _BARE_CR
                self._values.append(form.value(text[position:until]))
                return until + len(form.dialect.sep)
            self._parts, position = [], opening.end()
        # A CR at the end of the line is a part of the value while the quote is open behind it.
        inside = form.inside.match(text, position)
        assert inside is not None
        is_open = inside.end() == len(text)
        if self._size <= MAX_TEXT:
            self._parts += [inside[0], form.dialect.line_end] if is_open else [inside[0]]
        if is_open:
            return end + 1
        self._values.append(form.quoted("".join(self._parts)))
        self._parts = None
        closing = form.closing.match(text, inside.end(), end)
        if closing is None:
            self._fault = self._fault or _BEHIND_QUOTE
            return self._until_sep(text, inside.end(), end) + len(form.dialect.sep)
        return closing.end() + len(form.dialect.sep)

    def _until_sep(self, text: str, position: int, end: int) -> int:
        found = text.find(self._form.dialect.sep, position, end)
        return end if found < 0 else found
