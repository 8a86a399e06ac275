"""Command lines of `spark-submit`, and lists of `--conf name=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.pipelines.translation.given import Given

IS_ONE = re.compile(r"(?:^|\s)(?:spark-submit|--conf)(?:\s|=)")
_CONF = re.compile(
    r"(?:^|\s)(--conf|-c|--[a-z][a-z-]*)(?:\s+|=)"
    r"((?![-\\])(?:[^\s\"']|\"(?:\\.|[^\"\\])*\"|'[^']*')+)"
)
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
    for match in _CONF.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        option, value = match[1], match[2]
        if value[0] in "\"'":
            value = value[1:-1]
        if option in ("--conf", "-c"):
            name, separator, value = value.partition("=")
            yield Given(name if separator else "", _bare(value), line)
        else:
            yield Given(_OF_SPARK.get(option, option), _bare(value), line)


def _bare(value: str) -> str:
    """Return a value without quotes of its own: `--conf name="a b"`."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
