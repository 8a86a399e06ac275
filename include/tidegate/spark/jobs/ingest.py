"""Stage the chunks of one job: `spark-submit ingest.py JOB_FILE`, or `--in-lake DIRECTORY`."""

import signal
import sys

from tidegate.spark import lean_pyspark
from tidegate.spark.parent_death import end_with_parent


def run() -> int:
    """Do the job of the first argument. Return the exit code."""
    end_with_parent(signal.SIGKILL)  # before the imports below take their time
    lean_pyspark.prepare_import()
    import logging

    from tidegate.spark.ingest_driver import main

    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    return main(*sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
