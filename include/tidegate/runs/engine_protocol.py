"""What a run needs of an engine: one application at a time, and the proof that one has ended.

An engine runs an application of Spark, which does the job of an attempt. The application reads the
job once, and answers by small texts. Each engine passes `tests/contracts/test_engines.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.spark.job_files import KafkaJob


@dataclass(frozen=True)
class Ended:
    """It is proven: nothing of the application runs, and nothing of it will begin."""


@dataclass(frozen=True)
class Unknown:
    """The end of the application is not proven. `why` is half a sentence for a message."""

    why: str


class Application(Protocol):
    """An application that is ready to start."""

    def run(self) -> None:
        """Start the application, and wait for its end.

        Raises StageFailed, OutOfMemory, BrokerUnreachable, or IdentityChanged for a target topic
        that was replaced meanwhile. The application may outlive this call if the engine has an
        identity for it: `Engine.end` ends it.
        """

    def read(self, name: str) -> str | None:
        """Return an answer of the application, also after `run` has raised. None if it gave none.

        Only while the block of `Engine.application` lasts.
        """


class Engine(Protocol):
    """Where and with what the applications of a run are started.

    It knows the Spark connection and the Kafka connection of the run.
    """

    @property
    def id(self) -> str:
        """The id of the connection, for messages."""

    @property
    def line(self) -> str:
        """The minor version of its Spark: "4.0". A claim holds it."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The connection's settings of Spark, which a pipeline's own override."""

    @property
    def tasks_at_once(self) -> int | None:
        """The number of tasks that run at once. None if it is not known before the start."""

    def refuse(self, conf: Mapping[str, str], *, starting: bool = False) -> None:
        """Raise ConfigurationError, with all complaints, if an application could not run.

        JavaMissing on a machine without Java, if one is `starting` here. `conf` are the pipeline's
        settings of Spark. Nothing outside of this machine is asked.
        """

    def notices(self, store: Store) -> Iterator[str]:
        """Yield what an operator should check, and cannot be checked from here."""

    def application(
        self,
        job: KafkaJob,
        attempt: Attempt,
        *,
        store: Store,
        conf: Mapping[str, str],
        places: Sequence[str],
        target_ids: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[Application]:
        """Give a job to an application that is not started yet.

        The engine adds the options and logins of the Kafka connection. `conf` wins over all others.
        What application and submitter exchange is deleted at the end of the block, or is in the
        directory of `attempt` in the lake, which the caller deletes. If the submitter is killed,
        what is left elsewhere expires, and is of no use without the lake. `places` are all paths
        and URLs that the application opens. The topics that it sends to, `target_ids` by name, are
        watched while it runs. Raises ConfigurationError, or an error of a login.
        """

    def identity(self, attempt: Attempt) -> Mapping[str, str] | None:
        """Return by what `end` finds the application of an attempt, for its claim.

        Known before the start. None: the application ends with the process that runs it, at the
        latest some seconds after it, and until then its command line has the attempt's name.
        """

    def end(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> Ended | Unknown:
        """End an application whose submitter does not wait for it, and wait for the proof.

        For the identity of another engine, or of an unknown one: Unknown, never Ended.
        """

    def running(self, identity: Mapping[str, str]) -> Sequence[str]:
        """Return the applications that are seen to run, each with the command that ends it.

        For a decision of an operator. Empty is no proof: the engine may not answer. Raises
        ConfigurationError for an identity that is not known here.
        """

    def withdraw(self, identity: Mapping[str, str], attempt: Attempt, store: Store) -> None:
        """Take the job away from an application that has not read it yet: it does nothing then."""

    def left_behind(self, store: Store, plan_id: str) -> Sequence[str]:
        """Return notices of applications of a plan that may run although their submitter is gone.

        Only for an ingest, to which they do no harm.
        """
