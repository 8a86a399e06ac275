"""The table of rights in the docs: with exactly these each work is done, with one fewer it is not.

The refusal comes at once and names the right; lake and topics stay as they were.
"""

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from support import doc_pages, in_process, spark_session, topic_reader, topic_records
from support.cli_user import Terminal
from support.secured_broker import PASSWORD, SecuredBroker
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.launch.token_settings import client_options
from tidegate.spark.failures import describe_thrown

ROW = re.compile(r"\| (.+) \| ([A-Z_]+) \| the (topics|target topics|group) \| (.+) \|")
RECORDS = 200
SECONDS = 20
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Right:
    """A row of the table: what the right is for, and what happens without it."""

    work: str
    operation: str
    resource: str
    without: str

    @property
    def error(self) -> str | None:
        found = re.fullmatch(r"`(\w+)`", self.without)
        return found and found[1]


TABLE = [Right(*row) for row in ROW.findall(doc_pages.page("docs/how-to/secured-cluster.md"))]
WORK = list(dict.fromkeys(right.work for right in TABLE))


@dataclass
class World:
    """A user of its own, without a right, with topics and a group of its own."""

    secured: SecuredBroker
    terminal: Terminal
    user: str

    @property
    def admin(self) -> Terminal:
        """The same terminal with all rights, and without a login."""
        return Terminal(self.terminal.home, self.secured.admin)

    def grant(self, right: Right) -> None:
        self.secured.allow(self.user, *self._resource(right), right.operation)

    def _resource(self, right: Right) -> tuple[str, str]:
        name = {"topics": "source", "target topics": "target", "group": "group"}[right.resource]
        return ("group" if right.resource == "group" else "topic"), f"{self.user}-{name}"

    def state(self) -> tuple[dict[str, int], list[int]]:
        """Return the files of the lake, and the ends of the target if it exists."""
        topics = topic_records.names(self.secured.admin)
        target = f"{self.user}-target"
        ends = topic_reader.ends(self.secured.admin, target) if target in topics else {}
        return self.terminal.tree(), list(ends.values())


@pytest.fixture
def world(secured: SecuredBroker, tmp_path: Path) -> Iterator[World]:
    user = f"user-{next(_numbers)}"
    secured.set_password(user, PASSWORD)
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": user, "sasl_password": PASSWORD}
    extra = secured.connection("UNENCRYPTED", **login)
    made = World(secured, Terminal(tmp_path, extra["bootstrap.servers"], extra), user)
    topic_records.numbers(secured.admin, f"{user}-source", RECORDS, partitions=2)
    made.terminal.lake.mkdir()
    yield made
    secured.withdraw(user)


def prepare(world: World, work: str) -> None:
    """Write the pipeline `p`, and make what the work needs."""
    terminal, user = world.terminal, world.user
    if work.startswith("egress"):
        source = terminal.home / "in"
        source.mkdir()
        (source / "a").write_text("\n".join(map(str, range(RECORDS))))
        target: dict[str, object] = {"topic": f"{user}-target"}
        if "partitions" in work:
            target["partitions"] = 3
        else:
            topic_records.create(world.secured.admin, f"{user}-target", partitions=2)
        terminal.egress("p", source={"path": str(source), "format": "text"}, target=target)
        return
    settings = {
        "ingest with `progress_group`": {"progress_group": f"{user}-group"},
        "ingest with `start.group`": {"start": {"group": f"{user}-group"}},
    }
    terminal.pipeline("p", [f"{user}-source"], **settings.get(work, {}))
    if work.startswith("verify"):
        world.admin.run("run", "p")


def do(world: World, work: str) -> tuple[dict[str, object], str]:
    """Do the work; return what it prints as JSON (if refused, the error) and its log."""
    commands = {"status": [("status", "p")]}
    commands["verify --against-kafka"] = [("verify", "p", "--against-kafka")]
    for command in commands.get(work, [("explain", "p"), ("run", "p", "--run-id", "r")]):
        done = world.terminal.run(*command, "--json", code=None)
        printed = json.loads(done.stdout)
        if done.returncode:
            assert done.returncode == 3, (done.stdout, done.stderr)
            break
    return printed, done.stderr


def doctor(world: World) -> list[str]:
    """Return what the doctor says of the pipeline, without what is ok."""
    done = world.terminal.run("doctor", "p", "--json", code=None)
    lines = json.loads(done.stdout)["checks"]
    return [f"{line['says']} → {line['fix']}" for line in lines if line["state"] != "ok"]


def needed(work: str) -> list[Right]:
    """Return all rights for a work; `X with Y` needs those of X, too."""
    return [r for r in TABLE if r.work in (work, work.partition(" with ")[0])]


def no_spark(*_: object, **__: object) -> None:
    raise AssertionError("Spark was started")


def test_the_docs_have_a_table() -> None:
    assert len(TABLE) == 10
    assert {right.error or "a warning" for right in TABLE} == {"NotAuthorised", "a warning"}


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
def test_with_exactly_these_rights(world: World, work: str) -> None:
    """The work is done, without a warning of rights; and the doctor finds nothing."""
    prepare(world, work)
    for right in needed(work):
        world.grant(right)
    if not work.startswith(("status", "verify")):  # they alone need fewer than a run
        assert doctor(world) == []
    printed, log = do(world, work)
    assert "error" not in printed, printed
    assert "not permitted" not in log
    if "progress" in work:
        assert topic_records.group_offsets(world.secured.admin, f"{world.user}-group")


@pytest.mark.slow
def test_describe_suffices_to_look_at_offsets(world: World) -> None:
    """Status, coverage and cursors of a pipeline that others run. Spark's driver needs no more to
    look up offsets; to plan needs READ, which the executors need.
    """
    topic = f"{world.user}-source"
    world.terminal.pipeline("p", [topic])
    world.admin.run("run", "p")
    topic_records.numbers(world.secured.admin, topic, 50, partitions=2, first=RECORDS)
    world.secured.allow(world.user, "topic", topic, "DESCRIBE")
    status = world.terminal.run("status", "p", "--json")
    assert "not permitted" not in status.stderr
    shown = json.loads(status.stdout)
    assert (shown["problems"], shown["broker"]) == ([], None)
    partitions = shown["topics"][topic]["partitions"].values()
    assert sum(each["lag"] for each in partitions) == 50
    covered = world.terminal.json("coverage", "p")["topics"][topic]["partitions"]
    spans = [each for p in covered.values() for each in p["intervals"]]
    assert {each["state"] for each in spans} == {"covered", "unseen"}
    assert world.terminal.json("offsets", "show", "p")["offsets"] == {topic: {"0": 100, "1": 100}}
    error = world.terminal.json("explain", "p", code=3)["error"]
    assert (error["name"], "READ" in error["message"]) == ("NotAuthorised", True)
    login = client_options(KafkaCluster("k", world.terminal.extra), world.terminal.home)
    source = spark_session.shared().read.format("kafka").options(**login, subscribe=topic)
    rows = source.load()
    assert rows.rdd.getNumPartitions() == 2  # the driver has looked their offsets up
    with pytest.raises((Py4JJavaError, CapturedException)) as refused:
        rows.count()
    assert "TopicAuthorizationException" in describe_thrown(refused.value)


@pytest.mark.slow
def test_write_denied_on_one_of_several_topics(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to the other topic either; topic and right are named (K20)."""
    topics = [f"{world.user}-target", f"{world.user}-other"]
    for name in topics:
        topic_records.create(world.secured.admin, name, partitions=2)
        world.secured.allow(world.user, "topic", name, "READ", "DESCRIBE", "DESCRIBE_CONFIGS")
    world.secured.allow(world.user, "topic", topics[0], "WRITE")
    (world.terminal.home / "in").mkdir()
    (world.terminal.home / "in/a").write_text("\n".join(map(str, range(RECORDS))))
    chosen = f"if(cast(value AS INT) % 2 = 0, '{topics[0]}', '{topics[1]}')"
    world.terminal.egress(
        "p", source={"path": str(world.terminal.home / "in"), "format": "text"},
        target={"topics": topics}, columns={"topic": chosen, "value": "value"},
    )  # fmt: skip
    before = world.terminal.tree()
    with monkeypatch.context() as patched:
        patched.setattr(in_process, "submit_here", no_spark)
        printed, _ = do(world, "egress")
    error = printed["error"]
    assert isinstance(error, dict)
    assert (error["name"], error["kind"]) == ("NotAuthorised", "terminal")
    assert f"WRITE on {topics[1]}" in error["message"]
    assert topics[0] not in error["message"]
    assert world.terminal.tree() == before
    ends = [topic_reader.ends(world.secured.admin, name).values() for name in topics]
    assert [sum(each) for each in ends] == [0, 0]
    world.secured.allow(world.user, "topic", topics[1], "WRITE")
    assert world.terminal.json("run", "p", "--run-id", "r")["rows"] == RECORDS
    ends = [topic_reader.ends(world.secured.admin, name).values() for name in topics]
    assert [sum(each) for each in ends] == [RECORDS // 2, RECORDS // 2]


@pytest.mark.slow
@pytest.mark.parametrize("right", TABLE, ids=lambda r: f"{r.work}, {r.operation} on {r.resource}")
def test_with_one_right_fewer(world: World, right: Right, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is refused before Spark starts, or goes on with a warning; both name the right."""
    prepare(world, right.work)
    if right.error:
        monkeypatch.setattr(in_process, "submit_here", no_spark)
    for other in needed(right.work):
        if other != right:
            world.grant(other)
    if right.operation in ("READ", "WRITE"):  # these imply DESCRIBE: a topic that is hidden has
        world.grant(replace(right, operation="DESCRIBE"))  # a row of its own
    before, started = world.state(), time.monotonic()
    says = doctor(world)
    printed, log = do(world, right.work)
    assert time.monotonic() - started < SECONDS
    if right.resource != "group":  # the doctor checks no group
        assert any(right.operation in line for line in says), says
    if right.error is None:
        assert "error" not in printed, printed
        assert right.operation in log + "".join(says)
        return
    assert "error" in printed, log
    error = printed["error"]
    assert (error["name"], error["kind"]) == (right.error, "terminal"), error
    assert right.operation in error["message"]
    assert world.state() == before
