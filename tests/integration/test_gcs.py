"""Whole runs with the lake in a bucket of Google Cloud Storage, as fake-gcs-server serves it."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from support import topic_reader, topic_records
from support.buckets import JSON
from support.cli_user import Terminal
from tidegate.core import layout
from tidegate.errors import ConfigurationError
from tidegate.lake import gcs_buckets
from tidegate.lake.store import open_store
from tidegate_check.lake import Checker, Stored
from tidegate_local.kafka import Broker


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> str:
    """Return the URL of a lake for one test."""
    return f"gs://lakes/{request.function.__name__}/lake"


@pytest.fixture
def terminal(broker: Broker, gcs: Any, tmp_path: Path, lake: str) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap, environ=gcs.environment, url=lake)


@pytest.fixture
def in_environment(gcs: Any) -> Iterator[None]:
    """Configure this process for the server, and forget it before lakes are looked for."""
    with mock.patch.dict(os.environ, gcs.environment):
        yield


def check(lake: str, name: str) -> None:
    """Check a lake on the server, by the URL in which PyArrow names one."""
    where = (gcs_buckets.endpoint() or "").removeprefix("http://").replace(":", "%3A")
    place = lake.replace("gs://", "gs://anonymous@")
    assert Checker(Stored(f"{place}/{name}?scheme=http&endpoint_override={where}")).run() == []


@pytest.mark.slow
@pytest.mark.usefixtures("in_environment")
def test_there_and_back(terminal: Terminal, broker: Broker, lake: str) -> None:
    """Everything that a topic can hold, to the lake and back; a replay; files of the bucket. Each
    record is there once, and a killed run has lost none.
    """
    with topic_records.fill(broker.bootstrap, "google", records=4_000) as filled:
        terminal.pipeline("google", ["google"], max_records=2_500)
        terminal.end_at("publish.committed", "run", "google", "--run-id", "first")
        report = json.loads(terminal.run("run", "google", "--run-id", "first", "--json").stdout)
        assert report["rows"] == filled.visible.total()
        assert len(report["commits"]) > 1
        found = terminal.json("verify", "google", "--against-kafka")
        assert (found["differences"], found["against_kafka"]["rows"]) == (0, report["rows"])
    check(lake, "google")
    (counted,) = terminal.json("sql", "google", "SELECT count(*) AS n FROM lake")["rows"]
    assert counted in ([report["rows"]], {"n": report["rows"]})

    target = {"topic": "google-back", "partitions": 4}
    terminal.egress("back", source={"lake": "google"}, target=target, lake=lake)
    assert json.loads(terminal.run("run", "back", "--json").stdout)["rows"] == report["rows"]
    sent = topic_reader.read(broker.bootstrap, "google-back")
    assert len(sent) == report["rows"]

    terminal.run("replay", "google", "--replay-id", "again", "--start", "0")
    check(lake, "google")
    assert terminal.json("verify", "google", "--against-kafka")["differences"] == 0

    files = open_store(lake, "in")
    for n in range(3):
        files.create(f"{n}.json", b'{"k": "%d", "v": "x"}\n' % n)
    terminal.egress(
        "files", source={"path": f"{lake}/in/*.json", **JSON}, lake=lake,
        target={"topic": "google-files", "partitions": 1}, columns={"key": "k", "value": "v"},
    )  # fmt: skip
    terminal.run("run", "files")
    terminal.run("run", "files")
    keys = Counter(each.key for each in topic_reader.read(broker.bootstrap, "google-files"))
    assert keys == {b"0": 1, b"1": 1, b"2": 1}
    terminal.run("sweep", "google")
    terminal.run("doctor", "google")
    check(lake, "google")


@pytest.mark.usefixtures("in_environment")
def test_folders_of_the_connector_are_no_files(gcs: Any, lake: str) -> None:
    """Spark's connector makes objects of 0 bytes for directories: they go with the attempt."""
    store = open_store(lake, "p")
    attempt = f"{layout.STAGING}{'0' * 16}/0/a/"
    system, place = gcs_buckets.GoogleStorage().arrow(f"{lake}/p")
    for directory in ("", "topic=t"):
        system.create_dir(f"{place}/{attempt}{directory}".rstrip("/"), recursive=True)
    store.create(f"{attempt}topic=t/x.parquet", b"rows")
    assert [each.path for each in store.objects(layout.STAGING)] == [f"{attempt}topic=t/x.parquet"]
    store.prune(attempt)  # not while there are files
    assert store.size(f"{attempt}topic=t/x.parquet") == 4
    store.delete(f"{attempt}topic=t/x.parquet")
    store.prune(attempt)
    below = f"{place}/{attempt}".removeprefix("lakes/")
    asked = gcs_buckets.endpoint()
    import httpx

    answer = httpx.get(f"{asked}/storage/v1/b/lakes/o", params={"prefix": below}, trust_env=False)
    assert answer.json().get("items", []) == []


@pytest.mark.usefixtures("in_environment")
def test_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    """Terminal, and named."""
    with pytest.raises(ConfigurationError, match="gs://nowhere/lake/p"):
        open_store("gs://nowhere/lake", "p").create("a", b"")
