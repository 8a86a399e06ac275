"""`tidegate settings NAME` and the judge of pipeline files give the same answers."""

import itertools

import pytest

from support.cases import each_of
from tidegate.broker import client_settings
from tidegate.broker.connection_fields import fields
from tidegate.errors import ConfigurationError
from tidegate.pipelines.spec import parse_spec
from tidegate.settings import kafka_clients, secrets
from tidegate.settings.setting import Answer, Place, Setting
from tidegate.settings.table import TABLE, find_setting, find_settings, judge_settings

INGEST = {"name": "a", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
EGRESS = {"name": "b", "kind": "egress", "source": {"lake": "a"}, "lake": "/lake"}
OF_SPARK = (
    "spark.executor.memory", "spark.driver.memory", "spark.executor.cores", "spark.eventLog.dir",
    "spark.log.level", "spark.kafka.clusters.a.security.protocol",
    "spark.kafka.clusters.a.sasl.jaas.config", "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.endpoint",
    "spark.hadoop.fs.s3a.bucket.b.session.token", "spark.hadoop.fs.azure.account.key.profile",
    "spark.sql.catalog.lake", "spark.sql.catalog.lake.uri", "spark.sql.catalog.lake.credential",
    "spark.sql.catalogImplementation", "spark.sql.legacy.x", "spark.ssl.keyPassword",
    "spark.ssl.keyStore", "spark.executorEnv.DB_PW", "spark.executorEnv.TZ", "spark.x.y",
)  # fmt: skip
FIELDS = tuple(fields())
NAMES = sorted(
    {each.name.replace("*", "x") for each in TABLE if each.place is not Place.CONNECTION}
    | {*OF_SPARK}
)
VALUES = ("1", "true", "read_committed", "none", "all", "5m", "a", "false", "INFO", "classic", "2g",
          "10000", "org.apache.kafka.clients.producer.RoundRobinPartitioner")  # fmt: skip


def told(place: Place, name: str) -> Setting | None:
    """Return what `tidegate settings` says of a name at a place."""
    try:
        found = {
            each.place: each
            for each in find_settings(name, FIELDS)
            if name.lower() in (each.name.lower(), each.name.lower().replace("*", "x"))
            or (each.name.endswith("*") and name.startswith(each.name[:-1]))
        }
    except ConfigurationError:
        return None
    return found.get(place) or (found.get(Place.SPARK) if place is Place.SENDING else None)


def value_of(place: Place, name: str) -> str:
    """Return a value that the table takes; any if it takes none."""
    setting = find_setting(place, name)
    target = setting and find_setting(place, setting.becomes or setting.name)
    check = (target or setting or Setting(name=name, place=place)).check or (lambda _: None)
    return next((value for value in VALUES if not check(value)), "x")


@each_of(itertools.product(NAMES, [p for p in Place if p is not Place.CONNECTION]))
def test_both_answers_are_one(case: tuple[str, Place]) -> None:
    """Of every name of the table, and of others that begin with `spark.`."""
    name, place = case
    value = value_of(place, name)
    verdict, answer = judge_settings(place, {name: value}), told(place, name)
    if answer is None:
        assert verdict.complaints != ()
    elif answer.answer is Answer.REFUSED:
        assert verdict.complaints == (
            f"{name}: refused: {answer.why}" + (f"; use {answer.use}" if answer.use else ""),
        )
    else:
        assert verdict.complaints == ()
        assert list(verdict.settings) == [answer.becomes or name]
        assert bool(verdict.notices) == (answer.answer in (Answer.TRANSLATED, Answer.WARNED))


@pytest.mark.parametrize("name", OF_SPARK)
def test_a_file_is_judged_so_too(name: str) -> None:
    """Of an ingest and of an egress: the complaint of `validate` has the words of the answer."""
    for place, form in (
        (Place.SPARK, INGEST),
        (Place.SENDING, {**EGRESS, "target": {"topic": "t"}}),
    ):
        answer = told(place, name)
        assert answer is not None
        form = {**form, "spark": {"conf": {name: value_of(place, name)}}}
        if answer.answer is Answer.REFUSED:
            with pytest.raises(ValueError) as refused:
                parse_spec(form)
            assert f"spark.conf: {name}: refused: {answer.why}" in str(refused.value)
        else:
            parse_spec(form)


def test_a_log_level_is_judged_by_the_table() -> None:
    (answer,) = find_settings("spark.log.level")
    assert answer.check is not None
    assert answer.check("TRACE")
    assert not answer.check("INFO")
    assert "TRACE" in answer.why


def test_what_may_only_refer_to_a_secret() -> None:
    """By its name accepted, by its value not."""
    name = "spark.kubernetes.executor.secretKeyRef.DB"
    (answer,) = find_settings(name)
    assert (answer.answer, secrets.WHY in answer.why) == (Answer.ACCEPTED, True)
    assert judge_settings(Place.SPARK, {name: "s3:key"}).complaints == ()
    assert secrets.WHY in judge_settings(Place.SPARK, {name: "hunter2"}).complaints[0]


@each_of(FIELDS)
def test_each_field_of_a_connection(field: Setting) -> None:
    """The reader of connections refuses exactly those that are said to be refused."""
    assert field in find_settings(field.name, FIELDS)
    try:
        client_settings.normalise_settings("k", {field.name: "x"}, here=False)
        complaints = ""
    except ConfigurationError as error:
        complaints = str(error)
    refused = (f"{field.name}: refused: {field.why}", f"{field.name}: {field.why}")
    assert any(each in complaints for each in refused) == (field.answer is Answer.REFUSED)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("bootstrap.servers", Answer.ACCEPTED),
        ("security.protocol", Answer.ACCEPTED),
        ("sasl.username", Answer.ACCEPTED),
        ("sasl.mechanisms", Answer.TRANSLATED),
        ("ssl.ca.location", Answer.ACCEPTED),
        ("ssl.truststore.location", Answer.REFUSED),
        ("sasl.jaas.config", Answer.REFUSED),
        ("client.dns.lookup", Answer.WARNED),
        ("tidegate.delegation_token", Answer.ACCEPTED),
    ],
)
def test_fields_of_a_connection(name: str, answer: Answer) -> None:
    """What pipeline files refuse with "use the Kafka connection" has its answer there, too."""
    (found,) = [each for each in find_settings(name, FIELDS) if each.place is Place.CONNECTION]
    assert found.answer is answer
    assert ("tidegate docs secured-cluster" in found.why) == (answer is Answer.ACCEPTED)
    for name in kafka_clients.SECURITY:
        assert Place.CONNECTION in {each.place for each in find_settings(name, FIELDS)}


@each_of(each.name for each in TABLE if each.answer is Answer.REFUSED)
def test_a_guess_is_no_refused_name(name: str) -> None:
    """Neither of `settings` nor of `validate`."""
    wrong = f"{name.removesuffix('*')}q"
    for place in (Place.SOURCE, Place.SINK):
        (complaint,) = judge_settings(place, {wrong: "x"}).complaints
        guessed = complaint.partition("did you mean ")[2].strip("'?")
        found = find_setting(place, guessed) if guessed else None
        assert (found is None) != bool(guessed)
        assert not found or found.answer is not Answer.REFUSED
    if not wrong.startswith("spark."):
        with pytest.raises(ConfigurationError) as unknown:
            find_settings(wrong, FIELDS)
        guessed = str(unknown.value).partition("did you mean ")[2].strip("'?")
        answers = {each.answer for each in find_settings(guessed, FIELDS)} if guessed else set()
        assert answers != {Answer.REFUSED}


def test_no_new_name_is_told_as_its_own_old_one() -> None:
    for each in TABLE:
        assert each.why != f"the old name of {each.name}", each.name


def test_an_egress_is_told_of_no_key_of_an_ingest() -> None:
    for each in TABLE:
        if each.place in (Place.SINK, Place.SENDING):
            for key in ("progress_group", "on_expired", "`start`", "`pattern`", "`isolation`"):
                assert key not in f"{each.why} {each.use}", each.name
