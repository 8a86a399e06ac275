"""What a translation cannot keep is a TO DO or a comment; the commands that it prints are taken."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main

from support.translated import CANARY, SOURCE, TOPIC, comments, keys, loaded, of
from tidegate.cli import windows as cli_windows
from tidegate.core.windows import parse_edges, resolve_ranges
from tidegate.errors import ConfigurationError
from tidegate.pipelines.translation import Translation, translate

# Windows


def backfills(made: Translation) -> list[dict[str, Any]]:
    """Return the options of the printed commands, as `tidegate backfill` reads them."""
    parser = typer.main.get_command(cli_windows.app).commands["backfill"]  # type: ignore[attr-defined]
    found = []
    for line in made.text.splitlines():
        if line.startswith("# tidegate backfill "):
            words = shlex.split(line.removeprefix("# tidegate backfill "))
            found.append(parser.make_context("backfill", words).params)
    return found


def ranges(options: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Return the ranges of a command whose edges are offsets; there is no complaint."""
    edges = parse_edges(options["topic"], options["start"], options["end"], datetime.now(UTC))
    window = resolve_ranges(options["topic"], edges.partitions, edges, {}, edges.complaints)
    assert edges.complaints == []
    return [(each.partition, each.start, each.end) for each in window]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"t":{"0":23}}', "endingOffsets": '{"t":{"0":50}}'}, [(0, 23, 50)]),
        (
            {"startingOffsets": '{"t":{"0":23,"1":0}}', "endingOffsets": '{"t":{"1":7,"0":50}}'},
            [(0, 23, 50), (1, 0, 7)],
        ),
    ],
)
def test_a_window_of_offsets(options: dict[str, str], expected: list[Any]) -> None:
    """The whole window of the job, and nothing else."""
    made = of({**TOPIC, **options})
    (command,) = backfills(made)
    assert (command["pipeline"], command["topic"], ranges(command)) == ("t", "t", expected)
    assert made.missing == ()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": "0", "endingTimestamp": "86400000"}, [(None, 0, 2)]),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":0,"1":0}}', "endingTimestamp": "86400000"},
            [("0,1", 0, 2)],
        ),
        (
            {"startingTimestamp": "0", "endingOffsetsByTimestamp": '{"t":{"0":86400000,"1":1000}}'},
            [("0", 0, 2), ("1", 0, 1)],
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":0,"1":1000}}',
             "endingOffsetsByTimestamp": '{"t":{"0":86400000,"1":86400000}}'},
            [("0", 0, 2), ("1", 1, 2)],
        ),
        (
            {"startingTimestamp": "0", "endingOffsets": '{"t":{"0":7}}',
             "endingOffsetsByTimestamp": '{"t":{"0":1000}}', "endingTimestamp": "86400000"},
            [(None, 0, 2)],
        ),
        (
            {"startingTimestamp": "0", "endingOffsets": '{"t":{"0":7}}',
             "endingOffsetsByTimestamp": '{"t":{"0":1000}}'},
            [("0", 0, 1)],
        ),
    ],
)  # fmt: skip
def test_a_window_of_times(options: dict[str, str], expected: list[Any]) -> None:
    """Partitions of one window are in one command; of several ends Spark's precedence decides: a
    timestamp, timestamps by partition, offsets.
    """
    times = ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z", "1970-01-02T00:00:00Z"]
    found = backfills(of({**TOPIC, **options}))
    for each in found:
        assert parse_edges("t", each["start"], each["end"], datetime.now(UTC)).complaints == []
    assert [(each["partitions"], each["start"], each["end"]) for each in found] == [
        (partitions, times[start], times[end]) for partitions, start, end in expected
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"endingOffsets": '{"t":{"0":50}}'},
        {"startingOffsets": "earliest", "endingTimestamp": "1000"},
        {"startingOffsets": "soon", "endingTimestamp": "1000"},
        {"startingOffsets": '{"t":{"0":5}}', "endingTimestamp": "1000"},
        {"startingTimestamp": "5", "endingOffsets": '{"t":{"0":5}}'},
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
        {"startingOffsets": '{"t":{"0":5,"1":5}}', "endingOffsets": '{"t":{"0":9}}'},
        {"startingOffsets": '{"t":{"0":5,"1":5}}', "endingOffsets": '{"t":{"0":50,"1":-1}}'},
        {"startingOffsets": '{"t":{"0":-2,"1":5}}', "endingOffsets": '{"t":{"0":50,"1":9}}'},
        {"startingTimestamp": "5000", "endingTimestamp": "1000"},
        {"startingTimestamp": "5000", "endingTimestamp": "99999999999999"},
        {"startingOffsetsByTimestamp": '{"t":{"0":1}}',
         "endingOffsetsByTimestamp": '{"t":{"0":2,"1":2}}'},
        {"startingTimestamp": "5", "endingOffsetsByTimestamp": '{"u":{"0":9}}'},
        {"subscribe": "t,u", "startingOffsets": '{"t":{"0":5},"u":{"0":5}}',
         "endingOffsets": '{"t":{"0":9}}'},
    ],
)  # fmt: skip
def test_a_window_that_no_backfill_has(options: dict[str, str]) -> None:
    """No command is printed that would be refused, or that would read something else."""
    made = of({**TOPIC, **options})
    assert backfills(made) == []
    says = "no window of `tidegate backfill` is the same: it needs"
    ends = [each for each in made.missing if each.startswith("ending")]
    assert ["a run of the pipeline reads to the end of the log" in each for each in ends] == [True]
    assert says in ends[0]


@pytest.mark.parametrize(
    "end", ["?", '{"t":{"0":-2}}', '{"t":{"0":9},"u":{}}', '{"t":{"0":true}}', "{}"]
)
def test_an_end_that_is_none(end: str) -> None:
    made = of({**TOPIC, "startingOffsets": '{"t":{"0":5}}', "endingOffsets": end})
    (missing,) = made.missing
    assert backfills(made) == []
    assert missing.startswith("endingOffsets: not what Spark takes here")


@pytest.mark.parametrize("end", ["latest", '{"t":{"0":-1}}'])
def test_an_end_at_the_end_of_the_log(end: str) -> None:
    made = of({**TOPIC, "startingOffsets": '{"t":{"0":5}}', "endingOffsets": end})
    assert backfills(made) == []
    assert "endingOffsets: a run reads to the end of the log" in comments(made)


def test_topics_in_a_command_are_topics() -> None:
    window = {"startingTimestamp": "0", "endingTimestamp": "1000"}
    assert backfills(of({"subscribe": "a; rm -rf ~", **window})) == []
    assert [each["topic"] for each in backfills(of({"subscribe": "a,b", **window}))] == ["a", "b"]


@pytest.mark.parametrize(
    ("end", "missing"), [("${END}", ["endingOffsets: the job ends there"]), ("", [])]
)
def test_an_end_that_is_not_known(end: str, missing: list[str]) -> None:
    made = of({**TOPIC, "endingOffsets": end})
    assert [each[: len("endingOffsets: the job ends there")] for each in made.missing] == missing


# Names and values


def test_a_name_is_not_offered_for_itself() -> None:
    assert "did you mean 'topics'" not in comments(of({"topic": "t", "topics": "u"}))


def test_topics_of_properties() -> None:
    """Not a name of Kafka's or Spark's, but what many programs call them."""
    made = translate(b"fetch.min.bytes=1\ntopics=a, b\n")
    assert (made.missing, keys(made)["topics"]) == ((), ["a", "b"])
    both = translate(b"fetch.min.bytes=1\ntopics=a\nsubscribe=b\n")
    assert keys(both)["topics"] == ["b"]


@pytest.mark.parametrize(
    "line",
    [
        f"spark-submit --conf spark.x=1 job.py --password {CANARY} --topic x --conf spark.y=2",
        f"/opt/bin/spark-submit --verbose job.py --conf spark.y=2 --password={CANARY}",
        f"pyspark --conf spark.x=1 \\\n  a.jar \\\n  --password '{CANARY}' -c spark.y=2",
    ],
)
def test_arguments_of_an_application(line: str) -> None:
    """They are its own; the next command is read again."""
    made = translate(f"{line}\nspark-submit --conf spark.z=3 job.py\n".encode(), "job")
    assert CANARY not in made.text
    assert made.refused == 0
    assert {"spark.z"} <= keys(made)["spark"]["conf"].keys() <= {"spark.x", "spark.z"}


@pytest.mark.parametrize(
    ("interval", "schedule"),
    [
        ("1 month", None), ("60000000 microseconds", None), ("1 day", "0 0 * * *"),
        ("2 mins", "*/2 * * * *"), ("60000ms", "* * * * *"), ("120 s", "*/2 * * * *"),
        ("1 hours", "0 * * * *"), ("600000 milliseconds", "*/10 * * * *"),
    ],
)  # fmt: skip
def test_units_of_a_trigger(interval: str, schedule: str | None) -> None:
    assert keys(of({**TOPIC, "trigger": interval})).get("schedule") == schedule


# All at once


@pytest.mark.parametrize(
    ("form", "labels"),
    [
        ({"subscribe": "a b", "startingTimestamp": "soon"}, ["startingTimestamp", "topics.0"]),
        ({"endingOffsets": "latest"}, ["topics"]),
        ({"topic": "t", "kafka.acks": "all"}, ["source"]),
        ({**SOURCE, "topic.regex.list": None}, ["target.topic"]),
    ],
)
def test_all_that_is_missing_at_once(form: dict[str, Any], labels: list[str]) -> None:
    """Each once, in the words of the translation."""
    assert [each.partition(":")[0] for each in of(form).missing] == labels


# Until it is settled


@pytest.mark.parametrize(
    "form",
    [
        {"subscribe": "t", "checkpointLocation": "/c", "trigger": "1 minute"},
        {"subscribe": "t", "endingOffsets": '{"t":{"0":50}}'},
        {**SOURCE, "folders": "a"},
    ],
)
def test_a_file_with_a_to_do_is_no_pipeline(form: dict[str, Any], tmp_path: Path) -> None:
    """Although each of its keys is valid: each TO DO is to be settled, and its comment deleted."""
    made = of(form)
    (line,) = (n for n, each in enumerate(made.text.splitlines(), 1) if "TO DO" in each)
    with pytest.raises(ConfigurationError) as refused:
        loaded(made, tmp_path)
    (complaint,) = str(refused.value).splitlines()[1:]
    assert complaint == f"  - line {line}: a TO DO of the translation: settle it, then delete it"
    settled = made.text.replace("# TO DO: ", "# ")
    loaded(replace(made, text=settled), tmp_path)
