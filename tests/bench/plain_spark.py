"""What one writes without thinking of settings: a topic, from its beginning to now, as Parquet.

`spark-submit plain_spark.py BOOTSTRAP TOPIC DIRECTORY…`: writes it once into each directory.
"""

import sys
import time

from pyspark.sql import SparkSession

bootstrap, topic, *directories = sys.argv[1:]
spark = SparkSession.builder.appName("plain").getOrCreate()
for directory in directories:
    started = time.monotonic()
    (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
        .write.parquet(directory)
    )
    print(f"wrote in {time.monotonic() - started:.3f} s", flush=True)
spark.stop()
