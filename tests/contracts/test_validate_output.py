"""What `tidegate validate` prints, exactly: for people at 80 columns and in a pipe, and as JSON."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import main

Validate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def validate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Validate:
    """Write files and run `tidegate validate` on some; return its exit code, stdout and stderr.

    There is no lake, no connection and no network.
    """

    def no_network(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_PIPELINES", ".")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    for name in ("TIDEGATE_LAKE", "AIRFLOW_CONN_KAFKA_DEFAULT"):
        monkeypatch.delenv(name, raising=False)

    def run(texts: dict[str, str], *args: str) -> tuple[int, str, str]:
        for name, text in texts.items():
            Path(f"{name}.yaml").write_text(text)
        monkeypatch.setattr("sys.argv", ["tidegate", "validate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


GOOD = "{name: good, kind: ingest, topics: [t], lake: '${TIDEGATE_LAKE}'}"
BAD = (
    "{name: other, kind: ingest, topics: [t], lake: here, max_recods: 5, retries: '${TIDEGATE_R}'}"
)


@pytest.mark.usefixtures("place")
def test_all_pipelines(validate: Validate) -> None:
    """By default; all complaints and notices of all files at once."""
    files = {"good": GOOD, "bad": BAD, "unread": "["}
    assert validate(files) == (
        2,
        """\
bad.yaml: 3 complaints
  - name: 'other' must be the file's own name, 'bad'
  - lake: 'here': neither an absolute path nor a URL
  - max_recods: unknown key; did you mean 'max_records'?
  notice: retries: ${TIDEGATE_R} is not set in the environment: not checked
good.yaml: valid
  notice: lake: ${TIDEGATE_LAKE} is not set in the environment: not checked
unread.yaml: 1 complaint
  - cannot be read: line 2, column 1: not YAML: did not find expected node content
""",
        "",
    )


def test_a_variable_that_is_set_is_checked(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_LAKE", "/lake")
    assert validate({"good": GOOD}, "good.yaml") == (0, "good.yaml: valid\n", "")
    monkeypatch.setenv("TIDEGATE_LAKE", "here")
    code, out, _ = validate({}, "good.yaml")
    assert (code, out.splitlines()[1:]) == (
        2,
        ["  - lake: 'here': neither an absolute path nor a URL"],
    )


@pytest.mark.parametrize(
    "keys",
    [
        "name: '${TIDEGATE_X}', lake: /lake, topics: [t]",
        "name: good, lake: '${TIDEGATE_X}/lake', topics: ['${TIDEGATE_X}', t]",
        "name: good, lake: /lake, topics: [t], max_records: '${TIDEGATE_X}', "
        "start: '${TIDEGATE_X}'",
        "name: good, lake: /lake, topics: [t], start: {timestamp: '${TIDEGATE_X}'}",
        "name: good, lake: /lake, topics: [t], spark: {conf: {spark.task.cpus: '${TIDEGATE_X}'}}",
        # Settings that are compared with each other.
        "name: good, lake: /lake, topics: [t], options: {kafka.default.api.timeout.ms: 9, "
        "kafka.request.timeout.ms: '${TIDEGATE_X}'}",
    ],
)
def test_what_depends_on_an_unset_variable_is_no_complaint(validate: Validate, keys: str) -> None:
    """Wherever it stands; what follows for other keys is not known."""
    code, out, _ = validate({"good": f"{{kind: ingest, {keys}}}"})
    first, *notices = out.splitlines()
    assert (code, first) == (0, "good.yaml: valid")
    assert all(
        each.endswith("${TIDEGATE_X} is not set in the environment: not checked")
        for each in notices
    )
    assert len(notices) == keys.count("${TIDEGATE_X}")


def test_an_unset_variable_among_a_producers_settings(validate: Validate) -> None:
    """What it would be compared with is not known."""
    text = "{kind: egress, name: out, lake: /lake, source: {path: /in, format: text}, target: "
    text += "{topic: t, producer: {linger.ms: '${TIDEGATE_X}', delivery.timeout.ms: 90000}}}"
    assert validate({"out": text}) == (
        0,
        "out.yaml: valid\n"
        "  notice: target.producer.linger.ms: ${TIDEGATE_X} is not set in the environment: "
        "not checked\n",
        "",
    )


def test_notices_of_settings(validate: Validate) -> None:
    """They are there although the lake is not known."""
    text = GOOD[:-1] + ", start: smallest, spark: {conf: {NAME: true}}}"
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    assert validate({"good": text.replace("NAME", name)}) == (
        0,
        f"""\
good.yaml: valid
  notice: lake: ${{TIDEGATE_LAKE}} is not set in the environment: not checked
  notice: start: read as earliest: smallest is an older word for it
  notice: spark.conf: {name}: true looks offsets up with a consumer, which needs READ on the \
group as well
""",
        "",
    )


WRONG = {
    "in": """
kind: ingest
topics: [t]
options: {kafka.max.poll.records: hunter2, failOnDataLoss: false, kafka.fetch.min.byte: 1}
spark: {conf: {spark.master: local, spark.kafka.consumer.cache.timeout: hunter2}}
""",
    "out": """
kind: egress
source: {path: /in, format: text}
target:
  topic: t
  options: {kafka.acks: 0, kafka.transactional.id: hunter2}
  producer: {linger.ms: hunter2}
spark: {conf: {spark.task.maxFailures: 4, spark.hadoop.fs.s3a.secret.key: hunter2}}
""",
}


@pytest.mark.usefixtures("place")
def test_wrong_settings_of_all_places(validate: Validate) -> None:
    """With file, key, name, reason and, where there is one, the right setting; never the value."""
    files = {name: f"name: {name}\nlake: /lake{text}" for name, text in WRONG.items()}
    assert validate(files) == (
        2,
        """\
in.yaml: 5 complaints
  - options: kafka.max.poll.records: not a whole number
  - options: failOnDataLoss: refused: records that are gone are a failure, or a gap in the ledger; \
use `on_expired`
  - options: kafka.fetch.min.byte: no option of Spark's, and no setting of Kafka's consumer; did \
you mean 'kafka.fetch.min.bytes'?
  - spark.conf: spark.master: refused: Tidegate sets it: by the Spark connection; use \
`spark.connection`
  - spark.conf: spark.kafka.consumer.cache.timeout: not a duration, for example 500ms, 5m or 1h
out.yaml: 5 complaints
  - target.producer: linger.ms: not a whole number
  - target.options: kafka.acks: 0 would lose records silently; use all
  - target.options: kafka.transactional.id: refused: Spark's sink has no transactions: it would \
never commit one
  - spark.conf: spark.task.maxFailures: refused: Tidegate sets it: Spark retries nothing, for what \
a task has sent cannot be taken back; use `retries`, which sends the rest
  - spark.conf: spark.hadoop.fs.s3a.secret.key: refused: a secret here would show in the process \
list; use Spark's environment, a credentials provider or spark-defaults.conf
""",
        "",
    )


def test_the_encoding_of_files_may_be_a_variable(validate: Validate) -> None:
    text = (
        "{name: out, kind: egress, lake: /lake, target: {topic: t}, columns: {value: v}, "
        "source: {path: /in, format: csv, columns: v STRING, options: {encoding: '${TIDEGATE_X}', "
        "sep: '${TIDEGATE_X}'}}}"
    )
    code, out, _ = validate({"out": text})
    assert (code, out.splitlines()[0]) == (0, "out.yaml: valid")


def test_as_json(validate: Validate) -> None:
    code, out, err = validate({"good": GOOD}, "good.yaml", "away.yaml", "--json")
    notice = "lake: ${TIDEGATE_LAKE} is not set in the environment: not checked"
    assert (code, json.loads(out), err) == (
        2,
        {
            "format": 1,
            "files": [
                {"file": "good.yaml", "complaints": [], "notices": [notice]},
                {
                    "file": "away.yaml",
                    "complaints": ["there is no such pipeline file"],
                    "notices": [],
                },
            ],
        },
        "",
    )


def test_no_files(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of nothing is no success."""
    says = "there are no pipeline files in .; write one by `tidegate init`"
    assert validate({}) == (2, "", f"ConfigurationError: {says}\n")
    monkeypatch.setenv("TIDEGATE_PIPELINES", "away")
    says = (
        "there is no directory away; set TIDEGATE_PIPELINES to the directory of the pipeline files"
    )
    assert validate({}) == (2, "", f"ConfigurationError: {says}\n")
