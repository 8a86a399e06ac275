"""Programs in Python or Scala: options, settings of sessions, and maps of settings in them.

Nothing is run: only what is written as a literal is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
_PUTS = ("put", "putIfAbsent", "setProperty", "update", "updated", "setdefault")
_MAPS = ("Map", "HashMap", "Properties", "dict", "empty")
_STREAMS = ("createDirectStream", "createStream", "Subscribe", "SubscribePattern", "Assign")


class Token(NamedTuple):
    """A part of a program; the text of a string has neither quotes nor prefix."""

    kind: str
    text: str
    line: int


def read(text: str) -> Read:
    """Return the settings that a program gives as literals."""
    program = _Program(tuple(_tokens(text)))
    found = (*program.settings(), *program.topics())
    found = (*program.unread(), *found)
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
            elif token.kind == "string" and (value := self._entry(n)):
                if _NAME.fullmatch(token.text):
                    is_statement = "=" in (self._at(n - 1).text, self._at(value - 1).text)
                    yield Given(token.text, self._value(value, is_statement), token.line)
            elif token.kind == "word" and token.text in ("StringDecoder", "DefaultDecoder"):
                yield Given("StringDecoder", "", token.line)

    def _entry(self, n: int) -> int:
        """Return the place of the value if the string at a place is a name in a map; 0 if not."""
        call, before = self._at(n - 2).text, self._at(n - 1).text
        after, then, end = (self._at(n + k).text for k in (1, 2, 3))
        if after in ("->", ":") or (after == "," and before == "(" and call in _PUTS):
            return n + 2
        is_set = before + after in ("[]", "()") and then == "=" and end not in ("=", ">")
        return n + 3 if is_set else 0

    def unread(self) -> Iterator[Given]:
        """Yield a direct stream, unless all settings of Kafka in maps are its own, with the group.

        One of Kafka 0.8 has no group.
        """
        entries = {n: token.text for n, token in enumerate(self.tokens) if token.kind == "string"
                   and "." in token.text and not token.text.startswith("spark.")
                   and _NAME.fullmatch(token.text) and self._entry(n)}  # fmt: skip
        own: set[int] = set()
        line = last = 0
        for n, token in enumerate(self.tokens):
            if n > last and token.text in _STREAMS and self._at(n + 1).text in ("(", "["):
                line = line or token.line
                first = self._after_types(n + 1)
                last = self._closing.get(first, 0)
                for k in range(first, last):
                    own.update(*(range(start, end + 1) for start, end in self._given(k)))
        is_known = own >= entries.keys() and {"group.id", "metadata.broker.list"} & {
            *entries.values()
        }
        if line and not is_known:
            yield Given("", None, line)

    def _given(self, n: int) -> list[tuple[int, int]]:
        """Return where the parts of the map are that is an argument at a place."""
        if self._at(n + 1).text in (")", ","):
            return self._variables.get(self._at(n).text) or []
        end = self._map(n)
        return [(n, end)] if end else []

    @cached_property
    def _closing(self) -> dict[int, int]:
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
    def _variables(self) -> dict[str, list[tuple[int, int]] | None]:
        """Return where maps are set to variables, and added to these; None: not all is known."""
        found: dict[str, list[tuple[int, int]] | None] = {}
        name = ""
        for n, token in enumerate(self.tokens):
            before, after = self._at(n - 1).text, self._at(n + 1).text
            if token.text == "=" and token.kind == "sign":
                changed, end = "" if after in ("=", ">", name) else name, self._map(n + 1)
                name = ""
            elif token.kind == "word" and after in ("=", ":"):
                name, changed, end = token.text, "", 0
            else:
                is_method = before == "." and after == "("
                is_changed = token.kind == "word" and after in ("+", "|", ".", "[", "(")
                changed = token.text if is_changed and not is_method else ""
                end = self._added(n + 1) if changed else 0
            if changed:
                parts = found.setdefault(changed, [])
                if end and parts is not None:
                    parts.append((n, end))
                else:
                    found[changed] = None
        return found

    def _added(self, n: int) -> int:
        """Return where the name or the map ends that is added to a variable; 0 if not known."""
        for _ in range(6):
            token = self._at(n)
            n += token.kind != "string" and token.text in ("+", "|", "=", ".", "[", "(", *_PUTS)
        return n if self._at(n).kind == "string" else self._map(n)

    def _map(self, n: int) -> int:
        """Return where the map at a place ends; 0 if not all of it is in the text."""
        n += self._at(n).text == "new"
        for _ in range(8):
            n += 2 * (self._at(n).kind == "word" and self._at(n + 1).text == ".")
        kind = self._at(n).text
        if kind in _MAPS:
            n = self._after_types(n + 1)
        elif kind != "{":
            return 0
        end = last = n - 1 if kind == "empty" else self._closing.get(n, 0)
        if kind == "dict" and self._at(n + 1).text == "{":
            n, last = n + 1, end - 1
            if self._closing.get(n) != last:
                return 0
        for k in self._parts(n, last):
            if self._at(k).kind != "string" or self._at(k + 1).text not in (":", "->"):
                return 0
        then = self._at(end + 1)
        ends = then.kind == "end" or then.text in (")", ",", "}", "]", ";")
        is_next = then.line > self._at(end).line and then.text not in ("+", "|", ".")
        return end if ends or is_next else 0

    def _after_types(self, n: int) -> int:
        return self._closing.get(n, n) + 1 if self._at(n).text == "[" else n

    def _parts(self, n: int, last: int) -> Iterator[int]:
        """Yield the places after an opening bracket, and after its commas."""
        n += 1
        while n < last:
            yield n
            while n < last and self._at(n)[:2] != ("sign", ","):
                n = self._closing.get(n, n) + 1
            n += 1

    def _is_known(self, n: int) -> bool:
        """Return whether the argument at a place is a map in the text, or a variable with one."""
        n += 2 if self._at(n).text == "*" else 0
        parts = self._variables.get(self._at(n).text) or []
        if self._at(n + 1).text == ")" and any(self._at(start).text == "=" for start, _ in parts):
            return True
        end = self._map(n)
        return end > 0 and self._at(end + 1).text == ")"

    def _is_given_options(self, n: int) -> bool:
        """Return whether the call whose bracket is at a place has options among its arguments."""
        return any(
            self._at(k).text == "*"
            or (
                self._at(k + 1).text == "=" and self._at(k).text not in ("path", "format", "schema")
            )
            for k in self._parts(n, self._closing.get(n, 0))
        )

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
            case "options" if part != "write" and not self._is_known(n + 2):
                yield Given("", None, word.line)
            case "appName" | "setAppName":
                yield Given("spark.app.name", self._value(n + 2), word.line)
            case "master" | "setMaster":
                yield Given("spark.master", self._value(n + 2), word.line)
            case "format" if first.text == "kafka":
                pass  # what all settings are about
            case "format" | "outputMode" | "queryName" | "schema" | "partitionBy" if part:
                yield Given(word.text, self._value(n + 2), word.line)
            case "load" if part == "read" and self._is_given_options(n + 1):
                yield Given("", None, word.line)
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

    def topics(self) -> Iterator[Given]:
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
            before = self._at(n - 1)
            is_index = before.kind == "word" and before.text not in ("in", "return")
            is_list = token.text == "[" and self._at(n + 1).kind == "string" and not is_index
            if collection or is_list:
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

    def _value(self, n: int, is_statement: bool = False) -> str | None:
        """Return the literal at a place as text; None for any other expression.

        A statement also ends with its line.
        """
        sign = self._at(n).text if self._at(n).text == "-" else ""
        token, then = self._at(n + len(sign)), self._at(n + len(sign) + 1)
        if then.text in ("L", "l") and token.kind == "number":
            then = self._at(n + len(sign) + 2)
        last = token.line + token.text.count("\n")
        ends = then.kind == "end" or then.text in (")", ",", "}", "]", ";")
        if not ends and not (is_statement and then.line > last and then.text not in (".", "+")):
            return None
        if token.kind == "string" and not sign:
            return token.text
        if token.kind == "number":
            return sign + token.text
        return token.text.lower() if token.text.lower() in ("true", "false") else None

    def _at(self, n: int) -> Token:
        return self.tokens[n] if 0 <= n < len(self.tokens) else Token("end", "", 0)
