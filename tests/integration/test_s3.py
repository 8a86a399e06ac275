"""Whole runs with the lake in a bucket of a real S3 server, checked by the oracle."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from support import oracle_client, publisher_race, topic_reader, topic_records
from support.buckets import BUCKET, JSON, content, key, keys
from support.cli_user import Terminal
from support.doc_pages import fenced
from support.process_list import CommandLines, spark_jvm
from tidegate.errors import LakeDamaged, LakeUnavailable
from tidegate.lake import multipart_uploads, s3_buckets
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import open_store
from tidegate_local import s3 as s3_server
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> str:
    """Return the URL of a lake for one test."""
    return f"s3://{BUCKET}/{request.function.__name__}/lake"


@pytest.fixture
def terminal(broker: Broker, s3: Server, tmp_path: Path, lake: str) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap, environ=s3.environment, url=lake)


@pytest.fixture
def in_environment(s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure this process for the server by environment variables."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


def requests(s3: Server) -> Counter[str]:
    """Return the server's counts of requests, by type."""
    with urllib.request.urlopen(s3.metrics) as answer:
        metrics = answer.read().decode()
    counted: Counter[str] = Counter()
    for kind, number in re.findall(
        r'^SeaweedFS_s3_request_total\{.*type="(\w+)"\} (\S+)$', metrics, re.MULTILINE
    ):
        counted[kind] += int(float(number))
    return counted


@pytest.mark.slow
def test_everything_a_topic_can_hold(
    terminal: Terminal, broker: Broker, s3: Server, lake: str, tmp_path: Path
) -> None:
    """By glob and by the ledger, the lake equals an independent consumer's records; the secret key
    is in no command line, output, event log or object (invariants 2, 6).
    """
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,  # to be searched
        "spark.eventLog.dir": events.as_uri(),
    }
    said = ""
    with (
        topic_records.fill(broker.bootstrap, "bucket", records=8_000) as filled,
        CommandLines() as seen,
    ):
        terminal.pipeline("bucket", ["bucket"], max_records=5_000, spark={"conf": conf})
        done = terminal.run("run", "bucket", "--run-id", "first", "--json")
        said += done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert report["rows"] == filled.visible.total()
        assert len(report["commits"]) > 1
        oracle_client.agree(broker.bootstrap, lake, "bucket", ["bucket"], environ=s3.environment)
    done = terminal.run("run", "bucket", "--run-id", "second")
    said += done.stdout + done.stderr
    listed = tmp_path / "files.json"
    listed.write_text(json.dumps(terminal.json("files", "bucket")))
    oracle_client.agree(
        broker.bootstrap, lake, "bucket", ["bucket"], files=listed, environ=s3.environment
    )
    found = terminal.json("verify", "bucket", "--against-kafka")
    assert found["differences"] == 0
    assert found["against_kafka"]["rows"] == filled.visible.total()

    page = (DOCS / "how-to/analysts.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*pyarrow\.dataset[^`]*)```", page)
    example = example.replace("s3://bucket/lake/orders", f"{lake}/bucket")
    example_run = subprocess.run(
        [sys.executable, "-c", example],
        env={**os.environ, **s3.environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert example_run.stdout.strip() == str([("bucket", filled.visible.total())]), (
        example_run.stderr
    )

    snippet, _ = fenced(page, "python")
    api_run = subprocess.run(
        [sys.executable, "-c", snippet.replace("my_flights", "bucket")],
        env=terminal.env(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert f", {filled.visible.total()})]" in api_run.stdout, api_run.stderr

    assert "fs.s3a.endpoint" in seen.text, "Spark's command line was looked at"
    assert "SparkContext: Submitted application" in said, "INFO was on"
    logged = b"".join(file.read_bytes() for file in events.rglob("*") if file.is_file())
    assert b"SparkListenerEnvironmentUpdate" in logged
    assert keys(s3, lake, r"_tidegate/log/.*json$")
    everything = b"".join(content(s3, lake, name) for name in keys(s3, lake))
    for where in (seen.text.encode(), said.encode(), logged, everything):
        assert s3.secret_key.encode() not in where


@pytest.mark.slow
def test_s3_requests_of_one_run(terminal: Terminal, broker: Broker, s3: Server) -> None:
    """The server counts no more requests than docs/how-to/s3.md says, for a run of one window with
    four files and for a run without new records.
    """
    topic_records.create(broker.bootstrap, "costs", partitions=4)
    terminal.pipeline("costs", ["costs"])
    terminal.run("run", "costs", "--run-id", "first")  # the origin
    topic_records.numbers(broker.bootstrap, "costs", 100_000)  # shorter ranges share a file
    before = requests(s3)
    terminal.run("run", "costs", "--run-id", "window")
    window = requests(s3) - before
    before = requests(s3)
    terminal.run("run", "costs", "--run-id", "nothing")
    nothing = requests(s3) - before
    print(f"a window of 4 files: {dict(window)}; nothing new: {dict(nothing)}")
    assert window["COPY"] == 5  # one per file, and one before the commit to check the permission
    bounds = {"PUT": 25, "POST": 10, "DELETE": 8, "LIST": 37, "GET": 44}
    assert all(window[kind] <= most for kind, most in bounds.items()), window
    assert set(window) <= {"COPY", *bounds}
    assert nothing["PUT"] == 3  # the frozen plan, the run's pointer to it, the run's end
    assert nothing.total() <= 16, nothing


@pytest.mark.faults
def test_a_killed_run_and_its_open_uploads(
    terminal: Terminal, broker: Broker, s3: Server, lake: str, in_environment: None
) -> None:
    """kill -9 of the JVM while files are uploaded: only sealed chunks are visible, the retry has
    the same plan, and open uploads are aborted, except recent ones and those of sealed or active
    attempts.
    """
    topic_records.numbers(broker.bootstrap, "killed", 300_000)
    terminal.pipeline("killed", ["killed"], max_records=100_000)
    store = open_store(lake, "killed")
    process = terminal.start("run", "killed", "--run-id", "r")
    until = time.monotonic() + 100
    while not keys(s3, lake, "_done.json$"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
    jvm = spark_jvm(process.pid)
    os.kill(jvm, signal.SIGSTOP)
    while not multipart_uploads.open_uploads(store):  # while it is stopped, none is completed
        os.kill(jvm, signal.SIGCONT)
        time.sleep(0.02)
        os.kill(jvm, signal.SIGSTOP)
        assert time.monotonic() < until
    os.kill(jvm, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 4
    manifests = keys(s3, lake, "/manifests/")
    assert 0 < len(manifests) < 3, "killed half way"
    spans = re.findall(r"-(\d{19})-(\d{19})-", "".join(keys(s3, lake, "/data/")))
    assert sum(int(last) - int(first) + 1 for first, last in spans) == 100_000 * len(manifests)
    (frozen,) = keys(s3, lake, r"/runs/.*1\.json$")

    left = multipart_uploads.open_uploads(store)
    assert left
    (attempt,) = {multipart_uploads.attempt_of(each) for each in left}
    assert attempt in left[0].path
    now = datetime.now(UTC)
    later = now + timedelta(hours=1)
    assert multipart_uploads.abort_uploads(store, before=now - timedelta(hours=1)) == []
    assert multipart_uploads.abort_uploads(store, before=later, in_progress=[attempt]) == []
    assert multipart_uploads.open_uploads(store) == left
    # Uploads of a sealed attempt are not aborted.
    made = json.loads(content(s3, lake, manifests[0]))
    sealed = Attempt(made["plan_id"], made["chunk"], made["attempt"]).directory + "x.parquet"
    s3.client().create_multipart_upload(Bucket=BUCKET, Key=key(lake, f"killed/{sealed}"))
    assert multipart_uploads.abort_uploads(store, before=later) == left
    assert [each.path for each in multipart_uploads.open_uploads(store)] == [sealed]

    report = terminal.json("run", "killed", "--run-id", "r")
    assert report["plan_id"] == json.loads(content(s3, lake, frozen))["plan_id"]
    assert report["rows"] == 300_000
    oracle_client.agree(broker.bootstrap, lake, "killed", ["killed"], environ=s3.environment)


@pytest.mark.faults
def test_publishers_race(
    terminal: Terminal, broker: Broker, s3: Server, lake: str, tmp_path: Path
) -> None:
    """With concurrent publishers, each chunk has one commit, and no entry is overwritten."""
    topic_records.numbers(broker.bootstrap, "race-s3", 3_000)
    terminal.pipeline("race", ["race-s3"], max_records=1_000)
    terminal.run("run", "race", "--run-id", "r", code=86, TIDEGATE_FAULT="publish.before:exit")
    assert len(keys(s3, lake, "/manifests/")) == 3
    publisher_race.of_publishers(
        terminal, tmp_path, lambda: {k: content(s3, lake, k) for k in keys(s3, lake, "/log/")},
        rounds=3,
    )  # fmt: skip
    assert terminal.json("run", "race", "--run-id", "r")["rows"] == 3_000
    oracle_client.agree(broker.bootstrap, lake, "race", ["race-s3"], environ=s3.environment)


def test_only_one_of_concurrent_creates_succeeds(lake: str, in_environment: None) -> None:
    """Of eight concurrent creates of one object, exactly one succeeds, in each of five rounds."""
    stores = [open_store(lake, "p") for _ in range(8)]
    for round_ in range(5):
        together = threading.Barrier(len(stores))

        def create(number: int, name: str = f"log/{round_}", start: threading.Barrier = together):
            start.wait(30)
            return stores[number].create(name, b"writer %d" % number)

        with ThreadPoolExecutor(len(stores)) as pool:
            created = list(pool.map(create, range(len(stores))))
        assert created.count(True) == 1
        assert stores[0].get(f"log/{round_}") == b"writer %d" % created.index(True)


@pytest.mark.slow
def test_a_large_object_is_copied_in_parts(
    s3: Server, lake: str, in_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied as a whole or not at all; the upload of a killed copy is aborted."""
    monkeypatch.setattr(s3_buckets, "PART", 5 * 1024 * 1024)
    store = open_store(lake, "p")
    data = os.urandom(12 * 1024 * 1024 + 7)
    source, target = "_tidegate/staging/a/0/b/x", "data/topic=t/x y=é"
    store.create(source, data)
    store.place(source, target, len(data))
    assert store.get(target) == data
    assert multipart_uploads.open_uploads(store) == []
    store.place(source, target, len(data))
    with pytest.raises(LakeDamaged, match="staging/nothing"):
        store.place("_tidegate/staging/nothing", "data/z", len(data))
    with pytest.raises((LakeDamaged, LakeUnavailable)):
        store.place(source, "data/z", 2 * len(data))  # the source is shorter than expected
    assert store.size("data/z") is None
    assert multipart_uploads.open_uploads(store) == []
    s3.client().create_multipart_upload(Bucket=BUCKET, Key=key(lake, "p/data/killed"))
    assert [each.path for each in multipart_uploads.open_uploads(store)] == ["data/killed"]
    later = datetime.now(UTC) + timedelta(hours=1)
    assert len(multipart_uploads.abort_uploads(store, before=later)) == 1
    assert multipart_uploads.open_uploads(store) == []


@pytest.mark.parametrize(
    ("wrong", "code", "name", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, 3, "LakeReadOnly", "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, 3, "LakeReadOnly", "InvalidAccessKeyId"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 4, "LakeUnavailable", "127.0.0.1:9"),
        ({"AWS_ALLOW_HTTP": ""}, 2, "ConfigurationError", "AWS_ALLOW_HTTP=true"),
        ({"TIDEGATE_LAKE": "s3://no-such-bucket/x"}, 2, "ConfigurationError", "NoSuchBucket"),
    ],
)
def test_wrong_s3_settings_are_reported_in_seconds(
    terminal: Terminal,
    topic: Callable[..., str],
    wrong: dict[str, str],
    code: int,
    name: str,
    said: str,
) -> None:
    """Wrong keys, endpoint or bucket: an error of one line, before Spark is started."""
    terminal.pipeline("wrong", [topic()], lake="${TIDEGATE_LAKE}")
    started = time.monotonic()
    env = {"TIDEGATE_LAKE": terminal.url, **wrong}
    error = terminal.json("run", "wrong", "--run-id", "bad", code=code, **env)["error"]
    # 6 s alone, for the retries of the store's client; 16 s were seen while three workers started
    # brokers, S3 servers and JVMs.
    assert time.monotonic() - started < 30
    assert error["name"] == name
    assert said in error["message"]
    assert "\n" not in error["message"]


def test_the_rule_of_the_page(s3: Server) -> None:
    """A bucket takes the rule of docs/how-to/s3.md, and keeps it as it is."""
    (rule,) = fenced((DOCS / "how-to/s3.md").read_text(), "json")
    client = s3.client()
    client.create_bucket(Bucket="ruled")
    asked = json.loads(rule)
    client.put_bucket_lifecycle_configuration(Bucket="ruled", LifecycleConfiguration=asked)
    found = client.get_bucket_lifecycle_configuration(Bucket="ruled")
    assert {"Rules": found["Rules"]} == asked


@pytest.mark.slow
def test_the_doctor_looks_at_a_bucket(terminal: Terminal, topic: Callable[..., str]) -> None:
    """Create-if-absent is atomic on this server; a wrong key is reported for the lake, not for the
    broker.
    """
    terminal.pipeline("seen", [topic()], lake="${TIDEGATE_LAKE}")

    def lines(code: int, **env: str) -> list[tuple[str, str]]:
        found = terminal.json("doctor", "seen", code=code, TIDEGATE_LAKE=terminal.url, **env)
        mine = [each for each in found["checks"] if each["pipeline"] and each["state"] != "ok"]
        return [(each["check"], f"{each['says']} → {each['fix']}") for each in mine]

    assert lines(0) == []
    ((check, says),) = lines(3, AWS_SECRET_ACCESS_KEY="wrong")
    assert (check, "SignatureDoesNotMatch" in says) == ("lake", True)


def consumed(bootstrap: str, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of all records of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    where = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(where, timeout=30)
    consumer.assign([where])
    for _ in range(end):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        yield message.key(), message.value()
    consumer.close()


def egress(
    terminal: Terminal, name: str, source: Mapping[str, Any], topic: str, **producer: int
) -> None:
    form = {
        "name": name,
        "kind": "egress",
        "source": dict(source),
        "target": {"topic": topic, "partitions": 1, "producer": producer},
        "lake": terminal.url,
        "settle": 0,
    }
    if "path" in source:
        form["columns"] = {"key": "k", "value": "v"}
    terminal.pipelines.mkdir(parents=True, exist_ok=True)
    (terminal.pipelines / f"{name}.yaml").write_text(json.dumps(form))


@pytest.mark.slow
def test_egress_of_files_and_of_a_lake_in_a_bucket(
    terminal: Terminal, broker: Broker, s3: Server, lake: str
) -> None:
    """An egress reads a bucket like a directory, also keys that must be escaped in URLs."""
    for name, number in (("day=1/a b.json", 1), ("day=2/c%41+ö.json", 2)):
        row = json.dumps({"k": f"k{number}", "v": f"v{number}"}).encode()
        s3.client().put_object(Bucket=BUCKET, Key=key(lake, f"in/{name}"), Body=row)
    egress(terminal, "files", {"path": f"{lake}/in/**/*.json", **JSON}, "files-from-s3")
    terminal.run("run", "files")
    assert sorted(consumed(broker.bootstrap, "files-from-s3")) == [(b"k1", b"v1"), (b"k2", b"v2")]

    topic_records.numbers(broker.bootstrap, "there", 100, partitions=1)
    terminal.pipeline("there", ["there"])
    terminal.run("run", "there")
    egress(terminal, "back", {"lake": "there"}, "back-from-s3")
    terminal.run("run", "back")
    there, back = (list(consumed(broker.bootstrap, t)) for t in ("there", "back-from-s3"))
    assert there == back
    assert len(there) == 100


def put(s3: Server, url: str, **objects: bytes) -> None:
    for name, body in objects.items():
        s3.client().put_object(Bucket=BUCKET, Key=key(url, name), Body=body)


def parquet(**columns: list[Any]) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


@pytest.mark.slow
def test_bad_objects_are_left_out(
    terminal: Terminal, broker: Broker, s3: Server, lake: str
) -> None:
    """A truncated object, and one with other columns, by name and without Spark."""
    topic_records.create(broker.bootstrap, "refused-from-s3", partitions=1)
    put(s3, f"{lake}/cut", a=parquet(k=["1"], v=["2"])[:-3])
    mixed = {"a": parquet(k=["1"], v=["2"]), "b": parquet(k=["1"], v=[2])}
    put(s3, f"{lake}/mixed", **mixed, c=mixed["a"][:-3])
    for name, message, rows in (
        ("cut", "a: not a whole Parquet file: ", 0),
        ("mixed", "b: other columns than most others: v int64 / string. ", 1),
    ):
        source = {"path": f"{lake}/{name}", "format": "parquet"}
        egress(terminal, name, source, "refused-from-s3")
        found = terminal.json("run", name, code=3)["error"]
        assert found["name"] == "PartitionsLeftOut"
        assert message in found["message"]
        assert len(keys(s3, lake, f"^{name}/_tidegate/log/")) == 2 * rows
        assert topic_reader.ends(broker.bootstrap, "refused-from-s3") == {0: rows}


@pytest.mark.slow
def test_an_object_with_a_bad_row_is_named_and_the_others_are_sent(
    terminal: Terminal, broker: Broker, s3: Server, lake: str
) -> None:
    """The error names file and row; the claim is released, and the same run sends the rest."""
    topic_records.create(broker.bootstrap, "poisoned-from-s3", partitions=1)
    good = b'{"k":"k","v":"v"}\n'
    put(s3, f"{lake}/in", a=good * 3, b=good + b"poison\n")
    egress(terminal, "out", {"path": f"{lake}/in", **JSON}, "poisoned-from-s3")
    error = terminal.json("run", "out", code=3)["error"]
    assert error["name"] == "PartitionsLeftOut"
    assert "b: row 1: not one JSON object" in error["message"]
    assert terminal.json("status", "out")["open_claims"] == []
    assert terminal.json("run", "out", code=3)["error"]["name"] == "PartitionsLeftOut"
    assert [each.row for each in topic_reader.read(broker.bootstrap, "poisoned-from-s3")] == [
        (0, 0), (0, 1), (0, 2),
    ]  # fmt: skip


@pytest.mark.faults
def test_an_egress_from_a_bucket_is_killed_half_way(
    terminal: Terminal, broker: Broker, s3: Server, lake: str
) -> None:
    """kill -9 of the JVM: after the retry all rows are in the target; duplicates are counted."""
    topic, rows = "killed-from-s3", 40_000
    topic_records.create(broker.bootstrap, topic, partitions=1)
    expected = {
        (i, n): f"{name}-{n}".encode() for i, name in enumerate("ab") for n in range(rows // 2)
    }
    lines = {
        name: "".join(f'{{"k":"{n}","v":"{name}-{n}"}}\n' for n in range(rows // 2)).encode()
        for name in "ab"
    }
    put(s3, f"{lake}/in", **lines)
    slow = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}
    egress(terminal, "out", {"path": f"{lake}/in", **JSON}, topic, **slow)
    process = terminal.start("run", "out", "--run-id", "r")
    while topic_reader.ends(broker.bootstrap, topic)[0] < rows // 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.kill(spark_jvm(process.pid), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 4
    assert topic_reader.ends(broker.bootstrap, topic)[0] < rows
    report = terminal.json("run", "out", "--run-id", "r")
    found = topic_reader.read(broker.bootstrap, topic)
    assert {each.row: each.value for each in found} == expected
    assert (report["rows"], report["duplicates"]) == (rows, len(found) - rows)
    assert terminal.json("verify", "out", "--against-kafka")["differences"] == 0


@pytest.mark.slow
def test_the_server_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    """After a stop and after a kill, the server starts on the same ports with its objects and keys;
    it listens on the loopback address only, and only the owner can read its keys.
    """
    home = tmp_path / "s3"
    try:
        first = s3_server.start(home, bucket=BUCKET)
        first.client().put_object(Bucket=BUCKET, Key="a", Body=b"kept")
        listening = {
            each.laddr.ip
            for each in psutil.Process(first.pid).net_connections(kind="inet")
            if each.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
        assert (home / "keys.json").stat().st_mode & 0o777 == 0o600
        assert first.secret_key not in Path(f"/proc/{first.pid}/cmdline").read_text()
        assert s3_server.start(home, bucket=BUCKET) == first
        assert s3_server.stop(home)
        assert s3_server.find(home) is None
        second = s3_server.start(home, bucket=BUCKET)
        os.kill(second.pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(second.pid)], timeout=10)
        third = s3_server.start(home, bucket=BUCKET)
        assert third.environment == first.environment
        assert third.client().get_object(Bucket=BUCKET, Key="a")["Body"].read() == b"kept"
    finally:
        s3_server.stop(home)
    assert not list(Path("/tmp").glob(f"seaweedfs-*{third.endpoint.rpartition(':')[2]}.sock"))
