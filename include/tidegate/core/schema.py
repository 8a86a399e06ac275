"""Columns and their types, as Spark's DDL writes them: parsing, printing, and allowed changes.

DDL is read here because `validate` and Airflow have no JVM. Spark is given what is printed here,
but for the `source.columns` of Parquet files, which it reads as they are written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.core.nearest import did_you_mean

_SYNONYMS = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "dec": "decimal", "numeric": "decimal",
}  # fmt: skip
_SIMPLE = frozenset(
    ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
     "date", "timestamp", "timestamp_ntz")
)  # fmt: skip
_NESTED = frozenset(("array", "map", "struct"))
NAMES = (*sorted(_SIMPLE), "decimal", *sorted(_NESTED))
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_BLANKS = re.compile(r"\s*")
_TOKEN = re.compile(r"(?:([A-Za-z_]\w*|\d+(?!\w))|`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|([,:<>()]))")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # Spark's own names have no other letters
_NO_CHARACTER = re.compile("[\ufdd0\ufdd1]")  # marks of the parsers
_MOST_DIGITS = 38
_MOST_COMPLAINTS = 10
DEEPEST = 30
_ASKED, _OFFERED = 20, 200  # names whose nearest is looked for, and among how many


@dataclass(frozen=True)
class Type:
    """A type: its name in lower case, the digits of a decimal, and what it is made of.

    `parts` are the fields of a struct, the `element` of an array, or `key` and `value` of a map.
    """

    name: str
    digits: tuple[int, int] | None = None
    parts: tuple[Field, ...] = ()

    def __str__(self) -> str:
        if self.digits:
            return "DECIMAL({},{})".format(*self.digits)
        if self.name == "struct":
            return f"STRUCT<{', '.join(f'{quote_name(f.name)}: {f.type}' for f in self.parts)}>"
        inner = ", ".join(str(part.type) for part in self.parts)
        return self.name.upper() + (f"<{inner}>" if inner else "")


class Field(NamedTuple):
    """A column, or a field of a struct."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{quote_name(self.name)} {self.type}"


class SchemaError(ValueError):
    """A schema cannot be read. The message says where."""


Fields = tuple[Field, ...]


def render_ddl(fields: Sequence[Field]) -> str:
    """Return columns as Spark's DDL, which `parse` reads again."""
    return ", ".join(map(str, fields))


@functools.lru_cache(maxsize=1024)  # many pipelines have the same
def parse_columns(text: str) -> Fields:
    """Return the columns of a text such as `id BIGINT, tags ARRAY<STRING>`. SchemaError if wrong.

    The text is that of Spark's `CREATE TABLE`, without NOT NULL and DEFAULT. COMMENT is ignored.
    """
    reader = _Reader(text)
    try:
        fields = reader.fields("")
        if reader.next:
            raise reader.wrong(f"a comma was expected, not {reader.next[0]!r}")
    except SchemaError as error:
        reader.complaints.append(str(error))
    if reader.complaints:
        *most, last = reader.complaints
        ended = (each if each.endswith("?") else f"{each}." for each in most)
        raise SchemaError(" ".join([*ended, last]))
    return fields


def column_changes(old: Sequence[Field], new: Sequence[Field]) -> list[str]:
    """Return which changes of columns cannot be read together with rows of before.

    A column may be added. An integer, a float and a decimal may be widened. By name, whatever the
    order.
    """
    found, now = [], {field.name: field.type for field in new}
    known = {field.name for field in old}
    added = [name for name in now if name not in known][:_OFFERED]
    asked = 0
    for field in old:
        kind = now.get(field.name)
        if kind is None:
            asked += 1
            near = did_you_mean(field.name, added if asked <= _ASKED else ())
            near = near.replace("did you mean", "is it renamed to")
            found.append(
                f"column {field.name} {field.type} is gone{near or '.'} It cannot be removed or "
                "renamed; keep it, it is null where records do not have it"
            )
        elif not _is_wider(field.type, kind):
            found.append(
                f"column {field.name} was {field.type} and is {kind}: a column can only be widened "
                f"(INT to BIGINT, FLOAT to DOUBLE, a DECIMAL by digits). Write {field.type} again, "
                "or give the new type to a new column"
            )
    return found


def merge_columns(first: Fields, second: Fields) -> Fields:
    """Return the columns of both, each with its wider type. SchemaError if none is wider."""
    found = {fold_name(field.name): field for field in first}
    for field in second:
        name, kind = found.setdefault(fold_name(field.name), field)
        if name != field.name or not (_is_wider(kind, field.type) or _is_wider(field.type, kind)):
            raise SchemaError(f"column {name} {kind}, and {field}")
        if _is_wider(kind, field.type):
            found[fold_name(name)] = field
    return tuple(found.values())


def widest_type(one: Type, other: Type) -> Type:
    """Return the wider one of two types. The first if neither is wider."""
    return other if _is_wider(one, other) else one


def _is_wider(old: Type, new: Type) -> bool:
    """Return whether a type is the other one, or wider."""
    if old == new:
        return True
    if old.digits and new.digits:
        (digits, scale), (more, finer) = old.digits, new.digits
        return finer >= scale and more - finer >= digits - scale
    return any(old.name in names and new.name in names[names.index(old.name) :] for names in _WIDER)


def fold_name(name: str) -> str:
    """Return a name in a form that is equal for names that Spark takes for one.

    Java compares each character in capitals, and these in small letters: `ı` is `i`, and `σ` is
    `ς`. A character that has several in the other case stays as it is.
    """

    def other(character: str, case: Callable[[str], str]) -> str:
        return changed if len(changed := case(character)) == 1 else character

    return "".join(other(other(c, str.upper), str.lower) for c in name.replace("\u0130", "i"))


def quote_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`{}`".format(name.replace("`", "``"))


class _Reader:
    """Reads a text token by token. `next` is the coming one and its place, None at the end."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self.next: tuple[str, int] | None = None
        self.complaints: list[str] = []  # of names and types that are wrong, and can be read
        self._is_quoted = False
        self._step()

    def _complain(self, message: str, at: int | None) -> None:
        """Note an error, and read on. Raise it where there are many."""
        error = self.wrong(message, at)
        if len(self.complaints) >= _MOST_COMPLAINTS:
            raise error
        self.complaints.append(str(error))

    def wrong(self, message: str, at: int | None = None) -> SchemaError:
        """Return the error, with the place of the coming token, or of `at`."""
        at = at if at is not None else self.next[1] if self.next else len(self._text)
        before = self._text[:at]
        line = f"line {before.count(chr(10)) + 1}, " if "\n" in self._text.strip() else ""
        place = at - (before.rfind("\n") + 1) + 1
        return SchemaError(f"{line}character {place}: {message}")

    def fields(self, end: str) -> Fields:
        """Read names and types up to `end`, a `>`, or to the end of the text."""
        found: list[Field] = []
        names = set[str]()
        while True:
            name, at = self._name("a name of a column")
            if fold_name(name) in names:
                self._complain(f"{name} occurs twice (case does not matter)", at)
            if _NO_CHARACTER.search(name):
                self._complain(f"{name!r} has U+FDD0 or U+FDD1, which is no character", at)
            names.add(fold_name(name))
            self._skip(":")
            found.append(Field(name, self._type()))
            self._comment()
            if not self._skip(","):
                break
        if end:
            self._expect(end)
        return tuple(found)

    def _type(self) -> Type:
        word, at = self._name("a type")
        name = _SYNONYMS.get(word.lower(), word.lower())
        if name == "decimal":
            return Type(name, self._digits())
        if name in _SIMPLE:
            return Type(name)
        if name not in _NESTED:
            near = did_you_mean(name, NAMES) or f"; the types are: {', '.join(NAMES)}"
            if self.next and not self._is_quoted and self.next[0] in "<(":
                raise self.wrong(f"unknown type {word}{near}", at)
            self._complain(f"unknown type {word}{near}", at)
            return Type("string")
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.wrong(f"types are nested deeper than {DEEPEST}", at)
        found = self._nested(name)
        self._depth -= 1
        return found

    def _nested(self, name: str) -> Type:
        self._expect("<")
        if name == "struct":
            return Type(name, parts=self.fields(">"))
        at = self.next[1] if self.next else None
        parts = [Field("element" if name == "array" else "key", self._type())]
        if name == "map":
            if parts[0].type.name != "string":
                self._complain("the key of a map is a STRING", at)
            self._expect(",")
            parts.append(Field("value", self._type()))
        self._expect(">")
        return Type(name, parts=tuple(parts))

    def _digits(self) -> tuple[int, int]:
        if not self._skip("("):
            return 10, 0
        at = self.next[1] if self.next else None
        precision = self._number()
        scale = self._number() if self._skip(",") else 0
        self._expect(")")
        if not 0 <= scale <= precision <= _MOST_DIGITS or precision == 0:
            self._complain(f"DECIMAL has 1 to {_MOST_DIGITS} digits, its scale no more", at)
        return precision, scale

    def _number(self) -> int:
        word, at = self._name("a number")
        if not word.isdecimal() or len(word) > 9:
            raise self.wrong(f"a number was expected, not {word[:40]!r}", at)
        return int(word)

    def _comment(self) -> None:
        if self.next and not self._is_quoted and self.next[0].upper() == "COMMENT":
            self._step()
            if not (self.next and self.next[0].startswith("'")):
                raise self.wrong("a comment was expected, in single quotes")
            self._step()
        elif self.next and not self._is_quoted and self.next[0].upper() == "NOT":
            raise self.wrong("every column may be null: leave NOT NULL out")

    def _name(self, what: str) -> tuple[str, int]:
        if not self.next or (not self._is_quoted and self.next[0][0] in ",:<>()'"):
            said = repr(self.next[0]) if self.next else "the end"
            raise self.wrong(f"{what} was expected, not {said}")
        found = self.next
        self._step()
        return found

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            said = repr(self.next[0]) if self.next else "the end"
            raise self.wrong(f"{mark!r} was expected, not {said}")

    def _skip(self, mark: str) -> bool:
        if self.next and not self._is_quoted and self.next[0] == mark:
            self._step()
            return True
        return False

    def _step(self) -> None:
        at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
        if at == len(self._text):
            self.next = None
            return
        token = _TOKEN.match(self._text, at)
        if token is None:
            raise self.wrong(f"{self._text[at]!r} was not expected; quote names with `", at)
        place = token.start(token.lastindex or 0)
        self._is_quoted = token[2] is not None
        word = token[2].replace("``", "`") if self._is_quoted else token[token.lastindex or 0]
        self.next, self._at = (word, place), token.end()
