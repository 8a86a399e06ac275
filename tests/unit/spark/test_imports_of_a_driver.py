"""What a driver does not import."""

import subprocess
import sys

import pytest

LOOK = """
import sys
from tidegate.spark import compatibility
{before}
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
assert not NumpyScalarConverter().can_convert(1) and not NumpyArrayConverter().can_convert([1])
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("before", "printed"),
    [("", "True"), ("compatibility.without_numpy()", "False")],
    ids=["as PySpark does", "as a driver"],
)
def test_pandas_is_not_imported(before: str, printed: str) -> None:
    """PySpark looks for numpy's numbers among those that it hands to Java."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(before=before)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == printed
