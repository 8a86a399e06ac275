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
    """A pipeline file, a connection or an argument is wrong. All complaints are in the message."""

    exit_code = 2


class TriggerNotPermitted(TidegateError):
    """The user of a form DAG is not known to be allowed to trigger the pipeline's own DAG."""


class NeedsAirflow(TidegateError):
    """The command needs Airflow's metadata, and Airflow is not installed or configured here."""

    exit_code = 2


class AirflowUnavailable(Transient):
    """In a task, Airflow cannot be asked for a connection or a Variable now."""


# Broker


class BrokerUnreachable(Transient):
    """No broker answered in time."""


class NotAuthenticated(TidegateError):
    """The broker refused the credentials, or its certificate is not trusted."""


class NotAuthorised(TidegateError):
    """The broker, or Airflow for a connection, denies what the message names."""


class UnknownTopic(TidegateError):
    """The topic does not exist, or the user may not describe it."""


class BrokerTooOld(TidegateError):
    """The brokers have no topic ids. The minimum version is in the message."""


class BrokerError(Transient):
    """The broker answered with a temporary error."""


# Lake and ledger


class LakeUnavailable(Transient):
    """The lake cannot be read or written now (missing, read-only, full, unreachable)."""


class LakeReadOnly(TidegateError):
    """The lake can be read but not written."""


class LakeUnsafe(TidegateError):
    """The lake's store let several writers create one object: create-if-absent is not atomic."""


class LedgerCorrupt(TidegateError):
    """A ledger entry cannot be read, or does not follow from the one before it."""


class OtherFormat(TidegateError):
    """Another version of Tidegate wrote a document of the lake in another format."""


class LakeDamaged(TidegateError):
    """An object that the ledger refers to is missing, or is not what the ledger says."""


# Runs


class IdentityChanged(TidegateError):
    """A cluster or topic is not the one in the ledger or the plan: it was recreated."""


class PlanDead(TidegateError):
    """The plan cannot be carried out: expired, partly committed by others, or a recreated topic."""


class StageFailed(Transient):
    """Spark ended without staging all chunks."""


class OutOfMemory(TidegateError):
    """Java ran out of memory in the driver or an executor: a retry would do so again."""


class RowsMissing(Transient):
    """An attempt holds fewer rows than the broker shows for its ranges."""


class AttemptWrong(TidegateError):
    """An attempt's files differ from the plan or from the rows that Spark counted."""


class NotSealed(TidegateError):
    """A chunk has no sealed attempt, which would prove that it is complete."""


class ChunksMissing(TidegateError):
    """The sealed chunks of a plan are published. The named ones were not staged to the end."""


class AttemptAbandoned(TidegateError):
    """A ledger entry has abandoned the attempt. Its files may be deleted."""


class CursorAhead(TidegateError):
    """A Variable is ahead of the ledger: edited by hand, or the lake was replaced or restored."""


class CursorBackward(TidegateError):
    """A requested offset is below the cursor: the offsets between have an outcome already."""


class BeyondEnd(TidegateError):
    """A requested offset is beyond the end of the log: only existing offsets can be skipped."""


class WindowRefused(TidegateError):
    """A requested window is not valid. All complaints are in the message."""


class ReplayRefused(TidegateError):
    """A replay cannot be carried out as planned. A new one needs a new id."""


class PartitionsLeftOut(TidegateError):
    """The named partitions could not be read. All others are published."""


class SourceUnavailable(Transient):
    """The source of an egress cannot be listed or read now."""


class SourceRefused(TidegateError):
    """The source contains what cannot be sent. Nothing of it was sent."""


class SourceChanged(TidegateError):
    """A planned file is gone or was changed."""


class RowsRefused(TidegateError):
    """Rows of the source cannot become records. Nothing was sent."""


class SenderAlive(Transient):
    """The sender of another attempt holds the claim and is not proven dead."""


class SendFailed(Transient):
    """Spark ended without sending and verifying all rows. A retry sends the missing ones."""


class NotClaimed(TidegateError):
    """The plan has no open claim."""


class Difference(TidegateError):
    """`verify` found rows that differ."""
