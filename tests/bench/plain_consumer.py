"""The same by hand: processes that read with librdkafka and write with pyarrow.

`python plain_consumer.py BOOTSTRAP TOPIC DIRECTORY PROCESSES`: the partitions are shared among the
processes; the files are compressed as Tidegate's are. It keeps no offsets and proves nothing.
"""

import multiprocessing
import sys
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

ROWS = 100_000
SCHEMA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)  # fmt: skip


def copy(bootstrap: str, topic: str, partitions: Sequence[int], path: str) -> None:
    """Write the records of partitions, from their beginning to their end now, into a file."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True,
            "queued.max.messages.kbytes": 262_144, "fetch.message.max.bytes": 8 << 20,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    unread, rows = len(partitions), []
    with pq.ParquetWriter(
        path, SCHEMA, compression="zstd", compression_level=1, use_dictionary=False
    ) as writer:
        while unread:
            for message in consumer.consume(10_000, timeout=0.1):  # it waits for so many
                if message.error():
                    unread -= 1
                    continue
                kind, time = message.timestamp()
                rows.append(
                    (message.key(), message.value(), message.partition(), message.offset(), time,
                     kind - 1)
                )  # fmt: skip
            if rows and (len(rows) >= ROWS or not unread):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
                writer.write_table(pa.table(arrays, schema=SCHEMA))
                rows = []
    consumer.close()


def main(bootstrap: str, topic: str, directory: str, processes: int) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "plain"})
    partitions = sorted(client.list_topics(topic, timeout=30).topics[topic].partitions)
    client.close()
    shares = [partitions[n::processes] for n in range(processes)]
    jobs = [(bootstrap, topic, s, f"{directory}/{n}.parquet") for n, s in enumerate(shares) if s]
    if processes == 1:
        copy(*jobs[0])
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.starmap(copy, jobs)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))  # type: ignore[call-arg]
