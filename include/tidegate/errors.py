"""Errors: one class for each reason to refuse work. Messages say what, where and what to do next.

An error is *terminal* (a retry would fail again) or *transient* (a later retry may succeed).
Airflow's retries, the CLI's exit code and `--json` follow this distinction.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal


class TidegateError(Exception):
    """Base of all errors. `numbers` are its facts for programs."""

    kind: ClassVar[Literal["terminal", "transient"]] = "terminal"
    exit_code: ClassVar[int] = 3
    fix: ClassVar[str] = ""
    """What to do, where the message does not say it. docs/errors.md is made from these."""
    page: ClassVar[str] = ""
    """The page of the docs with more, and its heading."""

    def __init__(self, message: str, **numbers: Any) -> None:
        super().__init__(message)
        self.numbers = numbers

    def to_json(self) -> dict[str, Any]:
        """Return the public form of an error (contract: CLI, format 1)."""
        return {
            "name": type(self).__name__,
            "kind": self.kind,
            "message": str(self),
            "numbers": self.numbers,
        }


class Transient(TidegateError):
    """A later retry may succeed."""

    kind = "transient"
    exit_code = 4


# Configuration


class ConfigurationError(TidegateError):
    """A pipeline file, a connection or an argument is wrong. All complaints are in the message.

    Also: the Spark that was started cannot do what the pipeline needs, or is another version than
    the one that has begun to send a plan.
    """

    exit_code = 2
    fix = "Correct what the message lists. Nothing was read or sent."
    page = "configuration.md"


class JavaMissing(TidegateError):
    """There is no Java where Spark is to be started."""

    exit_code = 2
    fix = "Install Java 17 or 21, or set `JAVA_HOME`."
    page = "how-to/install.md"


class TriggerNotPermitted(TidegateError):
    """The user of a form DAG is not known to be allowed to trigger the pipeline's own DAG."""

    fix = (
        "Give that user the permission. Trigger in Airflow's UI or REST API, with Tidegate's "
        "plugin in the API server and the same `[core] fernet_key` there and in the workers. In "
        "a terminal, use `tidegate` itself."
    )
    page = "airflow.md#permissions-of-the-form-dags"


class NeedsAirflow(TidegateError):
    """The command needs Airflow's metadata, and Airflow is not installed or configured here."""

    exit_code = 2
    fix = (
        "Set `AIRFLOW_HOME` and `AIRFLOW__DATABASE__SQL_ALCHEMY_CONN` as for Airflow's own "
        "processes. Without Airflow, define connections by `AIRFLOW_CONN_<ID>`."
    )


class AirflowUnavailable(Transient):
    """In a task, Airflow cannot be asked for a connection or a Variable now."""

    fix = (
        "Nothing is lost: Airflow retries the task. If it stays, read the log of the service "
        "that the message names."
    )


# Broker


class BrokerUnreachable(Transient):
    """No broker answered in time, or its host name, its token endpoint or its KDC did not.

    The limit is 8 s, and 20 s while Spark runs: then Spark is stopped.
    """

    fix = (
        "Check that the broker runs, `bootstrap.servers` and `security.protocol`. Nothing is lost."
    )
    page = "runbook.md#kafka-is-down"


class NotAuthenticated(TidegateError):
    """The broker refused the credentials, or its certificate is not trusted.

    The token endpoint and the KDC may refuse them, too. An OAuth token may have expired.
    """

    fix = (
        "Check what the message names in the connection. If Spark was refused, finished chunks "
        "are kept."
    )
    page = "how-to/secured-cluster.md"


class NotAuthorised(TidegateError):
    """The broker, or Airflow for a connection, denies what the message names."""

    fix = "Grant the named operation."
    page = "how-to/secured-cluster.md#permissions-acls"


class UnknownTopic(TidegateError):
    """The topic does not exist, or the user may not describe it. This pipeline never read it."""

    fix = "Create the topic, grant DESCRIBE, or correct `topics`, `pattern` or `assign`."


class BrokerTooOld(TidegateError):
    """The broker has no topic ids: it is older than Kafka 2.8.

    Without an id, a recreated topic cannot be told from the one that was read.
    """

    fix = (
        "Use brokers of 2.8 or later, with an inter-broker protocol or metadata version of 2.8 "
        "or later."
    )
    page = "how-to/install.md#kafka-brokers"


class BrokerError(Transient):
    """The broker answered with a temporary error, or a request took too long."""

    fix = "Retry. If it stays, read the broker's log."


# Lake and ledger


class LakeUnavailable(Transient):
    """The lake cannot be read or written now (missing, full, unreachable)."""

    fix = "Mount it, free space, or wait."
    page = "runbook.md#disk-full"


class LakeReadOnly(TidegateError):
    """The lake can be read but not written, or S3 refuses the credentials."""

    fix = "Give this user write access. Check the credentials and their permissions."


class LakeUnsafe(TidegateError):
    """The lake's store let several writers create one object: create-if-absent is not atomic.

    `tidegate doctor` found it. Nothing is committed to the lake, reading continues.
    """

    fix = (
        "Move the lake to another store, or update this one. Then delete "
        "`_tidegate/log/unsafe-store` of the pipeline and run `tidegate doctor` again."
    )
    page = "guarantees.md#what-is-not-promised"


class LedgerCorrupt(TidegateError):
    """A ledger entry is missing, cannot be read, or does not follow from the one before it."""

    fix = "Restore the named object from a backup. Never renumber or invent entries."
    page = "runbook.md#restore-a-lake-from-a-backup"


class OtherFormat(TidegateError):
    """Another version of Tidegate wrote a document of the lake in another format."""

    fix = (
        "If it is newer, update this installation: nothing is damaged. If it is older, begin a "
        "new lake."
    )
    page = "how-to/install.md#upgrade"


class LakeDamaged(TidegateError):
    """An object that the ledger refers to is missing, or is not what the ledger says."""

    fix = (
        "Restore it from a backup. If the chunk is not committed yet, clear `stage`: it is "
        "staged again."
    )


# Runs


class IdentityChanged(TidegateError):
    """A cluster or topic is not the one in the ledger or the plan: it was recreated."""

    fix = (
        "If it is the wrong cluster, correct the connection. If a source topic was recreated, "
        "adopt it. If the target of an egress was, release the open claim."
    )
    page = "runbook.md#recreated-or-deleted-topic"


class PlanDead(TidegateError):
    """The plan cannot be carried out: other runs have committed a part of a chunk."""

    fix = "Clear `stage`: it plans again (the run's next generation) and stages the rest."


class StageFailed(Transient):
    """Spark ended without staging all chunks."""

    fix = (
        "Read Spark's output in the file that the error names. Finished chunks are kept, and a "
        "retry does the rest."
    )


class OutOfMemory(TidegateError):
    """Java ran out of memory in the driver or an executor: a retry would do so again."""

    fix = (
        "Give more memory by `spark.driver.memory`, on a cluster `spark.executor.memory`. Or "
        "run fewer tasks at once: the master `local[1]`, or `spark.task.cpus`. What is finished "
        "is kept. The claim of an egress stands, and the next run sends the rest."
    )
    page = "settings.md"


class RowsMissing(Transient):
    """An attempt holds fewer rows than the broker shows for its ranges."""

    fix = "The retry reads again. If it stays, keep the staging directory and report it."


class AttemptWrong(TidegateError):
    """An attempt's files differ from the plan or from the rows that Spark counted."""

    fix = "Clear `stage`. If it happens again, keep the staging directory and report it."


class NotSealed(TidegateError):
    """No chunk of the plan is proven complete, or the run has no plan.

    `stage` or `plan` failed, or was only marked as success.
    """

    fix = "Clear `stage`, or `plan`. Check that `lake` is the same as before."


class ChunksMissing(TidegateError):
    """The sealed chunks of a plan are published. The named ones were not staged to the end."""

    fix = "Read the log of `stage`. Clear it, or let the next run read them."


class AttemptAbandoned(TidegateError):
    """A ledger entry has abandoned the attempt. Its files may be deleted."""

    fix = "Clear `stage`: it makes another attempt."


class CursorAhead(TidegateError):
    """A Variable is ahead of the ledger: edited by hand, or the lake was replaced or restored."""

    fix = "Find out which of the two is right."
    page = "runbook.md#variable-ahead-of-the-ledger"


class CursorBackward(TidegateError):
    """A requested offset is below the cursor: the offsets between have an outcome already."""

    fix = "Use `tidegate replay` to read committed offsets again."
    page = "how-to/past-data.md#replay"


class BeyondEnd(TidegateError):
    """A requested offset is beyond the end of the log: only existing offsets can be skipped."""

    fix = "Give at most the end."


class WindowRefused(TidegateError):
    """A requested window is not valid. All complaints are in the message. Nothing was done."""

    fix = "Ask for another window. `tidegate coverage` shows the offsets."
    page = "how-to/past-data.md"


class ReplayRefused(TidegateError):
    """A replay cannot be carried out as planned.

    Its id stands for another window or filter, or others have replaced its files, or its records
    have expired.
    """

    fix = (
        "Start a new replay with a new id, if it is still wanted. A replay that has sent "
        "nothing keeps its id: correct the filter and repeat it."
    )


class PartitionsLeftOut(TidegateError):
    """The named partitions or files could not be read. All others are published or sent."""

    fix = "Look up the reason of each."
    page = "runbook.md#excluded-partitions-and-topics"


class SourceUnavailable(Transient):
    """The source of an egress, or a footer in it, cannot be read now."""

    fix = "Mount it, create it, or correct `source.path`."


class SourceRefused(TidegateError):
    """The source contains what cannot be sent, or never had a file. Nothing was sent."""

    fix = "Correct the path."


class SourceChanged(TidegateError):
    """A planned file is gone or was changed, or the lake no longer holds the window."""

    fix = "Restore the file, or mount the lake. Otherwise call `tidegate release`, and run again."
    page = "how-to/send.md#open-claims"


class RowsRefused(TidegateError):
    """Rows of the source cannot become records. The first are named."""

    fix = "Do what the message says. For bad rows of a lake, set `on_bad_row: quarantine`."
    page = "runbook.md#bad-rows-and-quarantine"


class SenderAlive(Transient):
    """The sender of another attempt holds the claim and is not proven dead.

    If it cannot be seen from here, the message names its task and Airflow deployment. With
    `hidepid` on `/proc`, only its user and root can see it.
    """

    fix = (
        "Wait, or retry that task in that deployment. If the sender is certainly dead, call "
        "`tidegate release`. It refuses while the sender, its driver or its application "
        "runs: end that first."
    )
    page = "runbook.md#open-claim"


class ClaimConflict(Transient):
    """Another attempt or plan has just claimed what this attempt would send."""

    fix = "Retry. If that fails, too, clear the task that plans, or start a new run."
    page = "runbook.md#open-claim"


class SendFailed(Transient):
    """Spark ended without sending and verifying all rows."""

    fix = "Read Spark's output in the file that the error names. A retry sends what is missing."


class NotClaimed(TidegateError):
    """The plan has no open claim, or all of it was sent and only its commit is missing."""

    fix = "`tidegate status` lists the open claims."
    page = "how-to/send.md#open-claims"


class Difference(TidegateError):
    """`verify` found rows that differ from the ledger or from Kafka."""

    fix = "Look at what is named. Do not repair it by hand."
