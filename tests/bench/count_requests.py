"""Count what one command asks of the object store and of Kafka.

A real broker and a real server of S3, Google Cloud Storage or Azure Blob Storage are started.
Requests to the store are recorded by a proxy before it, those of Spark included. Kafka requests
are those that kafka-python has sent in any Python process of the command: a `sitecustomize` module
in its PYTHONPATH counts them as they are written to a connection. What Spark's own Kafka client
asks is not counted.

`--code DIR` measures the command of another working tree, by the same means: nothing here depends
on the modules that are measured. `--trace FILE` writes each request to the store into a file: when,
by which client, the method and the key.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from tidegate_local import gcs, kafka, s3

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests"))
from support import azure_server, store_proxy  # noqa: E402
from support.store_proxy import StoreProxy  # noqa: E402

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
    parser.add_argument(
        "--store", choices=store_proxy.ENDPOINTS, default="s3", help="of which kind the store is"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--trace", type=Path, help="write the requests to the store to this file")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-count-") as home,
        broker(Path(home)) as bootstrap,
        store(args.store, Path(home)) as (lake, variables, proxy),
    ):
        if args.trace:
            args.trace.write_text("")
        env = environment(Path(home), args.code.absolute(), bootstrap, lake, variables)
        found = measured(Path(home), bootstrap, env, proxy, args.trace)
    print(json.dumps(found, indent=1) if args.json else table(found))


@contextmanager
def broker(home: Path) -> Iterator[str]:
    """Start a broker; yield its address."""
    try:
        yield kafka.start(home / "kafka").bootstrap
    finally:
        kafka.stop(home / "kafka")


@contextmanager
def store(scheme: str, home: Path) -> Iterator[tuple[str, dict[str, str], StoreProxy]]:
    """Start a server and a proxy before it; yield the URL of a lake and the variables for it."""
    with (
        server(scheme, home) as (bucket, variables),
        store_proxy.before(scheme, variables) as (proxied, proxy),
    ):
        yield f"{scheme}://{bucket}/lake", proxied, proxy


@contextmanager
def server(scheme: str, home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a server; yield its bucket and the variables with which a client uses it."""
    if scheme == "abfss":
        with azure_server.running() as azure:
            yield azure.bucket, azure.environment
        return
    kind = {"s3": s3, "gs": gcs}[scheme]
    try:
        yield "lakes", kind.start(home / scheme, bucket="lakes").environment
    finally:
        kind.stop(home / scheme)


def measured(
    home: Path, bootstrap: str, env: Mapping[str, str], proxy: StoreProxy, trace: Path | None
) -> dict[str, Any]:
    """Return the requests of each command, by kind; append them to `trace`, if it is given."""
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
        found[name] = counted(home, proxy, env, command)
        if trace:
            with trace.open("a") as file:
                file.write(f"# {name}\n")
                file.writelines(
                    f"{each.at:9.3f} {each.client:8} {each.kind:6} {each.target} {each.range}\n"
                    for each in proxy.requests
                )
    return found


def environment(
    home: Path, code: Path, bootstrap: str, lake: str, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a command; writes the pipelines and the counting module."""
    pipelines, counter = home / "pipelines", home / "counter"
    for directory in (pipelines, counter, home / "counted"):
        directory.mkdir()
    (counter / "sitecustomize.py").write_text(COUNTER)
    for topic in TOPICS:
        form = {"name": topic, "kind": "ingest", "topics": [topic], "lake": lake}
        (pipelines / f"{topic}.yaml").write_text(json.dumps(form))
    connections = {
        "KAFKA": {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}},
        "SPARK": {"conn_type": "spark", "host": "local[2]"},
    }
    foreign = ("TIDEGATE_H", "TIDEGATE_P", "AIRFLOW", "AWS_", "GOOGLE_", "AZURE_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        **{f"AIRFLOW_CONN_{name}_DEFAULT": json.dumps(c) for name, c in connections.items()},
        **variables,
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
    home: Path, proxy: StoreProxy, env: Mapping[str, str], command: tuple[str, ...]
) -> dict[str, Any]:
    """Run a command, and return what it asked for."""
    for file in (home / "counted").iterdir():
        file.unlink()
    proxy.requests.clear()
    began = time.monotonic()
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
        "store": dict(sorted(Counter(each.kind for each in proxy.requests).items())),
        "kafka": dict(sorted(broker.items())),
        "kafka_connections": connections,
    }


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table: a row for each command, a column for each kind of request."""
    kinds = sorted({kind for each in found.values() for kind in each["store"]})
    rows = [["", *kinds, "all", "Kafka requests", "connections", "seconds"]]
    for name, each in found.items():
        asked = [each["store"].get(kind, 0) for kind in kinds]
        numbers = [*asked, sum(asked), sum(each["kafka"].values()), each["kafka_connections"]]
        rows.append([name, *map(str, numbers), str(each["seconds"])])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


if __name__ == "__main__":
    main()
