"""What one writes without thinking of settings: a topic, from its beginning to now, as Parquet.

`spark-submit plain_spark.py BOOTSTRAP TOPIC DIRECTORY [SCHEMA]`: with a schema, as DDL, the values
are also columns, by `from_json`.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

bootstrap, topic, directory, *schema = sys.argv[1:]
spark = SparkSession.builder.appName("plain").getOrCreate()
records = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("kafka.isolation.level", "read_committed")
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("endingOffsets", "latest")
    .load()
)
for columns in schema:
    parsed = F.from_json(F.col("value").cast("string"), columns)
    records = records.withColumn("json", parsed).select("*", "json.*").drop("json")
records.write.parquet(directory)
spark.stop()
