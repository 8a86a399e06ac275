"""Errors are reported in seconds, with a fix; lake, ledger and topics do not change."""

import gzip
import re
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support import oracle_client, topic_reader, topic_records
from support.cli_user import TIDEGATE, Terminal
from support.process_list import CommandLines, is_job
from tidegate_local import kafka
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

PASSWORD = "canary-8d1f0c"


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap, processes=True)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """Yield a broker that also listens with SASL/PLAIN, for user `reader`, and that address."""
    home = tmp_path_factory.mktemp("secured")
    plain, control, sasl = free_port(), free_port(), free_port()
    listeners = (
        f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{control},SECURED://127.0.0.1:{sasl}"
    )
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{control}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{login} user_reader="{PASSWORD}";',
    }
    try:
        broker, address = kafka.start(home, port=plain, settings=settings), f"127.0.0.1:{sasl}"
        login_works = AdminClient(
            {
                "bootstrap.servers": address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "reader",
                "sasl.password": PASSWORD,
            }
        )
        login_works.list_topics(timeout=60)  # a broker's first login takes its time
        yield broker, address
    finally:
        kafka.stop(home)


def cpu_seconds() -> float:
    """Return the CPU time of all ended child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def refused(terminal: Terminal, pipeline: str, *, code: int, seconds: float, **env: str) -> dict:
    """Run a pipeline that must be refused in time, without a change of the lake; return the error.

    `seconds` limits the CPU time, as parallel test workers distort the elapsed time. The command
    may wait for a broker for as long as one bootstrap takes.
    """
    before = terminal.tree()
    started, used = time.monotonic(), cpu_seconds()
    error = terminal.json("run", pipeline, "--run-id", "bad", code=code, **env)["error"]
    assert cpu_seconds() - used < seconds
    assert time.monotonic() - started < 25
    assert terminal.tree() == before
    return error


def test_a_malformed_file(terminal: Terminal, topic: Callable[..., str]) -> None:
    """All errors are reported at once, and other pipelines still work."""
    name = topic()
    terminal.pipeline("good", [name])
    (terminal.pipelines / "bad.yaml").write_text(
        "name: bad\nkind: ingest\ntopic: [a]\ntopics: ['a b']\nlake: ${TIDEGATE_NOWHERE}\n"
        "max_records: 0\n"
    )
    error = refused(terminal, "bad", code=2, seconds=5)
    assert error["name"] == "ConfigurationError"
    for text in (
        "${TIDEGATE_NOWHERE}",
        "did you mean 'topics'",
        "max_records: 0",
        "topics.0: 'a b'",
    ):
        assert text in error["message"]
    states = terminal.json("status", code=2)["pipelines"]
    assert [("error" in state, state["pipeline"]) for state in states] == [
        (True, "bad"),
        (False, "good"),
    ]


def test_no_such_pipeline_and_wrong_use(terminal: Terminal) -> None:
    """Exit code 2, and a list of the pipelines."""
    terminal.pipeline("flights", ["flights"])
    assert "there are: flights" in refused(terminal, "fligths", code=2, seconds=5)["message"]
    assert terminal.json("run", code=2)["error"]["name"] == "Usage"


def test_an_unknown_topic(terminal: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """The error names the topic, and the nearest that exists."""
    name = topic(partitions=1)
    terminal.pipeline("typo", [f"{name}s"])
    error = refused(terminal, "typo", code=3, seconds=8)
    assert error["name"] == "UnknownTopic"
    assert error["numbers"] == {"topics": [f"{name}s"]}
    assert error["message"].endswith(f"or correct `topics`; did you mean '{name}'?")


def test_an_unreachable_broker(terminal: Terminal) -> None:
    """Reported within the time that one bootstrap may take."""
    with socket.socket() as silent:  # bound, and never listening
        silent.bind(("127.0.0.1", 0))
        terminal.bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        terminal.pipeline("far", ["far"])
        error = refused(terminal, "far", code=4, seconds=8)
    assert (error["name"], error["kind"]) == ("BrokerUnreachable", "transient")


@pytest.mark.slow
def test_a_wrong_password(secured: tuple[Broker, str], tmp_path: Path) -> None:
    """Distinguished from an unreachable broker; the message does not contain the password."""
    broker, address = secured
    topic_records.numbers(broker.bootstrap, "guarded", 100)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "reader", "sasl.password": "wrong-" + PASSWORD}
    terminal = Terminal(tmp_path, address, extra=login, processes=True)
    terminal.pipeline("guarded", ["guarded"])
    error = refused(terminal, "guarded", code=3, seconds=8)
    assert error["name"] == "NotAuthenticated"
    assert PASSWORD not in str(error)


def watched(terminal: Terminal, *args: str, code: int = 0, **env: str) -> str:
    """Run a command; assert that no command line, output or object of the lake has the password.

    Return the command lines of all processes during the command.
    """
    with CommandLines() as seen:
        done = terminal.run(*args, code=code, **env)
    objects = [path.read_bytes() for path in terminal.lake.rglob("*") if path.is_file()]
    assert objects
    objects += [Path(path).read_bytes() for path in re.findall(r"output: (\S+)", done.stderr)]
    for data in (*objects, seen.text.encode(), done.stdout.encode(), done.stderr.encode()):
        assert PASSWORD.encode() not in data
    return seen.text


@pytest.mark.slow
def test_the_password_is_seen_nowhere(secured: tuple[Broker, str], tmp_path: Path) -> None:
    """With the right password the rows are ingested; no command line, output or object has it."""
    broker, address = secured
    topic_records.numbers(broker.bootstrap, "secret", 1_000)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "reader", "sasl.password": PASSWORD}
    terminal = Terminal(tmp_path, address, extra=login, processes=True)
    terminal.pipeline("secret", ["secret"])
    assert is_job(watched(terminal, "run", "secret"), "ingest")
    oracle_client.agree(broker.bootstrap, terminal.lake, "secret", ["secret"])
    # And by egress: refused for a bad row, killed after sending, finished by another attempt.
    topic_records.create(broker.bootstrap, "secret-back", partitions=2)
    back = {"source": {"lake": "secret"}, "target": {"topic": "secret-back"}}
    terminal.egress("back", **back)
    again = ("run", "back", "--run-id", "r")
    assert is_job(watched(terminal, *again, code=3), "egress")
    terminal.egress("back", **back, columns={"partition": "partition % 2"})
    watched(terminal, *again, code=4, TIDEGATE_FAULT="send.sent:raise")
    watched(terminal, *again)
    assert sum(topic_reader.ends(broker.bootstrap, "secret-back").values()) == 1_000


def test_a_lake_that_cannot_be_written(terminal: Terminal, topic: Callable[..., str]) -> None:
    """Refused before Spark starts. No user can write to /sys, not even root."""
    name = topic()
    terminal.pipeline("readonly", [name], lake="/sys/tidegate")
    error = refused(terminal, "readonly", code=3, seconds=8)
    assert error["name"] == "LakeReadOnly"


@pytest.mark.slow
@pytest.mark.blackbox
def test_a_full_lake(terminal: Terminal, topic: Callable[..., str], broker: Broker) -> None:
    """If the disk is full in plan or stage, the error says so and nothing is visible; a retry with
    space succeeds. A limit on file sizes simulates the full disk.
    """
    name = topic()
    topic_records.numbers(broker.bootstrap, name, 50_000)
    terminal.pipeline("full", [name])
    for limit, expected in ((100, "LakeUnavailable"), (60_000, "StageFailed")):
        process = subprocess.run(
            [str(TIDEGATE), "run", "full", "--run-id", "r", "--json"],
            env=terminal.env(),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)
            ),
        )
        assert process.returncode == 4, process.stderr
        assert expected in process.stdout
        assert not (terminal.lake / "full/data").exists()
    terminal.processes = False
    assert terminal.json("run", "full", "--run-id", "r")["rows"] == 50_000
    oracle_client.agree(broker.bootstrap, terminal.lake, "full", [name])


@pytest.mark.slow
def test_a_line_that_is_too_long(
    terminal: Terminal, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Spark runs out of memory; the file is named, and the same run sends the others."""
    name, source = topic(partitions=1), tmp_path / "in"
    source.mkdir()
    with gzip.open(source / "long.json.gz", "wb", compresslevel=1) as file:
        file.write(b'{"id":1}\n{"id":"')
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n')
    (source / "good.json").write_text('{"id":1}\n{"id":2}\n')
    terminal.egress("long", source={"path": str(source), "format": "json"}, target={"topic": name})
    error = terminal.json("run", "long", code=3)["error"]
    assert error["name"] == "PartitionsLeftOut"
    assert "long.json.gz: a line of more than 16 MiB" in error["message"]
    assert [each.row for each in topic_reader.read(terminal.bootstrap, name)] == [(0, 0), (0, 1)]
    assert terminal.json("run", "long", code=3)["error"]["name"] == "PartitionsLeftOut"


@pytest.mark.slow
def test_names_in_another_locale(
    terminal: Terminal, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Cron and systemd give none: Java would see `?` in a name that is not ASCII."""
    name, source = topic(partitions=1), tmp_path / "größe"
    source.mkdir()
    (source / "ä😀.json").write_text('{"id":1}\n')
    terminal.egress("names", source={"path": str(source), "format": "json"}, target={"topic": name})
    none = {"LC_ALL": "C", "LANG": "C"}
    assert terminal.json("run", "names", **none)["rows"] == 1
