"""What a driver does not import, and what it does not wait for."""

import subprocess
import sys

import pytest

LOOK = """
import sys
from tidegate.spark import lean_pyspark
{before}
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
assert not NumpyScalarConverter().can_convert(1) and not NumpyArrayConverter().can_convert([1])
print({{"numpy", "pandas"}} & sys.modules.keys() or "neither")
import numpy
"""
END = """
import threading, time
from tidegate.spark import lean_pyspark
{before}
from pyspark.accumulators import _start_update_server
server = _start_update_server("")
time.sleep(0.05)
began = time.monotonic()
server.shutdown()
print(time.monotonic() - began < 0.25)
"""


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_numpy_and_pandas_are_not_imported() -> None:
    """PySpark looks for numpy's numbers among those that it hands to Java. Who needs numpy itself
    can still import it.
    """
    assert "pandas" in printed(LOOK.format(before=""))
    assert printed(LOOK.format(before="lean_pyspark.prepare_import()")) == "neither"


@pytest.mark.parametrize(
    ("before", "soon"), [("", "False"), ("lean_pyspark.prepare_import()", "True")],
    ids=["as PySpark does", "as a driver"],
)  # fmt: skip
def test_an_end_waits_for_no_server(before: str, soon: str) -> None:
    """PySpark's looks every 0.5 s whether it is to end, and is asked here soon after a look."""
    assert printed(END.format(before=before)) == soon
