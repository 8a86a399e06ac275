"""The doctor's checks of a pipeline, and those of its broker, topics and Spark master."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from croniter import croniter

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster, Survey, survey
from tidegate.broker.open_transactions import open_since
from tidegate.broker.retention import Retention, iso, retentions
from tidegate.core.cursor import Watermarks
from tidegate.core.fold import Fold
from tidegate.core.plan import LeftOut
from tidegate.core.wording import counted, duration
from tidegate.doctor import egress
from tidegate.doctor.check import Check, Line, failure, ok, warning
from tidegate.doctor.connections import KafkaLookup, SparkLookup, found, report_connections
from tidegate.doctor.lake import check_lake
from tidegate.doctor.provider import check_provider
from tidegate.doctor.tokens import check_tokens
from tidegate.doctor.yarn import check_yarn
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.ingest.ways_out import way_out
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.launch import cluster_mode, spark_home
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.pipelines.value_types import cron
from tidegate.runs.connections import refuse_contradictions
from tidegate.runs.topics import resolved

_HANGING = 900.0  # seconds: Kafka's default of transaction.max.timeout.ms


@dataclass(frozen=True)
class _Topics:
    """The input of the checks of an ingest's topics."""

    spec: Ingest
    fold: Fold
    cluster: Cluster
    survey: Survey

    def cursors(self, topic: str) -> dict[int, int]:
        """Return the cursor of each partition; none of a topic that was never read."""
        return self.fold.cursors(topic) if topic in self.fold.topic_ids else {}


def checks(
    spec: Spec,
    kafka: KafkaLookup,
    spark: SparkLookup,
    source: KafkaLookup | None = None,
) -> list[Check]:
    """Return a pipeline's checks; `kafka` and `spark` look up its connections and may raise.

    `source` looks up the connection of the ingest pipeline whose lake an egress sends.
    """
    ask: dict[str, Callable[[], Iterator[Line]]] = {"lake": lambda: check_lake(spec)}
    ask["connection"] = lambda: report_connections(kafka, source)
    if isinstance(spec, Ingest):
        ask["kafka"] = lambda: check_topics(spec, kafka())
    else:
        ask["claim"] = lambda: egress.check_claims(spec)
        ask["source"] = lambda: egress.check_source(spec)
        ask["kafka"] = lambda: check_broker(kafka())
        ask["target"] = lambda: egress.check_target(spec, kafka())
    ask["spark"] = lambda: check_spark(spark())
    ask["deploy mode"] = lambda: _deploy_mode(spec, found(kafka), found(spark))
    ask["provider"] = lambda: _provider(spec, found(spark))
    ask["tokens"] = lambda: check_tokens(spec, kafka, spark, source)
    ask["settings"] = lambda: _settings(spec, found(kafka))
    return [Check(name, each, spec.name) for name, each in ask.items()]


def _settings(spec: Spec, kafka: KafkaSettings | None) -> Iterator[Line]:
    """Report the notices about a pipeline's settings, and what contradicts its connection."""
    for notice in spec.notices:
        yield ok("settings", notice)
    if kafka:
        try:
            refuse_contradictions(spec, kafka)
        except ConfigurationError as error:
            yield failure("settings", str(error), "correct the pipeline's file, or the connection")


def check_broker(kafka: KafkaSettings) -> Iterator[Line]:
    """Check that a broker answers and takes the connection's credentials."""
    with Cluster(kafka) as cluster:
        yield ok("kafka", _versions(kafka, cluster))


def _versions(kafka: KafkaSettings, cluster: Cluster) -> str:
    client = version("kafka-python")
    return f"{kafka.bootstrap_servers} answers: brokers {cluster.version()}, kafka-python {client}"


def check_topics(spec: Ingest, kafka: KafkaSettings) -> Iterator[Line]:
    """Check the broker, and each topic's identity, rights, retention and open transactions."""
    try:
        fold = Ledger(open_store(spec.lake, spec.name), spec.name).fold
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
        spec = resolved(spec, kafka, fold)
        permitted = cluster.operations(spec.topics)
        seen = survey(kafka, spec.topics, spec.isolation).only(spec.assign)
        topics = _Topics(spec, fold, cluster, seen)
        readable = []
        for topic in spec.topics:
            line = _topic(topics, topic, permitted.get(topic, {"READ"}))
            yield line
            if line.state == "ok":
                readable.append(topic)
            assigned = spec.partitions_of(topic)
            if line.state == "ok" and (absent := seen.absent(topic, assigned)):
                fix = way_out(spec.name, LeftOut(topic, absent[0], "no such partition")) or ""
                yield failure("topic", f"{topic}: there are no partitions {absent}", fix)
            if line.state == "ok" and (leaderless := topics.survey.leaderless.get(topic)):
                says = f"{topic}: partitions {leaderless} have no leader"
                yield failure("topic", says, "see the brokers' log: runs exclude them by name")
        kept = retentions(cluster, readable) if readable else {}
        for topic in readable:
            yield from _retention(topics, topic, kept.get(topic))
        yield from _transactions(kafka, {t: topics.survey.watermarks[t] for t in readable})


def _topic(topics: _Topics, topic: str, permitted: set[str]) -> Line:
    was, now = topics.fold.topic_ids.get(topic), topics.survey.topic_ids.get(topic)
    if now is None and was is not None:
        fix = way_out(topics.spec.name, LeftOut(topic, None, "no such topic")) or ""
        return failure("topic", f"{topic}: the broker no longer has it, or does not show it", fix)
    if now is None:
        near = topics.cluster.nearest([topic])
        fix = f"create it, grant DESCRIBE on it, or correct `{topics.spec.key_of_topics}`{near}"
        return failure("topic", f"{topic}: the broker has none, or does not show it", fix)
    if was not in (None, now):
        fix = f"`tidegate offsets adopt {topics.spec.name} {topic} --reason …`"
        return failure("topic", f"{topic}: recreated, it was {was}, it is {now}", fix)
    if "READ" not in permitted:
        fix = "grant READ on the topic to the connection's user"
        return failure("topic", f"{topic}: this user may not READ it", fix)
    partitions = counted(len(topics.survey.watermarks[topic]), "partition")
    return ok("topic", f"{topic}: {partitions}, may be read")


def _retention(topics: _Topics, topic: str, retention: Retention | None) -> Iterator[Line]:
    """Check that records do not expire before a run reads them; None if retention is unknown."""
    marks, cursors = topics.survey.watermarks[topic], topics.cursors(topic)
    stops = set()  # partitions that runs exclude, from their cursor on
    if expired := [p for p, m in marks.items() if m.start > cursors.get(p, m.start)]:
        says = f"{topic}: records are gone that no run has read, in partitions {expired}"
        fix = "the next run records the gap and goes on"
        if topics.spec.on_expired == "fail":
            fix = "runs exclude them; `on_expired: skip` records the gap and goes on"
            stops |= {*expired}
        yield failure("retention", says, f"{fix}; lengthen retention.ms")
    first_unreadable = topics.survey.too_late.get(topic, {})
    unreadable = [p for p, offset in first_unreadable.items() if cursors.get(p) == offset]
    if unreadable and topics.spec.on_unreadable == "fail":
        says = f"{topic}: Spark cannot read the next record of partitions {unreadable}"
        yield failure("topic", says, "`on_unreadable: gap` gives up these offsets and goes on")
        stops |= {*unreadable}
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
    kafka: KafkaSettings, watermarks: Mapping[str, Mapping[int, Watermarks]]
) -> Iterator[Line]:
    """Report offsets hidden by open transactions; one older than Kafka's default limit hangs."""
    since = open_since(kafka, watermarks)
    for topic, marks in watermarks.items():
        hidden = {p: m.high - m.end for p, m in marks.items() if m.end < m.high}
        if not hidden:
            continue
        oldest = min((since[topic, p] for p in hidden if (topic, p) in since), default=None)
        says = (
            f"{topic}: {counted(sum(hidden.values()), 'offset')} behind open transactions, in "
            f"partitions {sorted(hidden)}, the oldest since {iso(oldest) or '(not known)'}"
        )
        if oldest is not None and time.time() - oldest / 1000 <= _HANGING:
            yield ok("transactions", says)
            continue
        fix = (
            "no offset behind it is read until it ends: `kafka-transactions.sh find-hanging`, abort"
        )
        yield warning("transactions", says, fix)


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
    spec: Spec, kafka: KafkaSettings | None, spark: SparkConnection | None
) -> Iterator[Line]:
    """Report why applications could not run in cluster mode, if they are to."""
    if kafka and spark and spark.is_cluster:
        cluster_mode.refuse(spark, kafka, spec.spark.settings)
        for notice in cluster_mode.notices(open_store(spec.lake, spec.name), spark):
            yield ok("deploy mode", notice)


def check_spark(spark: SparkConnection) -> Iterator[Line]:
    """Check that a standalone master or YARN answers; other masters are only looked up."""
    for notice in spark.notices:
        yield ok("spark", notice)
    if spark.home:
        scala, number = spark_home.version(spark.home)
        yield ok("spark", f"SPARK_HOME {spark.home} is Spark {number} (Scala {scala})")
    master = spark.master
    if master == "yarn":
        yield from check_yarn(spark)
        return
    if not master.startswith("spark://"):
        yield ok("spark", f"master {master}")
        return
    failed = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except (OSError, ValueError) as error:
            failed.append(f"{address} ({error})")
        else:
            yield ok("spark", f"master {address} answers")
            return
    fix = "start it, or correct host and port of the Spark connection"
    yield failure("spark", f"no master answers: {', '.join(failed)}", fix)
