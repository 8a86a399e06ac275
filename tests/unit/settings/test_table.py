"""The table of settings, and its judge."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cases import each_of
from tidegate.settings import setting, sink_settings, source, spark_conf
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE, Verdict, find_setting, find_settings, judge_settings
from tidegate.spark import producer_settings

OPTIONS = (Place.SOURCE, Place.SINK)
TOKENS = "spark.security.credentials.kafka.enabled"
VALID = ("1", "true", "read_committed", "none", "all", "5m", "a", "false", "INFO", "classic", "2g")


def value_of(each: setting.Setting) -> str:
    """Return a value that the table takes."""
    target = find_setting(each.place, each.becomes or each.name) or each
    check = target.check or (lambda _: None)
    fits = [v for v in (target.default, *VALID, "10000", "org.apache.kafka.clients.producer."
            "RoundRobinPartitioner") if v and not check(v)]  # fmt: skip
    return fits[0]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("spark.executor.memory", "2 GB", "not a size, for example 512m or 2g"),
        ("spark.driver.memory", "2gb", "not a memory of Java"),
        ("spark.driver.memory", "2", "not a memory of Java"),
        ("spark.executor.memory", "2", "less than 450m, the least that Spark starts with"),
        ("spark.executor.memoryOverhead", "1 GB", "not a size, for example 512m or 2g"),
        ("spark.network.timeout", "2 min", "not a duration"),
        (
            "spark.kafka.consumer.cache.timeut", "5m",
            "no setting of Spark's Kafka connector; did you mean "
            "'spark.kafka.consumer.cache.timeout'?",
        ),
        ("spark.kafka.sasl.token.mechanism", "x", "no setting of Spark's Kafka connector"),
        ("spark.sql.kafkaConsumerCache.timeout", "5m", "no setting of Spark's Kafka connector"),
    ],
)  # fmt: skip
def test_what_spark_would_refuse_or_ignore(name: str, value: str, says: str) -> None:
    """Before anything is started: `validate` has it, too."""
    (complaint,) = judge_settings(Place.SPARK, {name: value}).complaints
    assert complaint.startswith(f"{name}: ")
    assert says in complaint


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("spark.executor.memroy", "spark.executor.memory"),
        ("spark.executor.core", "spark.executor.cores"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("spark.executor.memory", None),
        ("spark.executor.memoryOverheadFactor", None),
        ("spark.driver.port", None),
        ("spark.sql.session.localRelationCacheThreshold", None),
    ],
)
def test_a_name_that_is_nearly_one_of_sparks(name: str, meant: str | None) -> None:
    """It passes, since Spark has more names than are known here, and a notice asks."""
    found = judge_settings(Place.SPARK, {name: "2g"})
    assert (found.settings, found.complaints) == ({name: "2g"}, ())
    assert [repr(meant) in notice for notice in found.notices] == ([True] if meant else [])


@pytest.mark.parametrize("value", ["512m", "2G", "1t"])
def test_memory_that_spark_takes(value: str) -> None:
    for name in ("spark.executor.memory", "spark.driver.memory", "spark.executor.memoryOverhead"):
        assert judge_settings(Place.SPARK, {name: value}).complaints == ()


@pytest.mark.parametrize("value", ["2gb", "4096"])
def test_memory_that_only_spark_reads(value: str) -> None:
    """Of executors: Java gets it in MiB."""
    assert judge_settings(Place.SPARK, {"spark.executor.memory": value}).complaints == ()
    assert judge_settings(Place.SPARK, {"spark.driver.memory": value}).complaints


def test_each_name_is_there_once() -> None:
    """Options have names in any letter case, so they may not differ by it alone."""
    counted = Counter((each.place, each.name.lower()) for each in TABLE)
    assert [name for name, times in counted.items() if times > 1] == []


@each_of(TABLE)
def test_the_answer_is_what_the_table_says(each: setting.Setting) -> None:
    """A refused one has its reason, a translated one another name, each other one passes."""
    verdict = judge_settings(each.place, {each.name: value_of(each)})
    if each.answer is Answer.REFUSED:
        assert each.why
        assert verdict.settings == {}
        assert verdict.complaints == (
            f"{each.name}: refused: {each.why}" + (f"; use {each.use}" if each.use else ""),
        )
    else:
        assert verdict.complaints == ()
        assert list(verdict.settings) == [each.becomes or each.name]
        assert bool(verdict.notices) == (each.answer in (Answer.TRANSLATED, Answer.WARNED))
        assert each.answer is not Answer.WARNED or each.why
    if each.default is not None and each.answer is Answer.ACCEPTED:
        assert judge_settings(each.place, {each.name: each.default}).complaints == ()


@pytest.mark.parametrize("place", OPTIONS)
@settings(deadline=None)
@given(data=st.data())
def test_names_in_any_letter_case(place: Place, data: st.DataObject) -> None:
    """Each reaches Spark once, by the name that Spark has."""
    passing = [e for e in TABLE if e.place is place and e.answer is Answer.ACCEPTED]
    each = data.draw(st.sampled_from(passing))
    spelt = "".join(data.draw(st.sampled_from([c.lower(), c.upper()])) for c in each.name)
    value = value_of(each)
    assert judge_settings(place, {spelt: value}).settings == {
        each.name: each.values.get(value, value)
    }
    if spelt != each.name:
        twice = judge_settings(place, {each.name: value, spelt: value})
        assert twice.complaints == (f"{spelt}: given twice, as {each.name}",)


@pytest.mark.parametrize(
    ("place", "name", "value", "says"),
    [
        (Place.SINK, "kafka.acks", "-1", "its value is read as all"),
        (Place.SPARK, "spark.kafka.producer.cache.evictorThreadRunInterval", "0", "never closed"),
        (Place.SPARK, "spark.kafka.producer.cache.evictorThreadRunInterval", "-1ms", "never clo"),
        (Place.SPARK, "spark.kafka.producer.cache.evictorThreadRunInterval", "10ms", None),
        (Place.SPARK, "spark.kafka.producer.cache.timeout", "0", None),
        (Place.SPARK, "spark.kafka.consumer.cache.timeout", "00s", "idle consumers are never"),
        (Place.SPARK, "spark.kafka.consumer.fetchedData.cache.timeout", "0", None),
        (Place.SENDING, "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval", "-5",
         "fetched records are never dropped"),
        (Place.SPARK, "spark.sql.kafkaConsumerCache.capacity", "9", "read as spark.kafka.consumer"),
        (Place.SPARK, "spark.jars", "/a.jar, hdfs:///kafka-clients-2.8.0.jar", "may load either"),
        (Place.SENDING, "spark.jars", "/a/spark-sql-kafka-0-10_2.12-3.5.1.jar", "may load either"),
        (Place.SPARK, "spark.jars", "/kafka-clients-2.8/own.jar,/a/my-kafka-clients.jar", None),
        (Place.SPARK, "spark.sql.catalog.lake.uri", "x", "it names code that Spark runs"),
        (Place.SPARK, TOKENS, "False", "on YARN and Kubernetes Spark then obtains no delegation"),
        (Place.SENDING, TOKENS, "false", "a run of a connection that asks for one fails there"),
        (Place.SPARK, TOKENS, "true", None),
    ],
)  # fmt: skip
def test_an_accepted_value_with_a_consequence(
    place: Place, name: str, value: str, says: str | None
) -> None:
    verdict = judge_settings(place, {name: value})
    assert verdict.complaints == ()
    assert len(verdict.settings) == 1
    assert [says in each for each in verdict.notices if says] == [True] * bool(says)
    assert len(verdict.notices) == bool(says)


def test_an_egress_decides_more_of_spark() -> None:
    """What Spark could repeat; in each application, what values depend on."""
    for name in (
        "spark.task.maxFailures", "spark.decommission.enabled",
        "spark.stage.ignoreDecommissionFetchFailure",
    ):  # fmt: skip
        assert judge_settings(Place.SPARK, {name: "x"}) == Verdict({name: "x"}, (), ())
        (complaint,) = judge_settings(Place.SENDING, {name: "x"}).complaints
        assert complaint.startswith(f"{name}: refused: ")
    for place in (Place.SPARK, Place.SENDING):
        for name in (
            "spark.submit.deployMode", "spark.sql.parquet.writeLegacyFormat",
            "spark.sql.session.timeZone", "spark.sql.caseSensitive", "spark.sql.ansi.enabled",
            "spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.legacy.timeParserPolicy",
            "spark.sql.variant.allowDuplicateKeys",
        ):  # fmt: skip
            (complaint,) = judge_settings(place, {name: "x"}).complaints
            assert complaint.startswith(f"{name}: refused: Tidegate sets it: ")
        (complaint,) = judge_settings(place, {"spark.sql.legacy.anything": "x"}).complaints
        assert complaint.startswith("spark.sql.legacy.anything: refused: ")


def test_names_that_begin_alike_have_one_answer() -> None:
    """By the name that was given; another place, or another name, has its own."""
    found = find_setting(Place.SENDING, "spark.sql.catalog.lake.uri")
    assert found is not None
    assert (found.name, found.answer) == ("spark.sql.catalog.lake.uri", Answer.WARNED)
    assert find_setting(Place.SPARK, "spark.sql.catalogImplementation") is None
    ingest, egress = find_settings("spark.task.maxFailures")
    assert ingest.name == egress.name == "spark.task.maxFailures"
    assert (ingest.answer, egress.answer) == (Answer.ACCEPTED, Answer.REFUSED)


@pytest.mark.parametrize("place", [Place.SPARK, Place.SENDING])
def test_code_in_spark(place: Place) -> None:
    """Either a notice, or refused where it would replace what reads and sends, or the session."""
    for name in (
        "spark.sql.extensions", "spark.plugins", "spark.extraListeners", "spark.submit.pyFiles",
        "spark.sql.queryExecutionListeners", "spark.sql.sources.commitProtocolClass",
        "spark.executor.extraClassPath", "spark.driver.extraClassPath",
    ):  # fmt: skip
        verdict = judge_settings(place, {name: "x"})
        assert (verdict.settings, verdict.complaints) == ({name: "x"}, ())
        assert len(verdict.notices) == 1
    for name in (
        "spark.remote", "spark.api.mode", "spark.driver.userClassPathFirst",
        "spark.executor.userClassPathFirst", "spark.files.userClassPathFirst",
    ):  # fmt: skip
        (complaint,) = judge_settings(place, {name: "x"}).complaints
        assert complaint.startswith(f"{name}: refused: ")


def test_spark_has_the_letter_case_of_its_settings() -> None:
    assert judge_settings(Place.SPARK, {"spark.Kafka.consumer.cache.capacity": "1"}).complaints == (
        "spark.Kafka.consumer.cache.capacity: Spark's settings have their letter case: "
        "spark.kafka.consumer.cache.capacity",
    )
    assert judge_settings(Place.SPARK, {"spark.x.y": "z"}).settings == {"spark.x.y": "z"}
    assert judge_settings(Place.SPARK, {"x": "z"}).complaints == (
        "x: Spark's settings begin with `spark.`",
    )
    assert judge_settings(Place.SPARK, {"spark.Task.maxFailures": "1"}).complaints == (
        "spark.Task.maxFailures: Spark's settings have their letter case: spark.task.maxFailures",
    )
    for name in (" spark.x.y", "spark.kafka.consumer.cache.capacity "):
        assert judge_settings(Place.SPARK, {name: "1"}).complaints == (
            f"{name}: blanks around the name: Spark would not know it",
        )


@pytest.mark.parametrize(
    ("place", "name", "says"),
    [
        (Place.SOURCE, "kafka.max.pol.records", "did you mean 'kafka.max.poll.records'"),
        (Place.SOURCE, "max.poll.records", "did you mean 'kafka.max.poll.records'"),
        (Place.SOURCE, "auto.offset.reset", "refused: the plan's offsets are the only start"),
        (Place.SOURCE, "kafka.linger.ms", "no setting of Kafka's consumer"),
        (Place.SINK, "kafka.group.id", "no setting of Kafka's producer"),
        (Place.SINK, "linger.ms", "did you mean 'kafka.linger.ms'"),
        (Place.SOURCE, "sasl.jaas.config", "refused: it says which cluster is used"),
    ],
)
def test_a_name_that_is_not_known(place: Place, name: str, says: str) -> None:
    (complaint,) = judge_settings(place, {name: "hunter2"}).complaints
    assert says in complaint
    assert "hunter2" not in complaint


@pytest.mark.parametrize(
    ("place", "name", "value", "says"),
    [
        (Place.SOURCE, "kafkaConsumer.pollTimeoutMs", "0", "from 1"),
        (Place.SOURCE, "minPartitions", "many", "not a whole number"),
        (Place.SOURCE, "kafka.isolation.level", "committed", "one of read_committed"),
        (Place.SINK, "kafka.acks", "0", "would lose records"),
        (Place.SINK, "kafka.acks", "3", "of Kafka 0.8"),
        (Place.SINK, "kafka.partitioner.ignore.keys", "true", "many partitions"),
        (Place.SOURCE, "kafka.check.crcs", "False", "damaged on the way"),
        (Place.SOURCE, "kafka.heartbeat.interval.ms", "-1", "from 0 to"),
        (Place.SOURCE, "kafka.session.timeout.ms", "-1", "from 0 to"),
        (Place.SOURCE, "kafka.socket.connection.setup.timeout.ms", "0", "from 100 to"),
        (Place.SOURCE, "kafka.socket.connection.setup.timeout.max.ms", "-1", "from 100 to"),
        (Place.SINK, "kafka.max.block.ms", "1", "from 1000 to"),
        (Place.SINK, "kafka.partitioner.class", "com.example.Mine", "RoundRobinPartitioner"),
        (Place.SINK, "request.required.acks", "0", "would lose records"),
        (Place.SINK, "kafka.compression.gzip.level", "0", "-1, or from 1 to 9"),
        (Place.SPARK, "spark.kafka.consumer.cache.timeout", "5x", "not a duration"),
        (Place.SPARK, "spark.kafka.producer.cache.timeout", "5 m", "not a duration"),
        (Place.SPARK, "spark.kafka.consumer.cache.capacity", "0", "from 1 to"),
        (Place.SPARK, "spark.kafka.consumer.cache.jmx.enable", "yes", "true or false"),
        (Place.SPARK, TOKENS, "off", "true or false"),
    ],
)
def test_a_value_that_a_client_would_refuse(place: Place, name: str, value: str, says: str) -> None:
    (complaint,) = judge_settings(place, {name: value}).complaints
    assert complaint.startswith(f"{name}: ")
    assert says in complaint


SETUP, SETUP_MAX = (f"socket.connection.setup.timeout.{each}ms" for each in ("", "max."))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({SETUP: "20000", SETUP_MAX: "19999"}, True),
        ({SETUP: "20000", SETUP_MAX: "20000"}, False),
        ({SETUP: "60000"}, False),
        ({SETUP_MAX: "5000"}, False),
        ({SETUP: "20000", SETUP_MAX: "${X}"}, False),
    ],
)
def test_the_longest_time_to_connect(given: dict[str, str], wrong: bool) -> None:
    """Of consumer and producer. A value alone is compared with none: Kafka takes the lesser."""
    says = f"{SETUP_MAX}: less than {SETUP}: no time-out would be as long as that"
    of_source = source.source_disagreements(
        {f"kafka.{name}": value for name, value in given.items()}
    )
    assert of_source == [f"kafka.{says}"] * wrong
    assert producer_settings.producer_contradictions(given) == [says] * wrong


def test_an_unset_variable_is_not_checked() -> None:
    """Its name is, and what is refused with any value."""
    given = {"minPartitions": "${TASKS}", "failOnDataLoss": "${X}", "kafka.fetch.min.byte": "${X}"}
    verdict = judge_settings(Place.SOURCE, given)
    assert [each.partition(":")[0] for each in verdict.complaints] == [
        "failOnDataLoss", "kafka.fetch.min.byte",
    ]  # fmt: skip
    assert judge_settings(Place.SOURCE, {"minPartitions": "${TASKS:-x}"}).complaints != ()


def test_all_at_once() -> None:
    """Accepted, translated, warned and refused ones, in the order in which they were given."""
    verdict = judge_settings(
        Place.SINK,
        {"kafka.linger.ms": "5", "request.required.acks": "-1", "kafka.transactional.id": "t",
         "includeHeaders": "true", "kafka.lingr.ms": "1"},
    )  # fmt: skip
    assert verdict.settings == {
        "kafka.linger.ms": "5", "kafka.acks": "all", "includeHeaders": "true",
    }  # fmt: skip
    assert [each.partition(":")[0] for each in verdict.notices] == [
        "request.required.acks", "includeHeaders",
    ]  # fmt: skip
    assert [each.partition(":")[0] for each in verdict.complaints] == [
        "kafka.transactional.id", "kafka.lingr.ms",
    ]  # fmt: skip


def test_tidegates_defaults_are_in_the_table() -> None:
    for place, defaults in ((Place.SOURCE, source.DEFAULTS), (Place.SINK, sink_settings.DEFAULTS)):
        for name, value in defaults.items():
            found = find_setting(place, f"kafka.{name}")
            assert found is not None
            assert found.default == value
    for name, value in spark_conf.CONSUMER_CACHES.items():
        found = find_setting(Place.SPARK, name)
        assert found is not None
        assert found.default == value


def test_reasons_are_sentences_that_end_without_a_dot() -> None:
    for each in TABLE:
        assert not re.search(r"[.\s]$", each.why), each.name


def test_no_secret_is_accepted_as_an_option() -> None:
    """`explain` and the run report show the values of all of them."""
    for each in TABLE:
        if each.place in OPTIONS and each.answer is not Answer.REFUSED:
            assert not re.search("jaas|password|secret|keystore|token", each.name, re.IGNORECASE)
