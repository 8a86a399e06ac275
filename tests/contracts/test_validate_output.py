"""What `tidegate validate` prints, exactly: for people at 80 columns and in a pipe, and as JSON."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.golden import Golden
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
def test_all_pipelines(validate: Validate, golden: Golden) -> None:
    """By default; all complaints and notices of all files at once."""
    files = {"good": GOOD, "bad": BAD, "unread": "["}
    golden("validate", validate(files))


def test_a_variable_that_is_set_is_checked(
    validate: Validate, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("TIDEGATE_LAKE", "/lake")
    golden("validate", validate({"good": GOOD}, "good.yaml"))
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


def test_an_unset_variable_among_a_producers_settings(validate: Validate, golden: Golden) -> None:
    """What it would be compared with is not known."""
    text = "{kind: egress, name: out, lake: /lake, source: {path: /in, format: text}, target: "
    text += "{topic: t, producer: {linger.ms: '${TIDEGATE_X}', delivery.timeout.ms: 90000}}}"
    golden("validate", validate({"out": text}))


def test_notices_of_settings(validate: Validate, golden: Golden) -> None:
    """They are there although the lake is not known."""
    text = GOOD[:-1] + ", start: smallest, spark: {conf: {NAME: true}}}"
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    golden("validate", validate({"good": text.replace("NAME", name)}))


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
def test_wrong_settings_of_all_places(validate: Validate, golden: Golden) -> None:
    """With file, key, name, reason and, where there is one, the right setting; never the value."""
    files = {name: f"name: {name}\nlake: /lake{text}" for name, text in WRONG.items()}
    golden("validate", validate(files))


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


def test_no_files(validate: Validate, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    """A check of nothing is no success."""
    golden("validate", validate({}))
    monkeypatch.setenv("TIDEGATE_PIPELINES", "away")
    golden("validate", validate({}))


def test_what_is_beside_a_file(validate: Validate) -> None:
    """Two files of one name, and an egress without its source: a run would refuse them."""
    form = {"name": "out", "kind": "egress", "lake": "/lake", "target": {"topic": "t"}}
    out = json.dumps({**form, "source": {"lake": "godo"}})
    Path("good.yml").write_text(GOOD)
    code, said, _ = validate({"good": GOOD, "out": out})
    assert code == 2
    assert "'good.yaml' and 'good.yml'" in said
    assert "'godo'; did you mean 'good'?" in said
    Path("good.yml").unlink()
    assert validate({"out": out.replace("godo", "good")})[0] == 0
