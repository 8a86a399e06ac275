"""The settings in effect of an ingest that gives none, as `explain` and reports show them."""

SETTINGS = {
    "kafka.fetch.max.wait.ms": {"value": "1", "origin": "tidegate"},
    "kafka.isolation.level": {"value": "read_committed", "origin": "tidegate"},
    "kafka.max.partition.fetch.bytes": {"value": "2097152", "origin": "tidegate"},
    "kafka.max.poll.records": {"value": "10000", "origin": "tidegate"},
    "kafka.receive.buffer.bytes": {"value": "-1", "origin": "tidegate"},
    "groupIdPrefix": {"value": "tidegate", "origin": "tidegate"},
    "kafkaConsumer.pollTimeoutMs": {"value": "30000", "origin": "tidegate"},
    "spark.kafka.consumer.cache.evictorThreadRunInterval": {"value": "100ms", "origin": "tidegate"},
    "spark.kafka.consumer.cache.timeout": {"value": "500ms", "origin": "tidegate"},
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": {
        "value": "100ms", "origin": "tidegate",
    },
    "spark.kafka.consumer.fetchedData.cache.timeout": {"value": "0", "origin": "tidegate"},
}  # fmt: skip
