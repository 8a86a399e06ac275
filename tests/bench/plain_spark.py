"""What one writes without thinking of settings: a topic, from its beginning to now, as Parquet.

`spark-submit plain_spark.py BOOTSTRAP TOPIC DIRECTORY [SCHEMA]`: with a schema, the values are also
columns, by `from_json` if it is DDL, or by `from_avro` if it is one of Avro.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

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
    if columns.startswith("{"):
        parsed = from_avro("value", columns)
    else:
        parsed = F.from_json(F.col("value").cast("string"), columns)
    records = records.withColumn("parsed", parsed).select("*", "parsed.*").drop("parsed")
records.write.parquet(directory)
spark.stop()
