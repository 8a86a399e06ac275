"""Programs in Python or Scala: options, settings of sessions, and maps of settings in them.

Nothing is run: only what is written as a literal is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tidegate.pipelines.translation import direct_stream
from tidegate.pipelines.translation.given import Given, Part, Read
from tidegate.pipelines.translation.tokens import NAME, Tokens, tokens_of

IS_ONE = re.compile(
    r"\.\s*(?:option|options|readStream|writeStream)\b|KafkaUtils|ConsumerStrategies"
    r"|[\"']\s*->|^\s*(?:va[lr]\s+)?\w+\s*=\s*(?:\{|dict\()",
    re.MULTILINE,
)
_PARTS: dict[str, Part] = {
    "read": "read", "readStream": "read", "write": "write", "writeStream": "write",
}  # fmt: skip
_FORMATS = ("parquet", "json", "csv", "text", "orc")


def read(text: str) -> Read:
    """Return the settings that a program gives as literals."""
    program = tokens_of(text)
    found = (*direct_stream.settings(program), *_settings(program))
    is_stream = bool({"readStream", "writeStream"} & program.words) or direct_stream.is_one(program)
    return Read(found, "a Spark program", is_stream=is_stream, is_program=True)


def _settings(program: Tokens) -> Iterator[Given]:
    """Yield the settings, each by the name that it has in the program."""
    part: Part = ""
    for n, token in enumerate(program.tokens):
        after_dot = n > 0 and program.tokens[n - 1].text == "."
        if token.kind == "word" and after_dot and token.text in _PARTS:
            part = _PARTS[token.text]
        elif token.kind == "word" and after_dot and program.at(n + 1).text == "(":
            yield from (replace(each, part=part) for each in _call(program, n, part))
        elif token.kind == "string" and (value := program.entry(n)):
            if NAME.fullmatch(token.text):
                is_statement = "=" in (program.at(n - 1).text, program.at(value - 1).text)
                yield Given(token.text, program.value(value, is_statement), token.line)
        elif token.kind == "word" and token.text in ("StringDecoder", "DefaultDecoder"):
            yield Given("StringDecoder", "", token.line)


def _call(program: Tokens, n: int, part: Part) -> Iterator[Given]:
    """Yield what a method's call gives: `.option(name, value)`, `.format(value)` and others."""
    word, first = program.tokens[n], program.at(n + 2)
    match word.text:
        case "option" | "config" | "set" if program.at(n + 3).text == ",":
            named = first.kind == "string" and NAME.fullmatch(first.text)
            if named and (word.text == "option" or first.text.startswith("spark.")):
                yield Given(first.text, program.value(n + 4), word.line)
            elif word.text == "option":
                yield Given("", None, word.line)
        case "options" if not program.is_known(n + 2):
            yield Given("", None, word.line)
        case "appName" | "setAppName":
            yield Given("spark.app.name", program.value(n + 2), word.line)
        case "master" | "setMaster":
            yield Given("spark.master", program.value(n + 2), word.line)
        case "format" if first.text == "kafka":
            pass  # what all settings are about
        case "format" | "outputMode" | "queryName" | "schema" | "partitionBy" if part:
            yield Given(word.text, program.value(n + 2), word.line)
        case "load" | "save" | "start" | "toTable" if part:
            yield from _paths(program, n)
        case format_ if part and format_ in _FORMATS:
            yield Given("format", format_, word.line)
            yield from _paths(program, n)
        case "trigger":
            yield Given("trigger", _trigger(program, n + 2), word.line)


def _paths(program: Tokens, n: int) -> Iterator[Given]:
    """Yield the path of a call that reads or writes, and the options among its arguments.

    Several paths, or a path and other arguments without a name, are not known.
    """
    line = program.tokens[n].line
    paths, options = program.arguments(n + 1)
    if any(program.at(k).text == "*" and program.at(k + 1).text == "*" for k in paths):
        yield Given("", None, line)
    elif paths:
        yield Given("path", program.value(paths[0]) if len(paths) == 1 else None, line)
    for name, k in options.items():
        yield Given(name, program.value(k), line)


def _trigger(program: Tokens, n: int) -> str | None:
    """Return the interval of a trigger; `once` or `continuous` for those kinds."""
    inside = program.tokens[n : n + 6]
    for token in inside:
        if token.text.lower() in ("once", "availablenow", "continuous"):
            return "continuous" if token.text.lower() == "continuous" else "once"
    return next((token.text for token in inside if token.kind == "string"), None)
