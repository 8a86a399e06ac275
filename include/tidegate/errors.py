"""Every refusal by name: what, where, the numbers, and what to do next.

An error is *terminal* (the same try would fail again: stop) or *transient* (try again later).
Airflow, the CLI's exit code and `--json` all follow that one distinction.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal


class TidegateError(Exception):
    """Base of all refusals; `numbers` are the facts a program would want."""

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
    """The same try may succeed later."""

    kind = "transient"
    exit_code = 4


# Configuration


class ConfigurationError(TidegateError):
    """A pipeline file, a connection or an argument is wrong; all complaints are in the message."""

    exit_code = 2


class TriggerNotPermitted(TidegateError):
    """Nothing proves that who triggered a run of a form DAG may trigger the pipeline's own DAG."""


class NeedsAirflow(TidegateError):
    """What was asked for lives in Airflow, and there is none here."""

    exit_code = 2


# Broker


class BrokerUnreachable(Transient):
    """No broker answered in time."""


class NotAuthenticated(TidegateError):
    """The broker refused the credentials, or its certificate is not trusted."""


class NotAuthorised(TidegateError):
    """The broker knows us and says no; the missing operation is named."""


class UnknownTopic(TidegateError):
    """The topic does not exist, or we may not see it."""


class BrokerTooOld(TidegateError):
    """The brokers have no topic ids; the minimum version is in the message."""


class BrokerError(Transient):
    """The broker answered with an error that may pass."""


# Lake and ledger


class LakeUnavailable(Transient):
    """The lake cannot be read or written now (missing, read-only, full, unreachable)."""


class LakeReadOnly(TidegateError):
    """The lake can be seen but not written."""


class LakeUnsafe(TidegateError):
    """The lake's store let several writers create one name: a ledger there proves nothing."""


class LedgerCorrupt(TidegateError):
    """A ledger entry cannot be read or does not follow from the one before it."""


class LakeDamaged(TidegateError):
    """A file that a live commit names is missing or is not what the commit says."""


# Runs


class IdentityChanged(TidegateError):
    """A cluster or topic is not the one that the ledger or the plan speaks of."""


class PlanDead(TidegateError):
    """The plan can never be carried out (expired, re-identified or partly covered by others)."""


class StageFailed(Transient):
    """Spark ended without staging everything it was given."""


class RowsMissing(Transient):
    """An attempt holds fewer rows than the broker shows for its ranges."""


class AttemptWrong(TidegateError):
    """An attempt's files are not what the plan or Spark's own count says."""


class NotSealed(TidegateError):
    """A chunk has no sealed attempt: nothing proves that it is complete."""


class ChunksMissing(TidegateError):
    """What was sealed of a plan is published; the named chunks were never staged to the end."""


class AttemptAbandoned(TidegateError):
    """The attempt was given up by a ledger entry; its files may be gone."""


class CursorAhead(TidegateError):
    """A Variable is ahead of the ledger: edited by hand, or the lake is not the one it was."""


class CursorBackward(TidegateError):
    """An offset behind the cursor was asked for: what is there has its outcome already."""


class BeyondEnd(TidegateError):
    """An offset beyond the end of the log was asked for: nobody can skip what is not there yet."""


class WindowRefused(TidegateError):
    """A window that was asked for makes no sense; all complaints are in the message."""


class ReplayRefused(TidegateError):
    """A replay cannot be done as it was planned; a new one needs a new id."""


class PartitionsLeftOut(TidegateError):
    """The healthy partitions are published; the named ones could not be read."""


class SourceUnavailable(Transient):
    """The source of an egress cannot be listed or read now."""


class SourceRefused(TidegateError):
    """The source holds what cannot be sent; nothing of it was."""


class SourceChanged(TidegateError):
    """A file that was planned is gone or another one now."""


class RowsRefused(TidegateError):
    """Rows of the source cannot become records; nothing was sent."""


class SenderAlive(Transient):
    """Another attempt holds the claim, and is not proven dead."""


class SendFailed(Transient):
    """Spark ended without sending and verifying everything; the retry sends what is missing."""


class NotClaimed(TidegateError):
    """There is no open claim of that plan."""


class Difference(TidegateError):
    """`verify` found rows that differ."""
