"""Send the rows of one job file, by its own `spark-submit egress.py JOB_FILE`."""

import sys

from tidegate.spark.jobs.egress import run

if __name__ == "__main__":
    sys.exit(run())
