"""What one writes without thinking of settings: a topic, from its beginning to now, as Parquet.

`spark-submit plain_spark.py BOOTSTRAP TOPIC DIRECTORY [json|csv|avro SCHEMA]`: with a schema, the
values are also columns, by Spark's own function.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

bootstrap, topic, directory, *decoder = sys.argv[1:]
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
if decoder:
    text = F.col("value").cast("string")
    match decoder:
        case "avro", columns:
            parsed = from_avro("value", columns)
        case "csv", columns:
            parsed = F.from_csv(text, columns)
        case _, columns:
            parsed = F.from_json(text, columns)
    records = records.withColumn("parsed", parsed).select("*", "parsed.*").drop("parsed")
records.write.parquet(directory)
spark.stop()
