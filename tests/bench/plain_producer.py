"""The same by hand: one process that reads with pyarrow and sends with librdkafka.

`python plain_producer.py BOOTSTRAP TOPIC DIRECTORY`: acks=all, idempotent, lz4, as Tidegate sends.
"""

import sys
import time

import pyarrow.dataset as ds
from confluent_kafka import Producer

bootstrap, topic, directory = sys.argv[1:]
started = time.monotonic()
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "linger.ms": 20,
        "batch.size": 512 * 1024,
        "queue.buffering.max.messages": 1_000_000,
    }
)
for batch in ds.dataset(directory).to_batches(columns=["key", "value"]):
    for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    producer.poll(0)
if left := producer.flush(120):
    raise SystemExit(f"{left} records were not delivered")
print(f"sent, {time.monotonic() - started:.2f} s")
