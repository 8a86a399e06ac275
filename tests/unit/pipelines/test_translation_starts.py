"""Where a translated pipeline begins: never silently behind what the old reader had not read."""

import pytest

from support.translated import TOPIC, comments, keys, of, program
from tidegate.pipelines.translation import translate

SINK = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t",
        "s3.bucket.name": "raw", "consumer.override.auto.offset.reset": "latest"}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        """val p = Map("bootstrap.servers" -> "b:9092", "group.id" -> conf.groupId,
             "auto.offset.reset" -> "latest")
           KafkaUtils.createDirectStream(ssc, Subscribe(Array("orders"), p))""",
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


PARAMETERS = [
    'params.put("group.id", {})',
    'params.setProperty("group.id", {});',
    'params["group.id"] = {}',
    'params("group.id") = {}',
    'params += ("group.id" -> {})',
    'params += "group.id" -> {}',
    'params.update("group.id", {})',
    'params.update({{"group.id": {}}})',
]
STREAM = [
    'KafkaUtils.createDirectStream(ssc, PreferConsistent, Subscribe(Array("orders"), params))',
    "stream.start()",
]


@pytest.mark.parametrize("line", PARAMETERS)
@pytest.mark.parametrize("more", [(), ('params["auto.offset.reset"] = "earliest"  # or not',)])
def test_a_group_that_is_put_into_a_map(line: str, more: tuple[str, ...]) -> None:
    made = program(line.format('"g"'), *more, *STREAM)
    otherwise = {} if more else {"otherwise": "latest"}
    form = keys(made)
    assert (made.missing, form["topics"], form["start"]) == (
        (), ["orders"], {"group": "g"} | otherwise,
    )  # fmt: skip


@pytest.mark.parametrize("line", PARAMETERS)
@pytest.mark.parametrize(
    "value", ["conf.group", '"g" + suffix', 'f"g-{env}"', '"g"\n  + suffix', '"g"\n  .trim']
)
def test_a_group_that_is_put_into_a_map_as_an_expression(line: str, value: str) -> None:
    made = program(line.format(value), *STREAM)
    (missing,) = made.missing
    assert missing.startswith("group.id: ")
    assert "start" not in keys(made)


@pytest.mark.parametrize("line", ['if params["group.id"] == "g":', 'x("group.id") => "g"'])
def test_a_group_that_is_only_looked_at(line: str) -> None:
    """Neither a setting nor a topic."""
    made = program(line, *STREAM)
    assert (len(made.missing), keys(made)["topics"]) == (1, ["orders"])


@pytest.mark.parametrize(
    "lines",
    [
        ["val params = conf.parameters"],
        ['val params = load("kafka")', 'val brokers = Map("bootstrap.servers" -> "b:1")'],
        ['params.put(ConsumerConfig.GROUP_ID_CONFIG, "g")', 'params.put("auto.offset.reset", "x")'],
        [],
    ],
)
def test_a_direct_stream_whose_group_is_elsewhere(lines: list[str]) -> None:
    """It may have stopped anywhere: to begin at the end of the log would skip records."""
    made = program(*lines, *STREAM)
    (missing,) = made.missing
    assert missing.startswith(f"line {len(lines) + 1}: it is not known where to begin")
    assert "start" not in keys(made)


def test_a_direct_stream_without_a_group() -> None:
    """Of Kafka 0.8, it begins where its parameters say."""
    text = 'KafkaUtils.createDirectStream(ssc, ["a"], {"metadata.broker.list": "b:9092"})'
    assert (program(text).missing, keys(program(text))["start"]) == ((), "latest")


GROUP = 'val p = Map("bootstrap.servers" -> "b:1", "group.id" -> "g"{})'


@pytest.mark.parametrize(
    "lines",
    [
        ["val params = load()", GROUP.format("")],
        ["val params = load()", 'val p = Map("metadata.broker.list" -> "b:1")'],
        ["val params = load()", 'send(Map("group.id" -> "g"))'],
        ['val params = Map("group.id" -> "g")', 'val p = Map("metadata.broker.list" -> "b:1")'],
        ['val params = Map("group.id" -> "g") ++ load()'],
        ['val params = Map("group.id" -> "g", KEY -> "x")'],
        ['val params = Map("group.id" -> "g")', "params ++= load()"],
        ['params = {"group.id": "g", **load()}'],
        ['params = {"group.id": "g"} if local else load()'],
        ["params = load()", 'params["group.id"] = "g"'],
        ['params = {"group.id": "g"}', "params.update(load())"],
        ['params = {"group.id": "g"}', "params[key] = value"],
        ['spark.read.option("startingOffsets", "latest")', "params = load()"],
    ],
)
def test_a_direct_stream_whose_parameters_are_not_all_known(lines: list[str]) -> None:
    """What other maps in the text say is not where it begins."""
    made = program(*lines, *STREAM)
    (missing,) = made.missing
    assert missing.startswith(f"line {len(lines) + 1}: it is not known where to begin")
    assert "start" not in keys(made)


@pytest.mark.parametrize(
    "lines",
    [
        ["val params = new java.util.HashMap[String, Object]()", 'params.put("group.id", "g")'],
        ["val params = mutable.Map.empty[String, String]", 'params += ("group.id" -> "g")'],
        ['params: dict[str, str] = dict({"group.id": "g"})', 'params["a.b"] = load()'],
        ['conf = {"spark.executor.cores": "1"}', 'params = {"group.id": "g"}'],
    ],
)
def test_a_direct_stream_with_one_map_of_parameters(lines: list[str]) -> None:
    made = program(*lines, *STREAM)
    assert (made.missing, keys(made)["start"]["group"]) == ((), "g")


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("", '{"subscribe": "a", **base}'),
        ("", '**{"subscribe": "a", **base}'),
        ("", 'Map("subscribe" -> "a") ++ extra'),
        ("", 'Map("subscribe" -> "a", KEY -> "x")'),
        ("", '**dict({"subscribe": "a"}, **base)'),
        ('val options = Map("subscribe" -> "a") ++ extra', "options"),
        ('options = {"subscribe": "a", **base}', "**options"),
        ('options = {"subscribe": "a"} | base', "**options"),
        ('options = {"subscribe": "a"}; options |= base', "**options"),
        ('options = {"subscribe": "a"}; options.update(load())', "**options"),
        ('options = {"subscribe": "a"}; options.update({"x": "y", **base})', "**options"),
        ('options = {"subscribe": "a"}; options[key] = value', "**options"),
        ('options = {"subscribe": "a"}; options = load()', "**options"),
        ('val options = mutable.Map("subscribe" -> "a"); options ++= extra', "options"),
        ('options = {"subscribe": "a"}', "**options, **base"),
        ('options = {"subscribe": "a"}', "**options, startingOffsets=here"),
    ],
)
def test_a_reader_whose_options_are_only_partly_in_the_text(first: str, options: str) -> None:
    reads = f'spark.readStream.format("kafka").options({options})'
    (missing,) = program(first, 'x = {"subscribe": "a"}', f"{reads}.load()").missing
    assert missing.startswith("line 3: it is not known where to begin")
    known = program(first, f'{reads}.option("startingOffsets", "latest").load()')
    assert "it is not known where to begin" not in "".join(known.missing)


@pytest.mark.parametrize("load", ["**options", "None, **options"])
def test_options_that_are_given_to_load(load: str) -> None:
    made = program(f'spark.read.format("kafka").option("subscribe", "a").load({load})')
    (missing,) = made.missing
    assert missing.startswith("line 1: it is not known where to begin")


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (".options(**options)", ""),
        (".options(options)", "val options = load()"),
        (".options(**load())", "options = {}"),
        (".options(startingOffsets=here)", ""),
        (".option(name, value)", ""),
    ],
)
@pytest.mark.parametrize("reader", ["read", "readStream"])
def test_a_reader_whose_options_are_elsewhere(options: str, first: str, reader: str) -> None:
    reads = f'spark.{reader}.format("kafka").option("subscribe", "a"){options}'
    (missing,) = program(first, f"{reads}.load()").missing
    assert missing.startswith("line 2: it is not known where to begin")
    known = program(first, f'{reads}.option("startingOffsets", "latest").load()')
    assert (known.missing, keys(known)["start"]) == ((), "latest")
    assert "line 2: settings that are expressions" in comments(known)


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ('options = {"subscribe": "a"}', "**options"),
        ('val options: Map[String, String] = Map("subscribe" -> "a")', "options"),
        ('val options = mutable.Map[String, String]("subscribe" -> "a")', "options"),
        ('options: dict[str, str] = dict({"subscribe": "a"})', "**options"),
        ("", '**{"subscribe": "a"}'),
        ("", 'Map("subscribe" -> "a")'),
    ],
)
def test_a_reader_whose_options_are_in_the_text(first: str, options: str) -> None:
    made = program(first, f'spark.readStream.format("kafka").options({options}).load()')
    assert (made.missing, keys(made)["start"]) == ((), "latest")


def test_options_of_a_sink_that_are_elsewhere() -> None:
    """They do not say where the reader begins."""
    made = program(
        'd = spark.read.format("kafka").option("subscribe", "a").load()',
        'd.write.format("kafka").options(**load()).save()',
    )
    assert made.missing == ()


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
