"""Programs in Python or Scala: options, settings of sessions, and maps of settings in them.

Nothing is run: only what is written as a literal is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidegate.pipelines.translation.given import Given, Part, Read, unescaped

IS_ONE = re.compile(
    r"\.\s*(?:option|options|readStream|writeStream)\b|KafkaUtils|ConsumerStrategies"
    r"|[\"']\s*->|^\s*(?:va[lr]\s+)?\w+\s*=\s*(?:\{|dict\()",
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>[A-Za-z]{0,2}(?:\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)
        |"(?:\\.|[^"\\\n])*(?:"|\\?$)|'(?:\\.|[^'\\\n])*(?:'|\\?$)))
    |(?P<number>\d+(?=\D|\Z))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>->|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_PARTS: dict[str, Part] = {
    "read": "read", "readStream": "read", "write": "write", "writeStream": "write",
}  # fmt: skip
_FORMATS = ("parquet", "json", "csv", "text", "orc")
_COLLECTIONS = ("Set", "Seq", "List", "Array", "asList")


class Token(NamedTuple):
    """A part of a program; the text of a string has neither quotes nor prefix."""

    kind: str
    text: str
    line: int


def read(text: str) -> Read:
    """Return the settings that a program gives as literals."""
    program = _Program(tuple(_tokens(text)))
    found = tuple(program.settings())
    words = {each.text for each in program.tokens if each.kind == "word"}
    is_stream = bool(words & {"readStream", "writeStream", "KafkaUtils", "StreamingContext"})
    return Read(found, "a Spark program", is_stream=is_stream, is_program=True)


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
class _Program:
    tokens: Sequence[Token]

    def settings(self) -> Iterator[Given]:
        """Yield the settings, each by the name that it has in the program."""
        part: Part = ""
        for n, token in enumerate(self.tokens):
            after_dot = n > 0 and self.tokens[n - 1].text == "."
            if token.kind == "word" and after_dot and token.text in _PARTS:
                part = _PARTS[token.text]
            elif token.kind == "word" and after_dot and self._at(n + 1).text == "(":
                yield from (replace(each, part=part) for each in self._call(n, part))
            elif token.kind == "string" and self._at(n + 1).text in ("->", ":"):
                if _NAME.fullmatch(token.text):
                    yield Given(token.text, self._value(n + 2), token.line)
            elif token.kind == "word" and token.text in ("StringDecoder", "DefaultDecoder"):
                yield Given("StringDecoder", "", token.line)
        yield from self._topics()

    def _call(self, n: int, part: Part) -> Iterator[Given]:
        """Yield what a method's call gives: `.option(name, value)`, `.format(value)` and others."""
        word, first = self.tokens[n], self._at(n + 2)
        match word.text:
            case "option" | "config" | "set" if self._at(n + 3).text == ",":
                named = first.kind == "string" and _NAME.fullmatch(first.text)
                if named and (word.text == "option" or first.text.startswith("spark.")):
                    yield Given(first.text, self._value(n + 4), word.line)
                elif word.text == "option":
                    yield Given("", None, word.line)
            case "appName" | "setAppName":
                yield Given("spark.app.name", self._value(n + 2), word.line)
            case "master" | "setMaster":
                yield Given("spark.master", self._value(n + 2), word.line)
            case "format" if first.text == "kafka":
                pass  # what all settings are about
            case "format" | "outputMode" | "queryName" | "schema" | "partitionBy" if part:
                yield Given(word.text, self._value(n + 2), word.line)
            case "load" | "save" | "start" if part and first.text != ")":
                yield Given("path", self._value(n + 2), word.line)
            case format_ if part and format_ in _FORMATS:
                yield Given("format", format_, word.line)
                yield Given("path", self._value(n + 2), word.line)
            case "trigger":
                yield Given("trigger", self._trigger(n + 2), word.line)

    def _trigger(self, n: int) -> str | None:
        """Return the interval of a trigger; `once` or `continuous` for those kinds."""
        inside = self.tokens[n : n + 6]
        for token in inside:
            if token.text.lower() in ("once", "availablenow", "continuous"):
                return "continuous" if token.text.lower() == "continuous" else "once"
        return next((token.text for token in inside if token.kind == "string"), None)

    def _topics(self) -> Iterator[Given]:
        """Yield the topics of a direct stream: the first list of names in the program.

        Those of another direct stream are not known.
        """
        words = {each.text for each in self.tokens if each.kind == "word"}
        if not words & {"createDirectStream", "Subscribe"}:
            return
        streams = [each for each in self.tokens if each.text == "createDirectStream"]
        yield from (Given("subscribe", None, each.line) for each in streams[1:])
        for n, token in enumerate(self.tokens):
            collection = token.text in _COLLECTIONS and self._at(n + 1).text == "("
            if collection or (token.text == "[" and self._at(n + 1).kind == "string"):
                names = self._names(n + (2 if collection else 1))
                if names:
                    yield Given("subscribe", ",".join(names), token.line)
                    return

    def _names(self, n: int) -> list[str]:
        """Return the literals from here to the bracket; none if there is anything else."""
        names: list[str] = []
        while (token := self._at(n)).kind == "string" and _NAME.fullmatch(token.text):
            names.append(token.text)
            if self._at(n + 1).text in (")", "]"):
                return names
            n += 2
        return []

    def _value(self, n: int) -> str | None:
        """Return the literal at a place as text; None for any other expression."""
        sign = self._at(n).text if self._at(n).text == "-" else ""
        token, then = self._at(n + len(sign)), self._at(n + len(sign) + 1)
        if then.text in ("L", "l") and token.kind == "number":
            then = self._at(n + len(sign) + 2)
        if then.kind != "end" and then.text not in (")", ",", "}", "]", ";"):
            return None
        if token.kind == "string" and not sign:
            return token.text
        if token.kind == "number":
            return sign + token.text
        return token.text.lower() if token.text.lower() in ("true", "false") else None

    def _at(self, n: int) -> Token:
        return self.tokens[n] if n < len(self.tokens) else Token("end", "", 0)
