"""The private files between a Spark application and the process that started it.

A job file may hold secrets (the Kafka client's options): it is created with mode 0600, and the
application deletes it as soon as it has read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate.core.json_codec import Document
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    LakeDamaged,
    NotAuthenticated,
    NotAuthorised,
    OtherFormat,
    StageFailed,
    TidegateError,
)
from tidegate.spark.answers import Answers, ReadAnswer

_REFUSAL = "refusal"
_REFUSALS = {
    each.__name__: each
    for each in (ConfigurationError, LakeDamaged, NotAuthenticated, NotAuthorised, OtherFormat)
}


@dataclass(frozen=True)
class Login:
    """The settings of a client, login included, that obtains the delegation token of a cluster.

    `name` is the cluster's name in messages.
    """

    cluster: str
    name: str
    settings: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Login({self.cluster})"  # the settings are secret


def merge_logins(options: Mapping[str, str], logins: Iterable[Login]) -> dict[str, str]:
    """Return options and the settings of logins, for their secrets."""
    settings = {f"{each.cluster}.{k}": v for each in logins for k, v in each.settings.items()}
    return {**options, **settings}


class JobFile(Document):
    """Base of the content of a job file."""

    __slots__ = ()

    def write(self, path: Path) -> None:
        """Create the job file, readable by its owner only."""
        write_private(path, json.dumps(self.to_json()).encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True, kw_only=True)
class KafkaJob(JobFile):
    """Base of a job that reads or writes Kafka.

    `options` are those of the Kafka client. The engine adds what the connection has, and the
    `logins` of clusters for which the driver obtains delegation tokens. `records` is an estimate.
    """

    app_name: str
    options: Mapping[str, str]
    logins: tuple[Login, ...] = ()
    records: int


def write_private(path: Path, content: bytes) -> None:
    """Create a file that is readable by its owner only from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content)


def write_refusal(answers: Answers, error: TidegateError) -> None:
    """Answer that a retry of the same job would fail again."""
    answers.create(_REFUSAL, f"{type(error).__name__} {error}")


def read_refusal(answers: ReadAnswer) -> TidegateError | None:
    """Return the error of `write_refusal`, or None if the application wrote none."""
    if (text := answers(_REFUSAL)) is None:
        return None
    name, _, message = text.partition(" ")
    return _REFUSALS[name](message)


@contextmanager
def terminal_if_refused(read: ReadAnswer) -> Iterator[None]:
    """Raise the error that an application has answered, if a retry would end with it again.

    Its output does not decide: Airflow's operator returns none of it.
    """
    try:
        yield
    except (StageFailed, BrokerUnreachable) as error:
        if (refusal := read_refusal(read)) is None:
            raise
        raise refusal from error
