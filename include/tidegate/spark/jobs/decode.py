"""Decode a sample of records: `spark-submit decode.py JOB_FILE`."""

import signal
import sys

from tidegate.spark import lean_pyspark
from tidegate.spark.parent_death import end_with_parent


def run() -> int:
    """Do the job of the first argument. Return the exit code."""
    end_with_parent(signal.SIGKILL)
    lean_pyspark.prepare_import()
    from tidegate.spark.sample_driver import main

    return main(*sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
