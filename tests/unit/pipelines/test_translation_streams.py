"""Direct streams: topics from their own arguments; checkpoints and given offsets are TO DO."""

import pytest

from support.translated import comments, keys, program

OLD = 'val p = Map("metadata.broker.list" -> "b:1"{})'
NEW = 'val p = Map("bootstrap.servers" -> "b:1", "group.id" -> "g"{})'
OLD_STREAM = 'KafkaUtils.createDirectStream[A, B, C, D](ssc, p, Set("orders"))'
NEW_STREAM = "KafkaUtils.createDirectStream[A, B](ssc, PreferConsistent, {}[A, B]({}))"


# Checkpoints


@pytest.mark.parametrize(
    "line",
    [
        'ssc.checkpoint("/c")',
        "ssc.checkpoint(directory)",
        "val ssc = StreamingContext.getOrCreate(directory, create _)",
        'ssc = StreamingContext.getOrCreate("/c", create)',
        "JavaStreamingContext.getOrCreate(directory, create);",
        "StreamingContext.getActiveOrCreate(directory, create)",
    ],
)
@pytest.mark.parametrize(
    ("parameters", "stream"),
    [
        (OLD.format(', "auto.offset.reset" -> "largest"'), OLD_STREAM),
        (OLD.format(""), OLD_STREAM),
        (NEW.format(""), NEW_STREAM.format("Subscribe", 'Array("orders"), p')),
        (
            NEW.format(', "auto.offset.reset" -> "earliest"'),
            NEW_STREAM.format("Subscribe", 'Array("orders"), p'),
        ),
    ],
)
def test_a_checkpoint_of_a_direct_stream(line: str, parameters: str, stream: str) -> None:
    """It begins at the offsets there, and neither at `latest` nor where a group has stopped."""
    (missing,) = program(line, parameters, stream).missing
    assert missing.startswith("checkpoint: a direct stream begins at the offsets in its checkpoint")
    assert "start.offsets" in missing


def test_a_checkpoint_and_a_start_that_skips_nothing() -> None:
    made = program(
        'ssc.checkpoint("/c")', OLD.format(', "auto.offset.reset" -> "smallest"'), OLD_STREAM
    )
    assert (made.missing, keys(made)["start"]) == ((), "earliest")


@pytest.mark.parametrize(
    "lines",
    [
        [OLD.format(""), OLD_STREAM],
        [OLD.format(', "auto.offset.reset" -> "largest"'), OLD_STREAM],
        [OLD.format(""), OLD_STREAM, "stream.foreachRDD(rdd => rdd.checkpoint())"],
    ],
)
def test_a_direct_stream_without_a_checkpoint(lines: list[str]) -> None:
    """Of Kafka 0.8, it begins at the end of the log each time that it is started."""
    made = program(*lines)
    assert (made.missing, keys(made)["start"]) == ((), "latest")


def test_checkpoints_that_are_not_of_streams() -> None:
    reads = 'd = spark.readStream.format("kafka").option("subscribe", "a").load()'
    assert program(reads, "d.checkpoint(True)").missing == ()


@pytest.mark.parametrize(
    ("call", "label"),
    [
        ('.start(checkpointLocation="/c", path="/x")', "checkpointLocation"),
        (".start(checkpointLocation=directory)", "checkpointLocation"),
        ('.toTable("t", checkpointLocation="/c")', "checkpointLocation"),
        (".options(**load()).start()", "line 1"),
        (".option(name, value).start()", "line 1"),
        (".start(**load())", "line 1"),
    ],
)
def test_a_checkpoint_among_arguments(call: str, label: str) -> None:
    """Of a structured stream; also one that may be among settings that are elsewhere."""
    reads = 'spark.readStream.format("kafka").option("subscribe", "a"){}.load().writeStream'
    (missing,) = program(reads.format("") + call).missing
    assert missing.startswith(f"{label}: ")
    assert "give them to start.offsets; latest would skip records" in missing
    earliest = reads.format('.option("startingOffsets", "earliest")') + call
    assert program(earliest).missing == ()


# Offsets


@pytest.mark.parametrize(
    ("parameters", "stream"),
    [
        (OLD, "KafkaUtils.createDirectStream[A, B, C, D, E](ssc, p, offsets, messageHandler)"),
        (
            OLD,
            "KafkaUtils.createDirectStream(jssc, A.class, B.class, C.class, D.class, E.class, p, "
            "offsets, handler);",
        ),
        (OLD, 'KafkaUtils.createDirectStream(ssc, ["orders"], p, offsets)'),
        (OLD, 'KafkaUtils.createDirectStream(ssc, ["orders"], p, fromOffsets={t: 5})'),
        (NEW, "KafkaUtils.createRDD[A, B](sc, p, Array(OffsetRange(t, 0, 0, 9)), consistent)"),
        (NEW, NEW_STREAM.format("Subscribe", 'Array("orders"), p, fromOffsets')),
        (NEW, NEW_STREAM.format("SubscribePattern", 'Pattern.compile("o.*"), p, offsets')),
        (NEW, NEW_STREAM.format("ConsumerStrategies.Assign", "offsets.keys.toList, p, offsets")),
    ],
)
@pytest.mark.parametrize("reset", ["", ', "auto.offset.reset" -> "smallest"'])
def test_offsets_that_the_program_gives(parameters: str, stream: str, reset: str) -> None:
    made = program(parameters.format(reset), stream)
    says = [each for each in made.missing if each.startswith("fromOffsets: ")]
    assert ["give them to start.offsets" in each for each in says] == [True]
    assert "start" not in keys(made)
    assert "auto.offset.reset" in comments(made) or not reset


@pytest.mark.parametrize(
    "stream",
    [
        'KafkaUtils.createDirectStream(ssc, ["orders"], p, None)',
        'KafkaUtils.createDirectStream(ssc, ["orders"], p, fromOffsets=None)',
        "KafkaUtils.createDirectStream(jssc, A.class, B.class, C.class, D.class, p, "
        'Collections.singleton("orders"));',
    ],
)
def test_no_offsets_are_given(stream: str) -> None:
    made = program(OLD.format(""), stream)
    assert (made.missing, keys(made)["topics"]) == ((), ["orders"])


# Topics

COLUMNS = 'val columns = Seq("id", "name")'


@pytest.mark.parametrize(
    ("first", "topics"),
    [
        ("", 'Array("orders", "refunds")'),
        ("", '["orders", "refunds"]'),
        ("", 'java.util.Arrays.asList("orders", "refunds")'),
        ("", 'Set("orders", "refunds").toSet'),
        ('val topics = Set("orders", "refunds")', "topics"),
        ('val topics: Set[String] = Set("orders", "refunds")', "topics.asJava"),
        ('val topics = Array("orders", "refunds").toSet', "topics"),
        ('topics: list[str] = ["orders", "refunds"]', "topics"),
    ],
)
def test_topics_are_those_of_the_stream(first: str, topics: str) -> None:
    """Not another list of names in the text."""
    stream = NEW_STREAM.format("Subscribe", f"{topics}, p")
    made = program(COLUMNS, first, NEW.format(""), stream)
    assert (made.missing, keys(made)["topics"]) == ((), ["orders", "refunds"])


@pytest.mark.parametrize(
    ("first", "topics"),
    [
        ("val topics = load()", "topics"),
        ('val topics = "orders".split(",").toSet', "topics"),
        ('val topics = Set("orders") ++ more', "topics"),
        ('val topics = Set("orders").filter(known)', "topics"),
        ('topics = ["orders"]; topics.append("refunds")', "topics"),
        ('topics = ["orders"]; topics += ["refunds"]', "topics"),
        ('topics = ["orders"]; topics = load()', "topics"),
        ("", 'Array("orders", name)'),
        ("", 'Array("orders") ++ more'),
        ("", "args(1)"),
    ],
)
def test_topics_of_a_stream_that_are_not_known(first: str, topics: str) -> None:
    stream = NEW_STREAM.format("Subscribe", f"{topics}, p")
    made = program(COLUMNS, first, NEW.format(""), stream)
    assert made.missing == ("subscribe: the topics are not known",)
    assert "topics" not in keys(made)


@pytest.mark.parametrize("pattern", ['Pattern.compile("o.*")', '"o.*".r', '"o.*".r.pattern'])
def test_a_pattern_of_a_stream(pattern: str) -> None:
    made = program(COLUMNS, NEW.format(""), NEW_STREAM.format("SubscribePattern", f"{pattern}, p"))
    known = ((), "o.*")
    unknown = (("subscribePattern: the topics are not known",), None)
    expected = unknown if pattern.endswith("pattern") else known
    assert (made.missing, keys(made).get("pattern")) == expected
    assert "topics" not in keys(made)


def test_assigned_partitions_of_a_stream() -> None:
    partitions = 'List(new TopicPartition("orders", 0))'
    made = program(COLUMNS, NEW.format(""), NEW_STREAM.format("Assign", f"{partitions}, p"))
    assert made.missing == ("assign: the topics are not known",)
