"""Whole runs with the lake in Google Cloud Storage, as fake-gcs-server serves it, and in Azure Blob
Storage, as Azurite does.
"""

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from support import bucket_servers, publisher_race, topic_reader, topic_records
from support.buckets import JSON
from support.cli_user import Terminal
from support.secret_scan import HOLDERS, Scan
from tidegate.core import layout
from tidegate.errors import ConfigurationError
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.store import open_store
from tidegate_local.kafka import Broker

Check = Callable[[str], None]


@pytest.fixture(params=[each for each in bucket_servers.SCHEMES if each.values[0] != "s3"])
def lake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a lake for one test, for which this process is configured."""
    return bucket_servers.place_on(request.param, request, monkeypatch)


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Check:
    return lambda place: bucket_servers.check(place, request)


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path, lake: str, request: pytest.FixtureRequest) -> Terminal:
    server = request.getfixturevalue(bucket_servers.FIXTURES[lake.partition(":")[0]])
    return Terminal(tmp_path, broker.bootstrap, environ=server.environment, url=lake)


@pytest.mark.slow
def test_there_and_back(terminal: Terminal, broker: Broker, lake: str, check: Check) -> None:
    """Everything that a topic can hold, to the lake and back; a replay; files of the bucket. Each
    record is there once, and a killed run has lost none.
    """
    name = lake.partition(":")[0]
    with topic_records.fill(broker.bootstrap, name, records=4_000) as filled:
        terminal.pipeline("p", [name], max_records=2_500)
        terminal.end_at("publish.committed", "run", "p", "--run-id", "first")
        report = json.loads(terminal.run("run", "p", "--run-id", "first", "--json").stdout)
        assert report["rows"] == filled.visible.total()
        assert len(report["commits"]) > 1
        found = terminal.json("verify", "p", "--against-kafka")
        assert (found["differences"], found["against_kafka"]["rows"]) == (0, report["rows"])
    check(f"{lake}/p")
    (counted,) = terminal.json("sql", "p", "SELECT count(*) AS n FROM lake")["rows"]
    assert counted in ([report["rows"]], {"n": report["rows"]})

    target = {"topic": f"{name}-back", "partitions": 4}
    terminal.egress("back", source={"lake": "p"}, target=target, lake=lake)
    assert json.loads(terminal.run("run", "back", "--json").stdout)["rows"] == report["rows"]
    sent = topic_reader.read(broker.bootstrap, f"{name}-back")
    assert len(sent) == report["rows"]

    terminal.run("replay", "p", "--replay-id", "again", "--start", "0")
    check(f"{lake}/p")
    assert terminal.json("verify", "p", "--against-kafka")["differences"] == 0

    files = open_store(lake, "in")
    for n in range(3):
        files.create(f"{n}.json", b'{"k": "%d", "v": "x"}\n' % n)
    terminal.egress(
        "files", source={"path": f"{lake}/in/*.json", **JSON}, lake=lake,
        target={"topic": f"{name}-files", "partitions": 1}, columns={"key": "k", "value": "v"},
    )  # fmt: skip
    terminal.run("run", "files")
    terminal.run("run", "files")
    keys = Counter(each.key for each in topic_reader.read(broker.bootstrap, f"{name}-files"))
    assert keys == {b"0": 1, b"1": 1, b"2": 1}
    terminal.run("sweep", "p")
    terminal.run("doctor", "p")
    check(f"{lake}/p")


@pytest.mark.slow
def test_publishers_race(terminal: Terminal, broker: Broker, lake: str, tmp_path: Path) -> None:
    """With concurrent publishers, each chunk has one commit, and no entry is overwritten."""
    name = f"race-{lake.partition(':')[0]}"
    topic_records.numbers(broker.bootstrap, name, 3_000)
    terminal.pipeline("race", [name], max_records=1_000)
    terminal.run("run", "race", "--run-id", "r", code=86, TIDEGATE_FAULT="publish.before:exit")
    store = open_store(lake, "race")

    def entries() -> dict[str, bytes]:
        return {n: store.get(layout.LOG + n) or b"" for n in store.names(layout.LOG)}

    publisher_race.of_publishers(terminal, tmp_path, entries, rounds=3)
    assert terminal.json("run", "race", "--run-id", "r")["rows"] == 3_000


@pytest.mark.slow
def test_processes_create_one_name(lake: str) -> None:
    """Of 16 processes one creates each of 50 names, and what is there is its own."""
    with multiprocessing.get_context("spawn").Pool(16) as pool:
        won = pool.starmap(bucket_servers.create_names, [(lake, n) for n in range(16)])
    store = open_store(lake, "p")
    for name in range(50):
        (winner,) = (n for n, names in enumerate(won) if name in names)
        assert store.get(f"log/{name}") == b"%d" % winner


@pytest.mark.slow
def test_no_secret_is_shown(broker: Broker, tmp_path: Path, azure: Any) -> None:
    """The account's key reaches Spark in no argument, log, event log or file."""
    lake = f"abfss://{azure.bucket}/secret"
    terminal = Terminal(tmp_path, broker.bootstrap, environ=azure.environment, url=lake)
    topic_records.numbers(broker.bootstrap, "azure-secret", 100)
    events = tmp_path / "events"
    events.mkdir()
    spark = {"conf": {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}}
    terminal.pipeline("secret", ["azure-secret"], spark=spark)
    scan = Scan(control="azure-secret", allowed={HOLDERS: {"key"}})
    scan.add(key=azure.environment["AZURE_STORAGE_ACCOUNT_KEY"])
    with scan.processes(lambda _: True):
        done = terminal.run("run", "secret", "--json")
    scan.look_at("output", "stdout", done.stdout)
    scan.look_at("output", "stderr", done.stderr)
    assert any(events.rglob("*"))
    scan.look_at_tree("files", tmp_path)
    scan.nothing_found(seen=["output", "files"])
    scan.allowed.clear()  # Spark's process was looked at while it ran
    assert {hit.place for hit in scan.hits()} == {HOLDERS}


def test_folders_of_the_connector_are_no_files(lake: str, request: pytest.FixtureRequest) -> None:
    """Spark's connector makes objects of 0 bytes for directories: they go with the attempt."""
    store = open_store(lake, "p")
    attempt = f"{layout.STAGING}{'0' * 16}/0/a/"
    system, place = buckets_of(lake).arrow(f"{lake}/p")
    for directory in ("", "topic=t"):
        system.create_dir(f"{place}/{attempt}{directory}".rstrip("/"), recursive=True)
    store.create(f"{attempt}topic=t/x.parquet", b"rows")
    assert [each.path for each in store.objects(layout.STAGING)] == [f"{attempt}topic=t/x.parquet"]
    store.prune(attempt)  # not while there are files
    assert store.size(f"{attempt}topic=t/x.parquet") == 4
    store.delete(f"{attempt}topic=t/x.parquet")
    store.prune(attempt)
    gone = system.get_file_info(f"{place}/{attempt}".rstrip("/"))
    assert gone.type == pyarrow.fs.FileType.NotFound


def test_a_bucket_that_is_not_there(lake: str) -> None:
    """Terminal, and named."""
    scheme, _, rest = lake.partition("://")
    nowhere = f"{scheme}://{rest.replace('lakes', 'nowhere', 1)}"
    with pytest.raises(ConfigurationError, match=f"{scheme}://nowhere"):
        open_store(nowhere, "p").create("a", b"")
