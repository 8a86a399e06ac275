"""What one writes for typed columns: a topic as Parquet, its values by `from_json`.

`spark-submit plain_decode.py BOOTSTRAP TOPIC DIRECTORY SCHEMA`.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

bootstrap, topic, directory, schema = sys.argv[1:]
spark = SparkSession.builder.appName("plain").getOrCreate()
(
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("kafka.isolation.level", "read_committed")
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("endingOffsets", "latest")
    .load()
    .withColumn("json", F.from_json(F.col("value").cast("string"), schema))
    .select("*", "json.*")
    .drop("json")
    .write.parquet(directory)
)
spark.stop()
