"""Pipeline files: what is wrong is all said at once; what is right becomes a frozen spec."""

from datetime import UTC, datetime
from textwrap import dedent

import pytest

from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import StartAt, parse_spec

AT = "2026-03-14T00:00:00Z"
LEAST = {"name": "flights", "kind": "ingest", "topics": ["flights"], "lake": "/lake"}


@pytest.fixture
def load(tmp_path):
    def load(text, name="flights", **environ):
        path = tmp_path / f"{name}.yaml"
        path.write_text(dedent(text))
        return pipeline_files.load_spec(path, environ)

    return load


def test_the_least_that_is_needed():
    """Everything else has the default of the contract."""
    spec = parse_spec(LEAST)
    assert (spec.kafka, spec.schedule, spec.start, spec.max_records) == (
        "kafka_default", None, "earliest", 5_000_000,
    )  # fmt: skip
    assert (spec.isolation, spec.on_expired, spec.retries) == ("read_committed", "fail", 3)
    assert (spec.spark.connection, spec.spark.conf) == ("spark_default", {})


def test_a_whole_file(load):
    """All keys, as YAML reads them."""
    spec = load(
        """
        name: flights
        kind: ingest
        kafka: prod
        topics: [flights, "a.b_c-d"]
        lake: ${TIDEGATE_LAKE}/x/${TIDEGATE_AREA:-west}
        schedule: "*/10 * * * *"
        start: {timestamp: 2024-05-01T00:00:00Z}
        max_records: 10
        isolation: read_uncommitted
        on_expired: skip
        spark: {connection: big, conf: {spark.executor.memory: 1g, spark.cores.max: 2}}
        retries: 0
        """,
        TIDEGATE_LAKE="s3://bucket",
    )
    assert spec.lake == "s3://bucket/x/west"
    assert spec.start == StartAt(timestamp=datetime(2024, 5, 1, tzinfo=UTC))
    assert spec.spark.conf == {"spark.executor.memory": "1g", "spark.cores.max": 2}


@pytest.mark.parametrize(
    ("lake", "environ", "expected"),
    [
        ("${TIDEGATE_A}", {"TIDEGATE_A": "/x"}, "/x"),
        ("${TIDEGATE_A:-/y}", {"TIDEGATE_A": "/x"}, "/x"),
        ("${TIDEGATE_A:-/y}", {}, "/y"),
        ("${TIDEGATE_A:-/y}", {"TIDEGATE_A": ""}, "/y"),
        ("/x${TIDEGATE_A:-}", {}, "/x"),
        ("/$A", {"TIDEGATE_A": "/x"}, "/$A"),
        ("/${TIDEGATE_A}", {"TIDEGATE_A": "$B {C}"}, "/$B {C}"),
    ],
)
def test_variables_are_expanded(load, lake, environ, expected):
    """As a shell does it, for the two forms of the contract."""
    text = f"{{name: flights, kind: ingest, topics: [flights], lake: '{lake}'}}"
    assert load(text, **environ).lake == expected


def test_all_complaints_come_at_once(load):
    """File, key, value, what is allowed, the nearest known key: for every one of them."""
    with pytest.raises(ConfigurationError) as refused:
        load(
            """
            name: other
            kind: ingest
            topics: [flights, flights/../x]
            lake: ${TIDEGATE_NOWHERE}
            max_recods: 5
            on_expired: later
            retries: -1
            schedule: every day
            timestamp: 2026-03-14T00:00:00Z
            spark: {conection: x}
            """
        )
    message = str(refused.value)
    assert message.startswith(str(refused.value.numbers["file"]))
    for part in (
        "lake: ${TIDEGATE_NOWHERE} is not set in the environment",
        "name: 'other' must be the file's own name, 'flights'",
        "topics.1: 'flights/../x': a topic's name has letters, digits, ., _ and -, 249 at most",
        "max_recods: unknown key; did you mean 'max_records'?",
        "on_expired: 'later': must be fail or skip",
        "retries: -1: must be at least 0",
        "schedule: 'every day': not a cron expression: five fields (six with seconds), for example "
        "0 6 * * *, or one of @hourly, @daily, ",
        "timestamp: unknown key; did you mean 'start.timestamp'?",
        "spark.conection: unknown key; did you mean 'connection'?",
    ):
        assert part in message
    assert message.count("lake: ") == 1  # not what follows from it
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"topics": []}, "topics: give either their names, a pattern"),
        (
            {"topics": ["__HIVE_DEFAULT_PARTITION__"]},
            "topics.0: '__HIVE_DEFAULT_PARTITION__': readers",
        ),
        ({"pattern": "f.*"}, "topics: give either their names, a pattern"),
        ({"exclude": "f.*"}, "exclude: only a pattern has exceptions"),
        ({"topics": [], "pattern": "f("}, "pattern: 'f(': not a regular expression"),
        ({"topics": [], "pattern": "f", "exclude": "["}, "exclude: '[': not a regular expression"),
        ({"topics": [], "pattern": ""}, "pattern: ''"),
        (
            {"topics": [], "pattern": "a.*", "start": {"offsets": {"b": {0: 1}}}},
            "start.offsets: not among the topics: ['b']",
        ),
        ({"progress_group": ""}, "progress_group: ''"),
        ({"start": {"group": ""}}, "start.group: ''"),
        ({"topics": "orders"}, "topics: 'orders': must be a list, for example [orders]"),
        ({"topics": 5}, "topics: 5: must be a list, for example [orders]"),
        ({"topics": [5]}, 'topics.0: 5: must be text; quote a number or a date: "5"'),
        ({"topics": ["a", "a"]}, "topics: one is named twice in ['a', 'a']"),
        ({"topics": [".."]}, "topics.0: '..'"),
        ({"topics": ["a\n"]}, "topics.0: 'a\\n'"),
        ({"topics": ["a" * 250]}, "topics.0: "),
        ({"lake": ""}, "lake: '': must not be empty"),
        ({"max_records": 0}, "max_records: 0: must be at least 1"),
        ({"max_records": "many"}, "max_records: 'many': not a whole number"),
        (
            {"start": "sometime"},
            "start: 'sometime': must be earliest or latest, or a mapping with timestamp, timest",
        ),
        ({"start": {}}, "start: give timestamp, timestamps, offsets or group: one of the four"),
        ({"start": {"timestamp": "2024-05-01T00:00:00"}}, "start.timestamp: "),
        ({"start": {"offsets": {"b": {0: 1}}}}, "start.offsets: not among the topics: ['b']"),
        ({"start": {"offsets": {"flights": {0: -3}}}}, "start.offsets.flights.0: -3"),
        (
            {"start": {"timestamps": {"b": {0: AT}}}},
            "start.timestamps: not among the topics: ['b']",
        ),
        (
            {"start": {"timestamps": {"flights": {0: 5}}}},
            "start.timestamps.flights.0: 5: not a time",
        ),
        (
            {"start": {"timestamps": {"flights": {0: AT}}, "group": "g"}},
            "start: give timestamp, timestamps, offsets",
        ),
        (
            {"start": {"timestamps": {}}},
            "start.timestamps: for each topic give its partitions, for example {orders: {0: 2026-0",
        ),
        (
            {"start": {"offsets": {"flights": {}}}},
            "start.offsets: for each topic give its partitions, for example {orders: {0: 120}}",
        ),
        ({"start": {"group": "g", "otherwise": "none"}}, "start.otherwise: 'none': must be earli"),
        (
            {"start": {"offsets": {"flights": {0: 1}}, "otherwise": "fail"}},
            "start.otherwise: offsets name every partition",
        ),
        ({"assign": {"flights": [0]}}, "topics: give either their names, a pattern for them, or"),
        ({"topics": [], "assign": {}}, "assign: names no partition; give some, for example {ord"),
        ({"topics": [], "assign": ["a"]}, "assign: must be a mapping, for example {orders: [0, 2"),
        ({"topics": [], "assign": {"a": []}}, "assign.a: []: must be a list of partitions, for"),
        ({"topics": [], "assign": {"a": 0}}, "assign.a: 0: must be a list of partitions, for ex"),
        ({"topics": [], "assign": {"a": [1, 1]}}, "assign.a: one is named twice in [1, 1]"),
        ({"topics": [], "assign": {"a": [-1]}}, "assign.a.0: -1: must be at least 0"),
        ({"topics": [], "assign": {"a": [1 << 31]}}, "assign.a.0: 2147483648: must be less than"),
        ({"topics": [], "assign": {"a/b": [1]}}, "assign.a/b: 'a/b': a topic's name has letters"),
        ({"topics": [], "assign": {"a": [0]}, "exclude": "b"}, "exclude: only a pattern has exce"),
        (
            {"topics": [], "assign": {"a": [0]}, "start": {"offsets": {"a": {0: 1, 1: 1}}}},
            "start.offsets: a: partitions [1] are not assigned",
        ),
        (
            {
                "topics": [],
                "assign": {"a": [0, 2]},
                "start": {"timestamps": {"a": {0: AT}}},
            },
            "start.timestamps: a: no start for partitions [2]",
        ),
        ({"kind": "both"}, "kind: 'both': must be ingest (topics into the lake) or egress ("),
        ({"name": "Flights"}, "name: 'Flights': a name begins with a small letter and has small"),
        ({"spark": "big"}, "spark: must be a mapping, for example {connection: spark_default}"),
        ({"spark": {"conf": {"a": [1]}}}, "spark.conf.a: must be text, a number, true or false"),
        ({"where": "key = 1"}, "where: unknown key: a pipeline reads or sends all rows; a filter"),
        ({"schema": "a INT"}, "schema: unknown key: Spark's Kafka source has columns of its own"),
        ({"name": "a__b"}, "name: 'a__b'"),
        ({"name": "flights\n"}, "name: 'flights\\n'"),
        ({"name": "a" * 65}, "name: "),
    ],
)
def test_each_wrong_value_is_named(change, complaint):
    """One complaint, beginning with the key and the value; no other complaint hides it."""
    for others in ({}, {"schedule": "every day", "spark": {"connection": 5}}):
        with pytest.raises(ValueError) as refused:
            parse_spec({**LEAST, **others, **change})
        lines = str(refused.value).splitlines()
        assert any(line.startswith(complaint) for line in lines)
        assert len(lines) == 1 + len(others.keys() - change.keys())


def test_several_complaints_about_a_key_are_lines() -> None:
    """Each begins with the key."""
    start = {"timestamps": {"a": {0: AT}, "c": {0: AT}}}
    assign = {"a": [0, 2], "b": [0]}
    with pytest.raises(ValueError) as refused:
        parse_spec({**LEAST, "topics": [], "assign": assign, "start": start})
    assert str(refused.value).splitlines() == [
        "start.timestamps: not among the topics: ['c']",
        "start.timestamps: a: no start for partitions [2]",
        "start.timestamps: b: no start for partitions [0]",
    ]


USABLE = (
    "use a directory (/data, file:///data) or s3://bucket/data or gs://bucket/data or "
    "abfss://container@account.dfs.core.windows.net/data"
)


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("ftp://host/lake", f"ftp:// is not supported; {USABLE}"),
        ("gcs://bucket/lake", "gcs:// is not supported; use gs://"),
        ("https://host/lake", f"https:// is not supported; {USABLE}"),
        ("s3a://bucket/lake", "s3a:// is not supported; use s3://"),
        ("S3://bucket/lake", "S3:// is not supported; use s3://"),
        ("file://host/lake", "a file URL is file:///and/a/path"),
        ("s3:///lake", "no bucket: s3://bucket/data"),
        ("s3://*/lake", "no bucket: s3://bucket/data"),
        ("lake", "neither an absolute path nor a URL"),
        ("s3://bucket/a lake", "a URL here has no ' '"),
        ("s3://bucket/a%20lake", "a URL here has no '%'"),
        ("/lake", None),
        ("/a lake", None),
        ("file:///lake", None),
        ("s3://bucket", None),
        ("gs://bucket/lake", None),
        ("abfss://c@a.dfs.core.windows.net/lake", None),
        ("s3://my.bucket-1/a/lake", None),
    ],
)
def test_where_a_lake_may_be(place: str, complaint: str | None) -> None:
    """And the files of an egress, whose path may be a pattern. What a run could not open is refused
    when the file is read.
    """
    out = {"name": "o", "kind": "egress", "target": {"topic": "t"}, "lake": "/l"}
    forms = {
        "lake": {**LEAST, "lake": place},
        "source.path": {**out, "source": {"path": place, "format": "text"}},
    }
    for key, form in forms.items():
        if complaint is None or (key == "source.path" and complaint.startswith("a URL")):
            parse_spec(form)
        else:
            with pytest.raises(ValueError) as refused:
                parse_spec(form)
            assert str(refused.value) == f"{key}: {place!r}: {complaint}"


@pytest.mark.parametrize("text", ["", "- a", "a: [", "a: *b", "text"])
def test_what_is_no_mapping_is_refused(load, text):
    """Empty, a list, broken YAML, a stray `*` (an unquoted cron expression)."""
    with pytest.raises(ConfigurationError, match=r"flights\.yaml"):
        load(text)


def test_missing_keys_are_named():
    """All of those that are needed."""
    with pytest.raises(ValueError) as refused:
        parse_spec({})
    assert str(refused.value).splitlines() == [
        "name: missing",
        "kind: missing: ingest (topics into the lake) or egress (files or a lake into topics)",
        "topics: give either their names, a pattern for them, or `assign`",
        "lake: missing",
    ]
    with pytest.raises(ValueError) as refused:
        parse_spec({"name": "back", "lake": "/lake", "source": {"lake": "flights"}})
    assert str(refused.value).splitlines()[-1] == "target: missing, for example {topic: orders}"


def test_which_topics_a_pattern_means():
    """The whole name matches, and no exception does; never Kafka's own topics."""
    known = ["a.one", "a.two", "ba.one", "a.one.more", "__a.one", "a.test"]
    spec = parse_spec(
        {**LEAST, "topics": [], "pattern": r"(__)?a\..*", "exclude": r".*\.(test|more)"}
    )
    assert spec.select(known) == ("a.one", "a.two")
    assert spec.subscription == r"/(__)?a\..*/ without /.*\.(test|more)/"
    assert parse_spec(LEAST).select(known) == ("flights",)


def test_assigned_partitions():
    """Their topics are the topics; the order of the file is of no importance."""
    spec = parse_spec({**LEAST, "topics": [], "assign": {"orders": [2, 0], "payments": [1]}})
    assert spec.topics == spec.select(["other"]) == ("orders", "payments")
    assert spec.subscription == "orders [0, 2], payments [1]"
    assert [spec.partitions_of(t) for t in ("orders", "payments", "other")] == [{0, 2}, {1}, set()]
    assert parse_spec(LEAST).partitions_of("flights") is None


@pytest.mark.parametrize(
    ("old", "word"),
    [("smallest", "earliest"), ("beginning", "earliest"), ("largest", "latest"), ("end", "latest")],
)
def test_old_words_for_the_ends_of_a_log(old, word):
    """Accepted, with a notice that names today's word."""
    said = f"read as {word}: {old} is an older word for it"
    assert parse_spec({**LEAST, "start": old}).notices == (f"start: {said}",)
    otherwise = {"group": "g", "otherwise": old}
    assert parse_spec({**LEAST, "start": otherwise}).notices == (f"start.otherwise: {said}",)
    assert parse_spec({**LEAST, "start": word}).notices == ()
    assert parse_spec({**LEAST, "start": {"group": "g"}}).notices == ()


def test_an_unknown_pipeline_names_the_known_ones(tmp_path, monkeypatch):
    """The directory is that of TIDEGATE_PIPELINES."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    (tmp_path / "a.yaml").touch()
    (tmp_path / "b.yaml").touch()
    with pytest.raises(ConfigurationError, match=r"'c' .*there are: a, b$"):
        pipeline_files.load_named("c")
    (tmp_path / "flights.yaml").touch()
    with pytest.raises(ConfigurationError, match=r"there are: a, .*; did you mean 'flights'\?$"):
        pipeline_files.load_named("fligths")


def test_a_directory_that_is_not_there_is_named(tmp_path, monkeypatch):
    """No names would look like no pipelines: DAGs would be gone, and commands do nothing."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "away"))
    for ask in (pipeline_files.pipeline_names, lambda: pipeline_files.load_named("a")):
        with pytest.raises(ConfigurationError, match=r"no directory .*/away; set TIDEGATE_PIPEL"):
            ask()
    monkeypatch.delenv("TIDEGATE_PIPELINES")
    monkeypatch.setattr(pipeline_files, "CHECKOUT", tmp_path)  # an installed package
    with pytest.raises(ConfigurationError, match="is known; set TIDEGATE_PIPELINES"):
        pipeline_files.pipelines_directory()


def test_the_projects_own_pipelines_are_right():
    """The sample is the first test input."""
    paths = sorted(pipeline_files.pipelines_directory().glob("*.yaml"))
    specs = [pipeline_files.load_spec(path, {"TIDEGATE_LAKE": "/lake"}) for path in paths]
    assert [(spec.name, spec.kind) for spec in specs] == [
        ("flights", "ingest"),
        ("flights_back", "egress"),
    ]


def test_a_relative_lake_is_refused(load):
    """Airflow and a terminal stand in other directories: they would use two lakes."""
    with pytest.raises(ConfigurationError, match="neither an absolute path nor a URL"):
        load("{name: flights, kind: ingest, topics: [flights], lake: here}")
