"""Where a translated pipeline begins: never silently behind what the old reader had not read."""

import pytest

from support.translated import TOPIC, comments, keys, of
from tidegate.pipelines.translation import translate

SINK = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t",
        "s3.bucket.name": "raw", "consumer.override.auto.offset.reset": "latest"}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "subscribe=a\nfetch.min.bytes=1\ngroup.id=${GROUP}\n",
        '{"subscribe": "a", "fetch.min.bytes": "1", "group.id": "a\\u0007"}',
    ],
)
def test_a_group_that_cannot_be_read(text: str) -> None:
    """Without it the first run would begin elsewhere than where the group has stopped."""
    (missing,) = translate(text.encode()).missing
    assert missing.startswith("group.id: ")


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"name": "x", "consumer.override.group.id": "${file:/x:y}"}, "consumer.override.group.id"),
        ({"name": "${NAME}"}, "name"),
        ({}, "consumer.override.auto.offset.reset"),
    ],
)
def test_a_group_of_connect_that_is_not_known(more: dict[str, str], label: str) -> None:
    """Without an own group id, the connector's name is that of its group."""
    (missing,) = of({**SINK, **more}).missing
    assert missing.startswith(f"{label}: ")


def test_an_empty_group_is_none() -> None:
    made = of({**TOPIC, "fetch.min.bytes": "1", "group.id": " "})
    assert (made.missing, keys(made)["start"]) == ((), "latest")


@pytest.mark.parametrize("reset", [{}, {"auto.offset.reset": "largest"}])
@pytest.mark.parametrize("group", [{}, {"group.id": "g"}])
@pytest.mark.parametrize(
    "old", [{"zookeeper.connect": "z"}, {"auto.commit.enable": "true", "fetch.min.bytes": "1"},
            {"offsets.storage": "zookeeper", "fetch.min.bytes": "1"}],
)  # fmt: skip
def test_a_group_whose_offsets_are_in_zookeeper(
    old: dict[str, str], group: dict[str, str], reset: dict[str, str]
) -> None:
    """To begin at the end of the log would skip what it has not read."""
    made = of({**TOPIC, **old, **group, **reset})
    (missing,) = made.missing
    assert missing.startswith(f"{next(iter(old))}: ")
    assert "/consumers/GROUP/offsets/TOPIC" in missing
    assert "start.offsets" in missing
    assert "start" not in keys(made)
    assert all(name in comments(made) for name in (*group, *reset))


def test_a_group_of_kafka_0_8_that_skips_nothing() -> None:
    old = {**TOPIC, "group.id": "g", "zookeeper.connect": "z", "auto.offset.reset": "smallest"}
    assert (of(old).missing, keys(of(old))["start"]) == ((), "earliest")


def test_an_old_group_whose_offsets_are_in_kafka() -> None:
    old = {**TOPIC, "group.id": "g", "zookeeper.connect": "z", "offsets.storage": "kafka"}
    assert (of(old).missing, keys(of(old))["start"]["group"]) == ((), "g")


@pytest.mark.parametrize("name", ["checkpointLocation", "spark.sql.streaming.checkpointLocation"])
@pytest.mark.parametrize("offsets", [None, "latest", '{"t":{"0":5,"1":-1}}'])
def test_a_checkpoint_and_a_start_that_skips(name: str, offsets: str | None) -> None:
    """A stream begins at its checkpoint, whatever it says of a start."""
    given = {} if offsets is None else {"startingOffsets": offsets}
    made = of({**TOPIC, name: "/c", **given})
    (missing,) = made.missing
    assert missing.startswith(f"{name}: ")
    assert "give them to start.offsets" in missing
    assert made.dropped == 0


@pytest.mark.parametrize("offsets", ["earliest", '{"t":{"0":5}}'])
def test_a_checkpoint_and_a_start_that_skips_nothing(offsets: str) -> None:
    assert of({**TOPIC, "checkpointLocation": "/c", "startingOffsets": offsets}).missing == ()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsetsByTimestamp": '{"t":{"0":-1}}'},
        {"startingTimestamp": "-2"},
    ],
)
def test_a_time_before_1970_is_none(options: dict[str, str]) -> None:
    """To a broker, -1 as a time is the end of the log, and -2 its start."""
    (missing,) = of({**TOPIC, **options}).missing
    assert missing.startswith("starting")
