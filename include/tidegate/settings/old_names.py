"""Names of older clients, of other clients, and of jobs that streams once had.

Source: the configurations of Kafka 0.8's consumer and producer, of Spark's direct streams, and of
librdkafka.
"""

from __future__ import annotations

from tidegate.settings.setting import Answer, Place, Setting

_TO_SOURCE = {
    "fetch.message.max.bytes": "kafka.max.partition.fetch.bytes",
    "fetch.wait.max.ms": "kafka.fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "kafka.receive.buffer.bytes",
    "socket.timeout.ms": "kafka.request.timeout.ms",
    "refresh.leader.backoff.ms": "kafka.retry.backoff.ms",
}
_TO_SINK = {
    "request.required.acks": "kafka.acks",
    "compression.codec": "kafka.compression.type",
    "message.send.max.retries": "kafka.retries",
    "queue.buffering.max.ms": "kafka.linger.ms",
}
_WITHOUT_PREFIX = ("request.timeout.ms", "send.buffer.bytes")
"""Settings of an old producer whose names are those of today, without `kafka.`."""
_OLD_WORDS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
}
_OF_SERVERS = ("metadata.broker.list", "broker.list")
_CLUSTER = (*_OF_SERVERS, "bootstrap.servers")
_ZOOKEEPER = (
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
)
_COMMITS = (
    "auto.commit.enable", "auto.commit.interval.ms", "enable.auto.commit", "offsets.storage",
    "dual.commit.enabled", "offsets.channel.backoff.ms", "offsets.commit.max.retries",
)  # fmt: skip


def word_of_today(word: str) -> str:
    """Return the word that Kafka has now for an end of a log, or the same word."""
    return _OLD_WORDS.get(word, word)


def _both(name: str, why: str, use: str, use_in_sink: str | None = None) -> list[Setting]:
    uses = {Place.SOURCE: use, Place.SINK: use if use_in_sink is None else use_in_sink}
    return [
        Setting(name=prefix + name, place=place, answer=Answer.REFUSED, why=why, use=uses[place])
        for place in uses
        for prefix in ("", "kafka.")
        if (prefix, name) != ("kafka.", "bootstrap.servers")
    ]


def _translated(place: Place, names: dict[str, str]) -> list[Setting]:
    return [
        Setting(
            name=prefix + old, place=place, answer=Answer.TRANSLATED, becomes=new,
            why=f"the old name of {new.removeprefix('kafka.')}",
        )
        for old, new in names.items()
        for prefix in ("", "kafka.")
    ]  # fmt: skip


OLD: tuple[Setting, ...] = (
    *(each for name in _CLUSTER for each in _both(
        name, "it says which cluster is used", "the Kafka connection, bootstrap.servers"
    )),
    *(each for name in _ZOOKEEPER for each in _both(
        name, "clients have not asked ZooKeeper since Kafka 0.9", "the Kafka connection"
    )),
    *(each for name in _COMMITS if f"kafka.{name}" not in (
        "kafka.enable.auto.commit", "kafka.auto.commit.interval.ms"
    ) for each in _both(
        name, "the ledger keeps the progress, and is written with the data", "`progress_group`", ""
    )),
    *_translated(Place.SOURCE, _TO_SOURCE),
    *_translated(Place.SINK, _TO_SINK),
    *(
        Setting(
            name=name, place=Place.SINK, answer=Answer.TRANSLATED, becomes=f"kafka.{name}",
            why="settings of the producer have the prefix kafka",
        )
        for name in _WITHOUT_PREFIX
    ),
    *(
        Setting(
            name=name, place=Place.CONNECTION, answer=Answer.TRANSLATED,
            becomes="bootstrap.servers", why="the old name of bootstrap.servers",
        )
        for name in _OF_SERVERS
    ),
)  # fmt: skip
