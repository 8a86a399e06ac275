"""Stage the chunks of one job file, by its own `spark-submit ingest.py JOB_FILE`."""

import sys

from tidegate.spark.jobs.ingest import run

if __name__ == "__main__":
    sys.exit(run())
