"""The doctor's checks of a pipeline, and those of its broker, topics and Spark master."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from croniter import croniter

from tidegate.broker.cluster import Cluster, survey
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.open_transactions import open_since
from tidegate.broker.retention import Retention, read_retentions
from tidegate.core.cluster_answers import Survey, iso
from tidegate.core.cursor import Watermarks
from tidegate.core.draft import topic_problems
from tidegate.core.fold import Fold
from tidegate.core.partition import (
    FIXES,
    LeftOut,
    Reason,
    describe_problems,
    fix_for,
    hanging_problems,
    is_skipped,
)
from tidegate.core.wording import counted, duration
from tidegate.doctor import claim_checks
from tidegate.doctor.check import Check, Line, failure, ok, warning
from tidegate.doctor.connection_checks import (
    KafkaLookup,
    SparkLookup,
    check_master,
    check_tokens,
    find_connection,
    report_connections,
)
from tidegate.doctor.lake import check_lake
from tidegate.doctor.provider import check_provider
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.ingest import truncation
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.launch import spark_home
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.pipelines.value_types import cron
from tidegate.runs.client_options import refuse_contradictions
from tidegate.runs.topics import resolve_topics


@dataclass(frozen=True)
class _Topics:
    """The input of the checks of an ingest's topics."""

    spec: Ingest
    fold: Fold
    cluster: Cluster
    survey: Survey

    def cursors(self, topic: str) -> dict[int, int]:
        """Return the cursor of each partition. None of a topic that was never read."""
        return self.fold.cursors(topic) if topic in self.fold.topic_ids else {}


def checks(
    spec: Spec,
    kafka: KafkaLookup,
    spark: SparkLookup,
    source: KafkaLookup | None = None,
    alert: Callable[[], None] | None = None,
) -> list[Check]:
    """Return a pipeline's checks. `kafka` and `spark` look up its connections and may raise.

    `source` looks up the connection of the ingest pipeline whose lake an egress sends. `alert`
    raises ConfigurationError if nobody would be told of a failure.
    """
    ask: dict[str, Callable[[], Iterator[Line]]] = {"lake": lambda: check_lake(spec)}
    ask["connection"] = lambda: report_connections(kafka, source)
    if isinstance(spec, Ingest):
        ask["kafka"] = lambda: check_topics(spec, kafka())
    else:
        ask["claim"] = lambda: claim_checks.check_claims(spec)
        ask["source"] = lambda: claim_checks.check_source(spec)
        ask["kafka"] = lambda: check_broker(kafka())
        ask["target"] = lambda: claim_checks.check_target(spec, kafka())
    ask["spark"] = lambda: check_spark(spark())
    ask["deploy mode"] = lambda: _deploy_mode(spec, find_connection(kafka), find_connection(spark))
    ask["provider"] = lambda: _provider(spec, find_connection(spark))
    ask["tokens"] = lambda: check_tokens(spec, kafka, spark, source)
    ask["settings"] = lambda: _settings(spec, find_connection(kafka))
    if alert and spec.airflow.on_failure:
        ask["alert"] = lambda: _alert(alert)
    return [Check(name, each, spec.name) for name, each in ask.items()]


def _alert(check: Callable[[], None]) -> Iterator[Line]:
    """Check that the notifier of a failure can be made on this machine."""
    try:
        check()
    except ConfigurationError as error:
        yield failure("alert", str(error), "correct it, or install its package")
    else:
        yield ok("alert", "its notifier is there")


def _settings(spec: Spec, kafka: KafkaCluster | None) -> Iterator[Line]:
    """Report the notices about a pipeline's settings, and what contradicts its connection."""
    for notice in spec.notices:
        yield ok("settings", notice)
    if kafka:
        try:
            refuse_contradictions(spec, kafka)
        except ConfigurationError as error:
            yield failure("settings", str(error), "correct the pipeline's file, or the connection")


def check_broker(kafka: KafkaCluster) -> Iterator[Line]:
    """Check that a broker answers and takes the connection's credentials."""
    with Cluster(kafka) as cluster:
        yield ok("kafka", _versions(kafka, cluster))


def _versions(kafka: KafkaCluster, cluster: Cluster) -> str:
    client = version("kafka-python")
    return f"{kafka.bootstrap_servers} answers: brokers {cluster.version()}, kafka-python {client}"


def check_topics(spec: Ingest, kafka: KafkaCluster) -> Iterator[Line]:
    """Check the broker, and each topic's identity, rights, retention and open transactions."""
    store = None
    try:
        store = open_store(spec.lake, spec.name)
        fold = Ledger(store, spec.name).fold
    except TidegateError:
        fold = Fold()  # reported by the check of the lake
    with Cluster(kafka) as cluster:
        cluster_id, says = cluster.id(), _versions(kafka, cluster)
        if fold.cluster_id not in (None, cluster_id):
            fix = f"point connection {kafka.connection!r} back, or make another pipeline"
            was = f"it is cluster {cluster_id}, the lake's rows are of {fold.cluster_id}"
            yield failure("kafka", f"{says}; {was}", fix)
            return
        yield ok("kafka", says)
        spec = spec.with_topics(resolve_topics(spec, kafka, fold).topics)
        permitted = cluster.operations(spec.topics)
        seen = survey(kafka, spec.topics, spec.isolation)
        cuts = truncation.below_cursors(kafka, store, fold, seen, spec.topics) if store else {}
        topics = _Topics(spec, fold, cluster, seen.only(spec.assign))
        excluded = {}
        for topic in spec.topics:
            found = topic_problems(fold, topic, seen.state(topic, spec.assign, cuts))
            if any(each.partition is None for each in found):
                yield from _excluded(topics, found)
            elif "READ" not in permitted.get(topic, {"READ"}):
                fix = "grant READ on the topic to the connection's user"
                yield failure("topic", f"{topic}: this user may not READ it", fix)
            else:
                excluded[topic] = found
                partitions = counted(len(topics.survey.watermarks[topic]), "partition")
                yield ok("topic", f"{topic}: {partitions}, may be read")
        kept = read_retentions(cluster, [*excluded]) if excluded else {}
        for topic, found in excluded.items():
            yield from _excluded(topics, found)
            stops = {p for e in found if (p := e.partition) is not None and not is_skipped(spec, e)}
            yield from _retention(topics, topic, kept.get(topic), stops)
        yield from _transactions(kafka, {t: topics.survey.watermarks[t] for t in excluded})


def _excluded(topics: _Topics, found: Iterable[LeftOut]) -> Iterator[Line]:
    """Report what a run would exclude, or skip, with its fix."""
    for each, says in describe_problems(found):
        way_out = fix_for(topics.spec, each)
        if each.reason is Reason.EXPIRED:
            if says != str(each) and not is_skipped(topics.spec, each):  # of several partitions
                way_out = f"`tidegate status {topics.spec.name}` names the way out of each"
            yield failure("retention", says, f"{way_out}; lengthen retention.ms")
            continue
        never_read = each.reason is Reason.NO_TOPIC and not each.numbers
        near = topics.cluster.nearest([each.topic]) if never_read else ""
        yield failure("topic", says, f"{way_out}{near}")


def _retention(
    topics: _Topics, topic: str, retention: Retention | None, stops: set[int]
) -> Iterator[Line]:
    """Check that records do not expire before a run reads them. None if retention is unknown."""
    if retention is None:
        says = f"{topic}: when its records expire is not known: not permitted: DESCRIBE_CONFIGS"
        yield warning("retention", says, "grant DESCRIBE_CONFIGS, to be warned in time")
    elif retention.ms is None:
        yield _size_limit(f"{topic}: time does not delete its records", retention)
    else:
        yield _lifetime(topics, topic, timedelta(milliseconds=retention.ms), retention, stops)


def _lifetime(
    topics: _Topics, topic: str, lifetime: timedelta, retention: Retention, stops: set[int]
) -> Line:
    """Compare how long records are kept with the schedule, and with the oldest unread record.

    A run would not read what is unread in the partitions `stops`.
    """
    interval = _interval(topics.spec.schedule)
    says = f"{topic}: records are kept for {duration(lifetime.total_seconds())}"
    if interval:
        says += f", runs come every {duration(interval.total_seconds())}"
    if interval and lifetime < interval:
        fix = "lengthen retention.ms, or let runs come more often"
        return failure("retention", f"{says}: they expire before a run reads them", fix)
    if interval and lifetime < 3 * interval:
        fix = "lengthen retention.ms: three failed runs in a row would lose records"
        return warning("retention", says, fix)
    if late := sorted({*_unread(topics, topic, datetime.now(UTC) - lifetime / 2)} - stops):
        says += f"; unread ones are past half of it in partitions {late}"
        fix = f"run it now (`tidegate run {topics.spec.name}`), or lengthen retention.ms"
        return warning("retention", says, fix)
    return _size_limit(says, retention)


def _size_limit(says: str, retention: Retention) -> Line:
    if retention.size is None:
        return ok("retention", says)
    return warning(
        "retention",
        f"{says}; when they expire is not known: partitions of more than {retention.size:,} bytes "
        "lose their oldest (retention.bytes)",
        "set retention.bytes to -1, or make sure that it holds what comes between two runs",
    )


def _unread(topics: _Topics, topic: str, before: datetime) -> list[int]:
    """Return the partitions with an unread record that was written before a time."""
    marks, cursors = topics.survey.watermarks[topic], topics.cursors(topic)
    unread = {p: c for p, c in cursors.items() if p in marks and c < marks[p].end}
    if not unread:
        return []
    at = topics.cluster.offsets_at({topic: unread}, int(before.timestamp() * 1000))[topic]
    return [
        p for p, c in unread.items() if (first := at[p]) is None or c < min(first, marks[p].end)
    ]


def _transactions(
    kafka: KafkaCluster, watermarks: Mapping[str, Mapping[int, Watermarks]]
) -> Iterator[Line]:
    """Report offsets hidden by open transactions. One older than Kafka's default limit hangs."""
    since = open_since(kafka, watermarks)
    for topic, marks in watermarks.items():
        hidden = {p: m.high - m.end for p, m in marks.items() if m.end < m.high}
        if not hidden:
            continue
        began = {p: since[topic, p] for p in hidden if (topic, p) in since}
        oldest = iso(min(began.values(), default=None)) or "(not known)"
        says = (
            f"{topic}: {counted(sum(hidden.values()), 'offset')} behind open transactions, in "
            f"partitions {sorted(hidden)}, the oldest since {oldest}"
        )
        if any(hanging_problems(topic, marks, began, time.time() * 1000)):
            yield warning("transactions", says, FIXES[Reason.HANGING])
        else:
            yield ok("transactions", says)


def _interval(schedule: str | None) -> timedelta | None:
    """Return the longest time between two of the next runs."""
    if schedule is None or not croniter.is_valid(cron(schedule)):
        return None
    times = croniter(cron(schedule), datetime.now(UTC))
    starts: list[datetime] = [times.get_next(datetime) for _ in range(30)]
    return max(b - a for a, b in itertools.pairwise(starts))


def _provider(spec: Spec, spark: SparkConnection | None) -> Iterator[Line]:
    """Check what provides `kafka`, if that is not what the machine's check has looked at."""
    spark = spark or LOCAL
    conf = {**spark.conf, **spec.spark.settings}
    own = spark.home or spark.jars != LOCAL.jars
    if own or {"spark.jars", "spark.jars.packages"} & conf.keys():
        yield from check_provider(conf, spark)


def _deploy_mode(
    spec: Spec, kafka: KafkaCluster | None, spark: SparkConnection | None
) -> Iterator[Line]:
    """Report why applications could not run in cluster mode, if they are to."""
    if kafka and spark and spark.is_cluster:
        engine = SparkEngine(kafka, replace(spark, notices=()))
        engine.refuse(spec.spark.settings)
        for notice in engine.notices(open_store(spec.lake, spec.name)):
            yield ok("deploy mode", notice)


def check_spark(spark: SparkConnection) -> Iterator[Line]:
    """Check the version of Spark that runs, and that its master answers."""
    for notice in spark.notices:
        yield ok("spark", notice)
    if spark.home:
        scala, number = spark_home.spark_version(spark.home)
        yield ok("spark", f"SPARK_HOME {spark.home} is Spark {number} (Scala {scala})")
    yield from check_master(spark)
