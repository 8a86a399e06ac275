"""What one writes without thinking of settings: Parquet files into a topic.

`spark-submit plain_egress.py BOOTSTRAP TOPIC DIRECTORY`.
"""

import sys
import time

from pyspark.sql import SparkSession

bootstrap, topic, directory = sys.argv[1:]
spark = SparkSession.builder.appName("plain").getOrCreate()
started = time.monotonic()
(
    spark.read.parquet(directory)
    .select("key", "value")
    .write.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", topic)
    .save()
)
print(f"sent, {time.monotonic() - started:.2f} s")
spark.stop()
