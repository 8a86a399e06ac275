"""Count what one command asks of the object store and of Kafka.

A real broker and a real S3 server are started. S3 requests are those that the server itself has
counted between the begin and the end of a command, those of Spark's S3A included. Kafka requests
are those that kafka-python has sent in any Python process of the command: a `sitecustomize` module
in its PYTHONPATH counts them as they are written to a connection. What Spark's own Kafka client
asks is not counted.

`--code DIR` measures the command of another working tree, by the same means: nothing here depends
on the modules that are measured. `--trace FILE` writes each request to S3 into a file: when, by
which client, the method and the key.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from s3_recorder import Recorder, recorder

from tidegate_local import kafka, s3

PROJECT = Path(__file__).parents[2]
TOPICS = ("one", "two", "three")
"""Each has a pipeline of its name; `one` is measured."""
PARTITIONS = 4
RECORDS = 4_000
COUNTER = """
import atexit, collections, os, pathlib
from kafka.net.connection import KafkaConnection

sent = collections.Counter()
write, connect = KafkaConnection._send_request, KafkaConnection.__init__

def counted(self, request, *args, **kwargs):
    sent[type(request).__name__.split("_")[0].removesuffix("Request")] += 1
    return write(self, request, *args, **kwargs)

def connected(self, *args, **kwargs):
    sent["(connections)"] += 1
    return connect(self, *args, **kwargs)

def save():
    if sent:
        path = pathlib.Path(os.environ["COUNTED_REQUESTS"], str(os.getpid()))
        path.write_text("".join(f"{name} {count}\\n" for name, count in sent.items()))

KafkaConnection._send_request, KafkaConnection.__init__ = counted, connected
atexit.register(save)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", type=Path, default=PROJECT, help="the working tree to measure")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--trace", type=Path, help="write the requests to S3 to this file")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-count-") as home,
        servers(Path(home)) as (bootstrap, server),
        recorder(server.endpoint) as recording,
    ):
        if args.trace:
            server = replace(server, endpoint=recording.endpoint)
            args.trace.write_text("")
        found = measured(Path(home), args.code.absolute(), bootstrap, server, recording, args.trace)
    print(json.dumps(found, indent=1) if args.json else table(found))


@contextmanager
def servers(home: Path) -> Iterator[tuple[str, s3.Server]]:
    """Start a broker and an S3 server; yield the broker's address and the server."""
    try:
        yield kafka.start(home / "kafka").bootstrap, s3.start(home / "s3", bucket="lakes")
    finally:
        kafka.stop(home / "kafka")
        s3.stop(home / "s3")


def measured(
    home: Path, code: Path, bootstrap: str, server: s3.Server, recording: Recorder, trace: Path
) -> dict[str, Any]:
    """Return the requests of each command, by verb; append them to `trace`, if it is given."""
    env = environment(home, code, bootstrap, server)
    for topic in TOPICS:
        send(bootstrap, topic)
        tidegate(env, "run", topic, "--run-id", "first")
    send(bootstrap, "one")
    commands = {
        "run, one chunk": ("run", "one", "--run-id", "chunk"),
        "run, nothing new": ("run", "one", "--run-id", "nothing"),
        "status, one pipeline": ("status", "one"),
        f"status, {len(TOPICS)} pipelines": ("status",),
    }
    found = {}
    for name, command in commands.items():
        recording.requests.clear()
        found[name] = counted(home, server, env, command)
        if trace:
            with trace.open("a") as file:
                file.write(f"# {name}\n")
                file.writelines(
                    f"{each.at:9.3f} {each.client:8} {each.method:6} {each.target} {each.range}\n"
                    for each in recording.requests
                )
    return found


def environment(home: Path, code: Path, bootstrap: str, server: s3.Server) -> dict[str, str]:
    """Return the environment of a command; writes the pipelines and the counting module."""
    pipelines, counter = home / "pipelines", home / "counter"
    for directory in (pipelines, counter, home / "counted"):
        directory.mkdir()
    (counter / "sitecustomize.py").write_text(COUNTER)
    for topic in TOPICS:
        form = {"name": topic, "kind": "ingest", "topics": [topic], "lake": "s3://lakes/lake"}
        (pipelines / f"{topic}.yaml").write_text(json.dumps(form))
    connections = {
        "KAFKA": {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}},
        "SPARK": {"conn_type": "spark", "host": "local[2]"},
    }
    foreign = ("TIDEGATE_H", "TIDEGATE_P", "AIRFLOW", "AWS_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        **{f"AIRFLOW_CONN_{name}_DEFAULT": json.dumps(c) for name, c in connections.items()},
        **server.environment,
        "PYTHONPATH": os.pathsep.join([str(code / "include"), str(counter)]),
        "COUNTED_REQUESTS": str(home / "counted"),
        "TIDEGATE_HOME": str(home / "stack"),
        "TIDEGATE_PIPELINES": str(pipelines),
    }


def send(bootstrap: str, topic: str) -> None:
    """Send records to every partition of a topic, which is created if it is not there."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    if topic not in admin.list_topics():
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    sent = [producer.send(topic, value=b"%d" % n, partition=n % PARTITIONS) for n in range(RECORDS)]
    for each in sent:
        each.get(30)
    producer.close()


def tidegate(env: Mapping[str, str], *args: str) -> None:
    """Run a command to its end; it must succeed."""
    command = [sys.executable, "-c", "from tidegate.cli.main import run; run()", *args]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{args}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def counted(
    home: Path, server: s3.Server, env: Mapping[str, str], command: tuple[str, ...]
) -> dict[str, Any]:
    """Run a command, and return what it asked for."""
    for file in (home / "counted").iterdir():
        file.unlink()
    before, began = s3_requests(server), time.monotonic()
    tidegate(env, *command)
    seconds = time.monotonic() - began
    broker: Counter[str] = Counter()
    for file in (home / "counted").iterdir():
        for line in file.read_text().splitlines():
            name, count = line.split(" ")
            broker[name] += int(count)
    connections = broker.pop("(connections)", 0)
    return {
        "seconds": round(seconds, 1),
        "s3": dict(sorted((s3_requests(server) - before).items())),
        "kafka": dict(sorted(broker.items())),
        "kafka_connections": connections,
    }


def s3_requests(server: s3.Server) -> Counter[str]:
    """Return how many requests of each kind the server has counted until now."""
    with urllib.request.urlopen(server.metrics) as answer:
        text = answer.read().decode()
    found: Counter[str] = Counter()
    pattern = r'^SeaweedFS_s3_request_total\{.*type="(\w+)"\} (\S+)$'
    for kind, number in re.findall(pattern, text, re.MULTILINE):
        found[kind] += int(float(number))
    return found


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table: a row for each command, a column for each kind of request."""
    kinds = sorted({kind for each in found.values() for kind in each["s3"]})
    rows = [["", *kinds, "all of S3", "Kafka requests", "connections", "seconds"]]
    for name, each in found.items():
        asked = [each["s3"].get(kind, 0) for kind in kinds]
        numbers = [*asked, sum(asked), sum(each["kafka"].values()), each["kafka_connections"]]
        rows.append([name, *map(str, numbers), str(each["seconds"])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


if __name__ == "__main__":
    main()
