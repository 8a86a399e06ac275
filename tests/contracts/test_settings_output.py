"""What `tidegate settings` prints, exactly: for people at 80 columns and in a pipe, and as JSON."""

import json
from collections.abc import Callable

import pytest

from support import printed
from support.golden import Golden
from tidegate.cli import configuring, main
from tidegate.settings.setting import (
    Answer,
    Place,
    Setting,
    check_boolean,
    check_whole,
    check_words,
)
from tidegate.settings.table import TABLE

SOME = (
    Setting(
        name="kafka.isolation.level", place=Place.SOURCE, answer=Answer.TRANSLATED,
        check=check_words("read_committed", "read_uncommitted"), becomes="isolation",
        why="planning and reading need the same level", outside="read_uncommitted",
    ),
    Setting(name="kafka.linger.ms", place=Place.SINK, check=check_whole(0), default="20",
            outside="0"),
    Setting(name="kafka.retries", place=Place.SINK, check=check_whole(0), outside="2147483647"),
    Setting(
        name="metadata.broker.list", place=Place.SOURCE, answer=Answer.REFUSED,
        why="it says which cluster is used", use="the Kafka connection",
    ),
    Setting(
        name="kafka.metadata.broker.list", place=Place.SINK, answer=Answer.REFUSED,
        why="it says which cluster is used", use="the Kafka connection",
    ),
    Setting(
        name="spark.kafka.consumer.cache.jmx.enable", place=Place.SPARK, check=check_boolean,
        outside="false",
    ),
)  # fmt: skip


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `tidegate settings`; return its exit code, stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "settings", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.usefixtures("place")
def test_all_settings(
    tidegate: Callable[..., tuple[int, str, str]], monkeypatch, golden: Golden
) -> None:
    monkeypatch.setattr(configuring, "TABLE", SOME)
    golden("settings", tidegate())


@pytest.mark.usefixtures("place")
def test_the_whole_table_fits(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    """Each setting has its line, none of them longer than a terminal."""
    _, out, _ = tidegate()
    lines = out.splitlines()
    assert max(map(len, lines)) <= printed.WIDTH
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(named) == sorted(each.name for each in TABLE)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["linger.ms", "kafka.linger.ms", "KAFKA.Linger.MS"])
def test_a_setting(
    tidegate: Callable[..., tuple[int, str, str]], name: str, golden: Golden
) -> None:
    """In any letter case, with or without `kafka.`."""
    golden("settings", tidegate(name))


@pytest.mark.usefixtures("place")
def test_places_with_the_same_answer(
    tidegate: Callable[..., tuple[int, str, str]], golden: Golden
) -> None:
    golden("settings", tidegate("metadata.broker.list"))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("spark.executor.cores", "accepted\n  why: it passes to Spark as it is\n"),
        (
            "spark.hadoop.fs.s3a.secret.key",
            "refused\n  why: a secret here would show in the process",
        ),
    ],
)
def test_a_setting_of_spark_that_is_not_in_the_table(
    tidegate: Callable[..., tuple[int, str, str]], name: str, says: str
) -> None:
    code, out, _ = tidegate(name)
    assert code == 0
    assert out.startswith(f"{name}\n  in spark.conf: {says}")


@pytest.mark.usefixtures("place")
def test_a_field_of_the_connection(
    tidegate: Callable[..., tuple[int, str, str]], golden: Golden
) -> None:
    golden("settings", tidegate("sasl.password"))


def test_a_translated_setting(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = tidegate("isolation.level")
    assert (code, out.splitlines()[1]) == (0, "  in options: translated to isolation")


def test_as_json(tidegate: Callable[..., tuple[int, str, str]]) -> None:
    """Of one name at all its places; without a name of the whole table, in its order."""
    code, out, err = tidegate("request.required.acks", "--json")
    common = {
        "place": "target.options", "answer": "translated", "values": None, "becomes": "kafka.acks",
        "default": None, "outside_default": None, "why": "the old name of acks", "use": None,
        "since": "0.1.0",
    }  # fmt: skip
    names = ("request.required.acks", "kafka.request.required.acks")
    settings = [{"name": name, **common} for name in names]
    assert (code, json.loads(out), err) == (0, {"format": 1, "settings": settings}, "")
    _, out, _ = tidegate("--json")
    assert [each["name"] for each in json.loads(out)["settings"]] == [each.name for each in TABLE]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("max.pol.records", "; did you mean 'max.poll.records'?"),
        ("kafka.max.pol.records", "; did you mean 'kafka.max.poll.records'?"),
        ("failOnDataLos", ""),
        ("sasl.pasword", "; did you mean 'sasl.password'?"),
        ("zzz", ""),
    ],
)
def test_a_name_that_is_not_there(
    tidegate: Callable[..., tuple[int, str, str]], name: str, says: str
) -> None:
    """Exit code 2, with the nearest name."""
    message = f"there is no setting {name!r} in the table{says}"
    code, out, err = tidegate(name)
    assert (code, out, message in err) == (2, "", True)
    code, out, _ = tidegate(name, "--json")
    error = json.loads(out)["error"]
    assert (code, error["name"], error["message"]) == (2, "ConfigurationError", message)
