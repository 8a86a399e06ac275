"""The tokens of a program in Python or Scala: literals, brackets, and maps of settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tidegate.pipelines.translation.given import unescaped

NAME = re.compile(r"[A-Za-z][\w.-]*")
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>[A-Za-z]{0,2}(?:\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)
        |"(?:\\.|[^"\\\n])*(?:"|\\?$)|'(?:\\.|[^'\\\n])*(?:'|\\?$)))
    |(?P<number>\d+(?=\D|\Z))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>->|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_PUTS = ("put", "putIfAbsent", "setProperty", "update", "updated", "setdefault")
_MAPS = ("Map", "HashMap", "Properties", "dict", "empty")


class Token(NamedTuple):
    """A part of a program; the text of a string has neither quotes nor prefix."""

    kind: str
    text: str
    line: int


def tokens_of(text: str) -> Tokens:
    """Return the tokens of a program."""
    return Tokens(tuple(_tokens(text)))


def _tokens(text: str) -> Iterator[Token]:
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "comment":
            continue
        line, last = line + text.count("\n", last, match.start()), match.start()
        yield Token(*_literal(match[0]), line) if kind == "string" else Token(kind, match[0], line)


def _literal(text: str) -> tuple[str, str]:
    """Return the kind of a string and its text; one with expressions in it is no literal."""
    start = min(text.find(quote) for quote in "\"'" if quote in text)
    prefix, rest = text[:start].lower(), text[start:]
    quotes = 3 if rest[:3] in ('"""', "'''") else 1
    inner = rest[quotes : -quotes if len(rest) >= 2 * quotes else None]
    if "f" in prefix or "s" in prefix:
        return "expression", ""
    return "string", inner if quotes == 3 or "r" in prefix else unescaped(inner)


@dataclass(frozen=True)
class Tokens:
    """A program; a place is the number of a token."""

    tokens: Sequence[Token]

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words of the program."""
        return frozenset(each.text for each in self.tokens if each.kind == "word")

    def entry(self, n: int) -> int:
        """Return the place of the value if the string at a place is a name in a map; 0 if not."""
        call, before = self.at(n - 2).text, self.at(n - 1).text
        after, then, end = (self.at(n + k).text for k in (1, 2, 3))
        if after in ("->", ":") or (after == "," and before == "(" and call in _PUTS):
            return n + 2
        is_set = before + after in ("[]", "()") and then == "=" and end not in ("=", ">")
        return n + 3 if is_set else 0

    def map_parts(self, n: int) -> list[tuple[int, int]]:
        """Return where the parts of the map are that is an argument at a place."""
        if self.at(n + 1).text in (")", ","):
            return self.variables.get(self.at(n).text) or []
        end = self.map_end(n)
        return [(n, end)] if end else []

    @cached_property
    def closing(self) -> dict[int, int]:
        """Return the places of closing brackets by those of the opening ones."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for n, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in "([{":
                opened.append(n)
            elif token.kind == "sign" and token.text in ")]}" and opened:
                found[opened.pop()] = n
        return found

    @cached_property
    def variables(self) -> dict[str, list[tuple[int, int]] | None]:
        """Return where maps are set to variables, and added to these; None: not all is known."""
        found: dict[str, list[tuple[int, int]] | None] = {}
        name = ""
        for n, token in enumerate(self.tokens):
            before, after = self.at(n - 1).text, self.at(n + 1).text
            if token.text == "=" and token.kind == "sign":
                changed, end = "" if after in ("=", ">", name) else name, self.map_end(n + 1)
                name = ""
            elif token.kind == "word" and after in ("=", ":"):
                name, changed, end = token.text, "", 0
            else:
                is_method = before == "." and after == "("
                is_changed = token.kind == "word" and after in ("+", "|", ".", "[", "(")
                changed = token.text if is_changed and not is_method else ""
                end = self.added(n + 1) if changed else 0
            if changed:
                parts = found.setdefault(changed, [])
                if end and parts is not None:
                    parts.append((n, end))
                else:
                    found[changed] = None
        return found

    def added(self, n: int) -> int:
        """Return where the name or the map ends that is added to a variable; 0 if not known."""
        for _ in range(6):
            token = self.at(n)
            n += token.kind != "string" and token.text in ("+", "|", "=", ".", "[", "(", *_PUTS)
        return n if self.at(n).kind == "string" else self.map_end(n)

    def map_end(self, n: int) -> int:
        """Return where the map at a place ends; 0 if not all of it is in the text."""
        n += self.at(n).text == "new"
        for _ in range(8):
            n += 2 * (self.at(n).kind == "word" and self.at(n + 1).text == ".")
        kind = self.at(n).text
        if kind in _MAPS:
            n = self.after_types(n + 1)
        elif kind != "{":
            return 0
        end = last = n - 1 if kind == "empty" else self.closing.get(n, 0)
        if kind == "dict" and self.at(n + 1).text == "{":
            n, last = n + 1, end - 1
            if self.closing.get(n) != last:
                return 0
        for k in self.parts(n, last):
            if self.at(k).kind != "string" or self.at(k + 1).text not in (":", "->"):
                return 0
        then = self.at(end + 1)
        ends = then.kind == "end" or then.text in (")", ",", "}", "]", ";")
        is_next = then.line > self.at(end).line and then.text not in ("+", "|", ".")
        return end if ends or is_next else 0

    def after_types(self, n: int) -> int:
        return self.closing.get(n, n) + 1 if self.at(n).text == "[" else n

    def parts(self, n: int, last: int) -> Iterator[int]:
        """Yield the places after an opening bracket, and after its commas."""
        n += 1
        while n < last:
            yield n
            while n < last and self.at(n)[:2] != ("sign", ","):
                n = self.closing.get(n, n) + 1
            n += 1

    def is_known(self, n: int) -> bool:
        """Return whether the argument at a place is a map in the text, or a variable with one."""
        n += 2 if self.at(n).text == "*" else 0
        parts = self.variables.get(self.at(n).text) or []
        if self.at(n + 1).text == ")" and any(self.at(start).text == "=" for start, _ in parts):
            return True
        end = self.map_end(n)
        return end > 0 and self.at(end + 1).text == ")"

    def arguments(self, n: int) -> tuple[list[int], dict[str, int]]:
        """Return the places of a call's arguments: those without a name, and by their names.

        `n` is the place of the call's bracket, or of the types in front of it.
        """
        n = self.after_types(n)
        positional: list[int] = []
        named: dict[str, int] = {}
        for k in self.parts(n, self.closing.get(n, 0)):
            if self.at(k).kind == "word" and self.at(k + 1).text == "=":
                named[self.at(k).text] = k + 2
            else:
                positional.append(k)
        return positional, named

    def value(self, n: int, is_statement: bool = False) -> str | None:
        """Return the literal at a place as text; None for any other expression.

        A statement also ends with its line.
        """
        sign = self.at(n).text if self.at(n).text == "-" else ""
        token, then = self.at(n + len(sign)), self.at(n + len(sign) + 1)
        if then.text in ("L", "l") and token.kind == "number":
            then = self.at(n + len(sign) + 2)
        last = token.line + token.text.count("\n")
        ends = then.kind == "end" or then.text in (")", ",", "}", "]", ";")
        if not ends and not (is_statement and then.line > last and then.text not in (".", "+")):
            return None
        if token.kind == "string" and not sign:
            return token.text
        if token.kind == "number":
            return sign + token.text
        return token.text.lower() if token.text.lower() in ("true", "false") else None

    def at(self, n: int) -> Token:
        return self.tokens[n] if 0 <= n < len(self.tokens) else Token("end", "", 0)
