"""Command lines of `spark-submit`, and lists of `--conf name=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.pipelines.translation.given import Given

IS_ONE = re.compile(r"(?:^|\s)(?:spark-submit|--conf)(?:\s|=)")
_WORD = re.compile(r"\\\r?\n|\n|(?:\\[^\n]|[^\s\"'\\]|\"(?:\\.|[^\"\\])*\"|'[^']*')+|\S", re.DOTALL)
_OPTION = re.compile(r"(--[a-z][a-z-]*|-c)(?:=(.+))?", re.DOTALL)
_FLAGS = ("--verbose", "--supervise", "--help", "--version")
_OF_SPARK = {
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--name": "spark.app.name",
    "--packages": "spark.jars.packages",
    "--jars": "spark.jars",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
}


def read(text: str) -> Iterator[Given]:
    """Yield the settings; arguments of the program itself are none."""
    line, option = 1, ""
    begun = ended = False  # the options of a command, and these options
    for match in _WORD.finditer(text):
        word = match[0]
        if word == "\n":
            begun, ended, option = False, False, ""
        elif ended or word in ("\\\n", "\\\r\n"):
            pass
        elif named := _OPTION.fullmatch(word):
            begun, option = True, "" if named[1] in _FLAGS or named[2] else named[1]
            if named[2]:
                yield _setting(named[1], named[2], line)
        elif option:
            yield _setting(option, word, line)
            option = ""
        elif not word.startswith("-"):
            ended, begun = begun, begun or word.endswith("spark-submit")
        line += word.count("\n")


def _setting(option: str, value: str, line: int) -> Given:
    value = _bare(value)
    if option not in ("--conf", "-c"):
        return Given(_OF_SPARK.get(option, option), value, line)
    name, separator, value = value.partition("=")
    return Given(name if separator else "", _bare(value), line)


def _bare(value: str) -> str:
    """Return a value without quotes of its own: `--conf name="a b"`."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
