#!/bin/sh
# Start the driver's Python with the caller's own PYTHONPATH. Spark puts its zipped copy of
# PySpark in front of the installed one, and compiling that anew takes half a second every time.
PYTHONPATH=$TIDEGATE_PYTHONPATH exec "$PYSPARK_PYTHON" "$@"
