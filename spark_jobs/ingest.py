"""Stage the chunks of one job file: `spark-submit ingest.py JOB_FILE`."""

import signal

from tidegate.spark.parent_death import end_with_parent

end_with_parent(signal.SIGKILL)  # before the imports below take their time

import logging  # noqa: E402
import sys  # noqa: E402

from tidegate.spark.ingest import main  # noqa: E402

if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    sys.exit(main(sys.argv[1]))
