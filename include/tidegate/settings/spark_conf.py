"""Settings of Spark itself that matter here: Kafka's pools, and what Tidegate decides.

Source: Spark's integration guide for Kafka, `kafka010.package` of the connector 4.0, `SQLConf` and
`internal.config` of Spark 4.0. Of other names that begin with `spark.`, only secrets and those that
would be settings of the connector are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.settings.setting import (
    Answer,
    Check,
    Place,
    Setting,
    check_boolean,
    check_duration,
    check_heap,
    check_size,
    check_text,
    check_whole,
    executor_heap,
)

# By default Spark keeps the consumers of a task, and the records that they fetched last (up to
# 10,000 a partition), for five minutes: many chunks, topics or partitions would fill a driver of
# 1 GB. Here it drops what the next task does not use at once.
CONSUMER_CACHES = {
    "spark.kafka.consumer.cache.timeout": "500ms",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "100ms",
    "spark.kafka.consumer.fetchedData.cache.timeout": "0",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "100ms",
}
RUN_ONCE = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    # What a decommissioned executor has lost counts as no failure, and so would be run again.
    "spark.decommission.enabled": "false",
    "spark.stage.ignoreDecommissionFetchFailure": "false",
}
"""Of an egress: what a task has sent cannot be taken back, so the next attempt does the rest."""
USUAL = (
    "spark.cores.max", "spark.default.parallelism", "spark.driver.cores", "spark.eventLog.dir",
    "spark.eventLog.enabled", "spark.executor.cores", "spark.executor.instances",
    "spark.executor.memoryOverheadFactor", "spark.local.dir",
    "spark.memory.fraction", "spark.serializer", "spark.sql.adaptive.enabled",
    "spark.sql.files.maxPartitionBytes", "spark.sql.parquet.compression.codec",
    "spark.sql.shuffle.partitions", "spark.task.cpus", "spark.ui.enabled", "spark.ui.port",
)  # fmt: skip
"""Settings that pass as they are, and that people often give: what is nearly one is a typo."""
CONNECTOR = re.compile(
    r"(^|[/,\s])(commons-pool2|kafka-clients|spark-(sql|token-provider)-kafka-0-10"
    r"|hadoop-bare-naked-local-fs|spark-avro)[-_][^/,\s]*\.jar"
)


def _log_level(value: str) -> str | None:
    """Check the level of Spark's log."""
    if value.upper() not in ("ALL", "TRACE", "DEBUG"):
        return None
    return (
        "ALL, TRACE and DEBUG are refused: Spark's connector would log the login of the Kafka "
        "connection; INFO shows the most"
    )


def _never(consequence: str) -> Check:
    """Return the caution about a duration that is not positive."""
    return lambda value: consequence if re.fullmatch(r"\s*(-.*|0+\D*)", value) else None


def _of_connector(value: str) -> str | None:
    """Return the caution about jars of the user among which is one of Kafka's connector."""
    if not CONNECTOR.search(value):
        return None
    return (
        "a jar of Kafka's connector is among them, and Tidegate adds its own: executors may load "
        "either, and the run report names only that of the driver"
    )


def _no_tokens(value: str) -> str | None:
    """Return the caution about a provider of Kafka's delegation tokens that is switched off."""
    if value.lower() != "false":
        return None
    return (
        "on YARN and Kubernetes Spark then obtains no delegation token of Kafka: a run of a "
        "connection that asks for one fails there"
    )


_POOLS: tuple[tuple[str, str, Check | None, str], ...] = (
    (
        "spark.kafka.consumer.cache.timeout", "5m",
        _never("idle consumers are never closed: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.consumer.cache.evictorThreadRunInterval", "1m",
        _never("idle consumers are never closed: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.consumer.fetchedData.cache.timeout", "5m", None,
        "0 drops at once what no task uses; Spark's documentation does not mention it",
    ),
    (
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval", "1m",
        _never("fetched records are never dropped: the memory grows with the partitions read"), "",
    ),
    (
        "spark.kafka.producer.cache.timeout", "10m", None,
        "a producer that a task uses is never closed, however short this is",
    ),
    (
        "spark.kafka.producer.cache.evictorThreadRunInterval", "1m",
        _never("idle producers are never closed before the application ends"), "",
    ),
)  # fmt: skip
_CODE = (
    "spark.extraListeners",
    "spark.plugins",
    "spark.sql.catalog.*",
    "spark.sql.extensions",
    "spark.sql.queryExecutionListeners",
    "spark.sql.parquet.output.committer.class",
    "spark.sql.sources.commitProtocolClass",
    "spark.sql.sources.outputCommitterClass",
    "spark.submit.pyFiles",
)
OF_CONNECTOR = ("spark.kafka.", "spark.sql.kafkaConsumerCache.")
"""Prefixes of the settings of Spark's Kafka connector, all of which are in the table."""
_DIRECT_STREAMS = (
    "spark.streaming.backpressure.enabled",
    "spark.streaming.kafka.consumer.cache.enabled",
    "spark.streaming.kafka.consumer.cache.maxCapacity",
    "spark.streaming.kafka.consumer.poll.ms",
    "spark.streaming.kafka.maxRatePerPartition",
    "spark.streaming.kafka.maxRetries",
)


def _decided(
    name: str, value: str | None, why: str, use: str = "", place: Place = Place.SPARK
) -> Setting:
    return Setting(
        name=name, place=place, answer=Answer.REFUSED, default=value,
        why=f"Tidegate sets it: {why}", use=use,
    )  # fmt: skip


def _no_effect(name: str, why: str, use: str = "") -> Setting:
    return Setting(
        name=name, place=Place.SPARK, answer=Answer.WARNED, why=f"it has no effect: {why}", use=use
    )


SAME_ROWS: Mapping[str, str | None] = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Which rows are malformed must not depend on the columns that are asked for.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.files.maxPartitionNum": None,  # it would merge files into one task
    # Hadoop ignores longer lines, without an error.
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": "2147483647",
    # A flipped bit in a page is an error of the file, and no other row.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # SQL is computed as it is written: `${env:…}` in it would be a variable of the driver.
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    # List files in the driver: in executors it would be a Spark job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # From here on the defaults of Spark 4.0: what a name finds, a Parquet file has, or an
    # expression gives.
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": None,  # deprecated: to set it is a warning
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variant.allowDuplicateKeys": "false",
}
"""Of each application: a row depends on the plan and its record alone, and a record that is sent on
the plan and its row. None: not set.

A retry may run on another machine, with other defaults, and after the file was edited.
"""
_SAME_VALUES = "a retry must make the same values"
SPARK: tuple[Setting, ...] = (
    *(
        Setting(
            name=name, place=Place.SPARK, check=check_duration, caution=caution, why=why,
            default=CONSUMER_CACHES.get(name), outside=outside,
        )
        for name, outside, caution, why in _POOLS
    ),
    Setting(
        name="spark.kafka.consumer.cache.capacity", place=Place.SPARK, check=check_whole(1),
        outside="64", why="a soft limit: consumers in use are never closed",
    ),
    Setting(
        name="spark.sql.kafkaConsumerCache.capacity", place=Place.SPARK, answer=Answer.TRANSLATED,
        becomes="spark.kafka.consumer.cache.capacity", why="the name until Spark 3.0",
    ),
    Setting(
        name="spark.kafka.consumer.cache.jmx.enable", place=Place.SPARK, check=check_boolean,
        outside="false", why="shows the pool of consumers as an MBean of the driver's and the "
        "executors' Java",
    ),
    _decided(
        "spark.kafka.clusters.*", None, "from the Kafka connection, for delegation tokens",
        "`tidegate.delegation_token` of the connection",
    ),
    Setting(
        name="spark.security.credentials.kafka.enabled", place=Place.SPARK, check=check_boolean,
        caution=_no_tokens, outside="true",
        why="by it Spark obtains Kafka's delegation tokens on YARN and Kubernetes; elsewhere "
        "Tidegate's driver does",
    ),
    Setting(
        name="spark.log.level", place=Place.SPARK, check=_log_level, default="WARN",
        why="not ALL, TRACE or DEBUG: Spark's connector would log the login of the Kafka "
        "connection",
    ),
    _decided(
        "spark.submit.deployMode", "client", "by the Spark connection",
        "`deploy-mode` of the Spark connection",
    ),
    _decided(
        "spark.kubernetes.namespace", None, "by the Spark connection",
        "`namespace` of the Spark connection",
    ),
    _decided("spark.master", None, "by the Spark connection", "`spark.connection`"),
    _decided(
        "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS",
        "Spark's own, INT96, has no statistics to prune by",
    ),
    _decided(
        "spark.sql.parquet.writeLegacyFormat", "false",
        "the lake's files have one layout, and headers are a list in it",
    ),
    _decided(
        "spark.sql.maxConcurrentOutputFileWriters", "8", "so that tasks need not sort by topic"
    ),
    *(_decided(name, value, _SAME_VALUES) for name, value in SAME_ROWS.items()),
    Setting(
        name="spark.sql.legacy.*", place=Place.SPARK, answer=Answer.REFUSED,
        why=f"an older Spark would read other values, or compute others: {_SAME_VALUES}",
    ),
    Setting(name="spark.driver.memory", place=Place.SPARK, check=check_heap, outside="1g"),
    Setting(name="spark.executor.memory", place=Place.SPARK, check=executor_heap, outside="1g"),
    *(
        Setting(name=name, place=Place.SPARK, check=check_size)
        for name in (
            "spark.driver.memoryOverhead", "spark.executor.memoryOverhead",
            "spark.executor.pyspark.memory", "spark.memory.offHeap.size",
            "spark.driver.maxResultSize",
        )
    ),
    *(
        Setting(name=name, place=Place.SPARK, check=check_duration)
        for name in (
            "spark.network.timeout", "spark.executor.heartbeatInterval", "spark.rpc.askTimeout",
            "spark.rpc.lookupTimeout",
        )
    ),
    Setting(
        name="spark.jars", place=Place.SPARK, check=check_text, caution=_of_connector,
        why="files of your own; Tidegate adds those of Kafka's connector",
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.WARNED, check=check_text,
            use="`spark.jars`",
            why="Spark fetches packages when an application starts: each run needs the network, "
            "and no digest is compared",
        )
        for name in ("spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings")
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.WARNED,
            why="it names code that Spark runs, which could change what is read, written or sent: "
            "no guarantee covers that",
        )
        for name in _CODE
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.WARNED,
            why="on executors these files come before the jars of Kafka's connector: another "
            "version of it or of Kafka's client among them would read and send",
        )
        for name in ("spark.executor.extraClassPath", "spark.executor.defaultExtraClassPath")
    ),
    Setting(
        name="spark.driver.extraClassPath", place=Place.SPARK, answer=Answer.WARNED,
        why="in the driver these files come before Spark's own, and after the jars of Kafka's "
        "connector",
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.REFUSED,
            why="another version of Kafka's connector or client could read and send, and the run "
            "report would not name it",
        )
        for name in (
            "spark.driver.userClassPathFirst", "spark.executor.userClassPathFirst",
            "spark.files.userClassPathFirst",
        )
    ),
    *(
        Setting(
            name=name, place=Place.SPARK, answer=Answer.REFUSED, use="`spark.connection`",
            why="a run has its driver in Spark's own Java process, and no Spark Connect",
        )
        for name in ("spark.remote", "spark.api.mode")
    ),
    _no_effect("spark.app.name", "Tidegate names the application after the pipeline and the run"),
    _no_effect(
        "spark.sql.streaming.disabledV2Writers",
        "it concerns streams, and an egress always writes by the sink's V1",
    ),
    _no_effect(
        "spark.sql.sources.useV1SourceList",
        "Tidegate reads Kafka through V2, and writes through V1",
    ),
    *(
        _no_effect(name, "it is of direct streams; a run has a plan", "`max_records`, `schedule`")
        for name in _DIRECT_STREAMS
    ),
    Setting(
        name="spark.sql.streaming.kafka.useDeprecatedOffsetFetching", place=Place.SPARK,
        answer=Answer.WARNED, check=check_boolean, outside="false",
        why="true looks offsets up with a consumer, which needs READ on the group as well",
    ),
)  # fmt: skip

SENDING: tuple[Setting, ...] = tuple(
    _decided(
        name, value, "Spark retries nothing, for what a task has sent cannot be taken back",
        "`retries`, which sends the rest", Place.SENDING,
    )
    for name, value in RUN_ONCE.items()
)  # fmt: skip
"""Of an egress alone."""
