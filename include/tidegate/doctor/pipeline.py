"""What the doctor asks of a pipeline: its lake, its broker and topics, its Spark."""

from __future__ import annotations

import itertools
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from croniter import croniter

from tidegate.broker.cluster import Cluster, survey
from tidegate.broker.open_transactions import open_since
from tidegate.broker.retention import iso
from tidegate.broker.settings import KafkaSettings
from tidegate.core import layout
from tidegate.core.cursor import Watermarks
from tidegate.core.ledger import Fold
from tidegate.doctor import egress
from tidegate.doctor.checks import Check, Line, failure, ok, warning
from tidegate.doctor.machine import disk
from tidegate.errors import NotAuthorised, TidegateError
from tidegate.lake import create_check, placing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs.topics import resolved

_LONG = 5_000  # entries: reading them takes seconds, on an object store minutes
_SKEW, _TOO_SKEWED = 60.0, 1800.0  # seconds; the sweeper's grace is an hour
_HANGING = 900.0  # seconds: Kafka's default of transaction.max.timeout.ms


def checks(
    spec: Spec, kafka: Callable[[], KafkaSettings], master: Callable[[], str]
) -> list[Check]:
    """Return the questions; `kafka` and `master` look up its connections, and may refuse."""
    if not isinstance(spec, Ingest):
        return [
            Check("lake", lambda: lake(spec), spec.name),
            Check("claim", lambda: egress.claims(spec), spec.name),
            Check("source", lambda: egress.source(spec), spec.name),
            Check("kafka", lambda: reach(kafka()), spec.name),
            Check("target", lambda: egress.target(spec, kafka()), spec.name),
            Check("spark", lambda: spark(master()), spec.name),
        ]
    return [
        Check("lake", lambda: lake(spec), spec.name),
        Check("kafka", lambda: broker(spec, kafka()), spec.name),
        Check("spark", lambda: spark(master()), spec.name),
    ]


# The lake


def lake(spec: Spec) -> Iterator[Line]:
    """Ledger, space, rights, and the one thing all rests on: who creates a name first has it."""
    directory = _directory(spec.lake)
    if directory and not directory.is_dir():
        fix = "if it is a mount, mount it; else the first run makes it"
        yield warning("lake", f"{directory} does not exist", fix)
        return
    store = open_store(spec.lake, spec.name)
    ledger = Ledger(store, spec.name)
    fold = ledger.fold
    says = f"{fold.n} entries, {len(fold.live)} live commits"
    if fold.n - ledger.checkpoint > _LONG:
        says += f", {fold.n - ledger.checkpoint} since the last checkpoint"
        yield warning("ledger", says, f"`tidegate checkpoint {spec.name}`, or tidegate_maintenance")
    else:
        yield ok("ledger", says)
    waiting = placing.unplaced(store, fold) if isinstance(spec, Ingest) else []
    if waiting:
        says = f"the files of {len(waiting)} commits are not all in place (#{waiting[0]}, …)"
        yield warning("ledger", says, f"`tidegate repair {spec.name}`, or the next run does it")
    if directory:
        yield from disk("lake disk", str(directory))
    yield from exclusive(spec.lake, spec.name)
    yield from lake_clock(store)


def exclusive(lake: str, pipeline: str) -> Iterator[Line]:
    """Let rivals create one name at the same time: exactly one may succeed, in every round.

    A store that fails is recorded in the lake, and runs refuse it from then on.
    """
    stores = [open_store(lake, pipeline) for _ in range(create_check.RIVALS)]
    store = stores[0]
    outcome = create_check.compete(stores)
    says = f"{outcome.winners} of {create_check.RIVALS} rivals created the same name in {store.url}"
    record = store.uri(layout.UNSAFE_STORE)
    if outcome.winners > 1:
        create_check.record(store, outcome)
        yield failure(
            "lake",
            f"{says} (round {outcome.rounds}): two runs could commit the same offsets; runs refuse "
            f"this store from now on, by {record}",
            "use a lake that honours create-if-absent (S3: `If-None-Match: *`; NFS: version 4); "
            "docs/guarantees.md names stores that do not. Then delete that object",
        )
    elif not outcome.atomic:
        yield failure("lake", says, "look for the store's refusals in its own log")
    elif (recorded := store.get(layout.UNSAFE_STORE)) is not None:
        yield failure(
            "lake",
            f"{store.url} failed this test before ({recorded.decode(errors='replace')}), and "
            f"passed {outcome.rounds} rounds now, which alone proves nothing: runs refuse it",
            f"if the store was updated or replaced meanwhile, delete {record}",
        )
    else:
        says = f"of {create_check.RIVALS} rivals exactly one creates a name"
        yield ok("lake", f"{store.url}: {says}, in {outcome.rounds} rounds")


def lake_clock(store: Store) -> Iterator[Line]:
    """Hold the lake's clock against this machine's."""
    path = f"{layout.PROBES}{secrets.token_hex(8)}"
    try:
        store.create(path, b"clock")
        now, modified = time.time(), store.modified(path)
    finally:
        store.delete(path)
    skew = abs(now - modified) if modified else 0.0
    says = f"the lake's clock and this one differ by {skew:.0f} s"
    if skew > _TOO_SKEWED:
        yield failure("lake clock", says, "set both by NTP: the sweeper goes by the age of files")
    elif skew > _SKEW:
        yield warning("lake clock", says, "set both by NTP")
    else:
        yield ok("lake clock", says)


def _directory(lake: str) -> Path | None:
    if urlsplit(lake).scheme in ("", "file"):
        return Path(unquote(lake.removeprefix("file://")))
    return None


# The broker


def reach(kafka: KafkaSettings) -> Iterator[Line]:
    """Does the connection reach a broker that takes its credentials?"""
    with Cluster(kafka) as cluster:
        yield ok("kafka", _answers(kafka, cluster))


def _answers(kafka: KafkaSettings, cluster: Cluster) -> str:
    client = version("kafka-python")
    return f"{kafka.bootstrap_servers} answers: brokers {cluster.version()}, kafka-python {client}"


def broker(spec: Ingest, kafka: KafkaSettings) -> Iterator[Line]:
    """Reachability and rights with the pipeline's own connection, then each topic."""
    try:
        fold = Ledger(open_store(spec.lake, spec.name), spec.name).fold
    except TidegateError:
        fold = Fold()  # why is said of the lake; the broker is looked at all the same
    with Cluster(kafka) as cluster:
        cluster_id, says = cluster.id(), _answers(kafka, cluster)
        if fold.cluster_id not in (None, cluster_id):
            fix = f"point connection {kafka.connection!r} back, or make another pipeline"
            was = f"it is cluster {cluster_id}, the lake's rows are of {fold.cluster_id}"
            yield failure("kafka", f"{says}; {was}", fix)
            return
        yield ok("kafka", says)
        spec = resolved(spec, kafka, fold)
        allowed = cluster.operations(spec.topics)
        yield from _topics(spec, kafka, cluster, fold, allowed)


def _topics(
    spec: Ingest,
    kafka: KafkaSettings,
    cluster: Cluster,
    fold: Fold,
    allowed: Mapping[str, set[str]],
) -> Iterator[Line]:
    seen = survey(kafka, spec.topics, spec.isolation)
    well = []
    for topic in spec.topics:
        known, now = fold.topic_ids.get(topic), seen.topic_ids.get(topic)
        if now is None:
            fix = "create it, grant DESCRIBE on it, or correct `topics`"
            yield failure("topic", f"{topic}: the broker has none, or does not show it", fix)
        elif known not in (None, now):
            fix = f"`tidegate offsets adopt {spec.name} {topic} --reason …`"
            yield failure("topic", f"{topic}: recreated, it was {known}, it is {now}", fix)
        elif "READ" not in allowed.get(topic, {"READ"}):
            says = f"{topic}: this user may not READ it"
            yield failure("topic", says, "grant READ on the topic to the connection's user")
        else:
            yield ok("topic", f"{topic}: {len(seen.watermarks[topic])} partitions, may be read")
            if headless := seen.leaderless.get(topic):
                says = f"{topic}: partitions {headless} have no leader"
                yield failure("topic", says, "see the brokers' log: runs exclude them by name")
            well.append(topic)
    yield from _retention(spec, cluster, fold, well, seen.watermarks)
    yield from _transactions(kafka, {topic: seen.watermarks[topic] for topic in well})


def _transactions(
    kafka: KafkaSettings, watermarks: Mapping[str, Mapping[int, Watermarks]]
) -> Iterator[Line]:
    """Name what open transactions hide; one that is older than Kafka's own limit hangs."""
    since = open_since(kafka, watermarks)
    for topic, marks in watermarks.items():
        hidden = {p: m.high - m.end for p, m in marks.items() if m.end < m.high}
        if not hidden:
            continue
        began = [since[topic, p] for p in hidden if (topic, p) in since]
        oldest = min(began, default=None)
        says = (
            f"{topic}: {sum(hidden.values()):,} offsets of partitions {sorted(hidden)} are behind "
            f"open transactions, the oldest since {iso(oldest) or '(not known)'}"
        )
        if oldest is None or time.time() - oldest / 1000 > _HANGING:
            fix = (
                "nothing behind is read until it ends: `kafka-transactions.sh find-hanging`, abort"
            )
            yield warning("transactions", says, fix)
        else:
            yield ok("transactions", says)


def _retention(
    spec: Ingest,
    cluster: Cluster,
    fold: Fold,
    topics: list[str],
    watermarks: Mapping[str, Mapping[int, Watermarks]],
) -> Iterator[Line]:
    """Will records be deleted before a run has read them?"""
    interval = _interval(spec.schedule)
    try:
        kept = cluster.kept_ms(topics) if topics else {}
    except NotAuthorised as error:
        yield warning("retention", str(error), "grant DESCRIBE_CONFIGS, to be warned in time")
        return
    for topic in topics:
        expired = _expired(fold, topic, watermarks[topic])
        if expired:
            says = f"{topic}: records are gone that no run has read, in partitions {expired}"
            fix = "`on_expired: skip` records the gap and goes on; lengthen retention.ms"
            yield failure("retention", says, fix)
        milliseconds = kept.get(topic)
        if milliseconds is None:
            yield ok("retention", f"{topic}: time does not delete its records")
            continue
        length = timedelta(milliseconds=milliseconds)
        says = f"{topic}: records are kept for {length}"
        if interval:
            says += f", runs come every {interval}"
        if interval and length < interval:
            fix = "lengthen retention.ms, or let runs come more often"
            yield failure("retention", f"{says}: they go before a run sees them", fix)
        elif interval and length < 3 * interval:
            fix = "lengthen retention.ms: three failed runs in a row would lose records"
            yield warning("retention", says, fix)
        elif late := _unread(
            fold, cluster, topic, watermarks[topic], datetime.now(UTC) - length / 2
        ):
            fix = f"run it now (`tidegate run {spec.name}`), or lengthen retention.ms"
            yield warning(
                "retention", f"{says}; unread ones are past half of it in partitions {late}", fix
            )
        else:
            yield ok("retention", says)


def _interval(schedule: str | None) -> timedelta | None:
    """Return the longest time between two of the next runs."""
    if schedule is None or not croniter.is_valid(schedule):
        return None
    times = croniter(schedule, datetime.now(UTC))
    moments: list[datetime] = [times.get_next(datetime) for _ in range(30)]
    return max(b - a for a, b in itertools.pairwise(moments))


def _expired(fold: Fold, topic: str, marks: Mapping[int, Watermarks]) -> list[int]:
    if topic not in fold.topic_ids:
        return []
    cursors = fold.cursors(topic)
    return [p for p, m in marks.items() if p in cursors and m.start > cursors[p]]


def _unread(
    fold: Fold, cluster: Cluster, topic: str, marks: Mapping[int, Watermarks], moment: datetime
) -> list[int]:
    """Return the partitions with an unread record that is older than `moment`."""
    if topic not in fold.topic_ids:
        return []
    behind = {p: c for p, c in fold.cursors(topic).items() if p in marks and c < marks[p].end}
    at = cluster.offsets_at({topic: behind}, int(moment.timestamp() * 1000)) if behind else {}
    return [
        p
        for p, cursor in behind.items()
        if (offset := at[topic][p]) is None or cursor < min(offset, marks[p].end)
    ]


# Spark


def spark(master: str) -> Iterator[Line]:
    """The connection exists, or looking it up has refused; a standalone master must answer."""
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
