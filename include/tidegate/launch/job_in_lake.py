"""An application in cluster mode: job and answers are in its attempt's directory in the lake.

The job is encrypted. The driver deletes it when it has read it, and the submitter at the end. Each
kind of cluster brings the key to the driver in its own way. Without the job a key is of no use.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidegate.errors import LakeUnavailable, StageFailed
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import Submission
from tidegate.spark.answers import FAILURE, JOB, WITHDRAWN
from tidegate.spark.job_files import JobFile

OF_THIS_MACHINE = (
    "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGATE_PYTHONPATH", "SPARK_DIST_CLASSPATH",
)  # fmt: skip
"""Variables that Spark's client would give to the driver: the Pythons and the class path here."""
PYTHON = "python3"
"""The interpreter of drivers and executors if the Spark connection names none."""
_NONCE, _KEY = 12, 32  # bytes
_MOST_TRIES = 10


@dataclass(frozen=True)
class ApplicationInLake:
    """What each kind has. `call` is that of client mode: its argument is a path in a private
    directory.
    """

    job: JobFile
    call: Submission
    attempt: Attempt
    store: Store
    spark: SparkConnection
    submit: Callable[[Submission], None]

    def read(self, name: str) -> str | None:
        return read_answer(self.attempt, self.store, name)


@contextmanager
def handed_over(job: JobFile, attempt: Attempt, store: Store) -> Iterator[bytes]:
    """Put a job into the lake, and yield its key. The job is deleted at the end.

    A StageFailed of the block gets the driver's own words, whose output stays elsewhere. Raises
    StageFailed for a job that another process has withdrawn.
    """
    key = secrets.token_bytes(_KEY)
    place = attempt.directory + JOB
    if not store.create(place, _encrypted(json.dumps(job.to_json()).encode(), key)):
        raise StageFailed(f"attempt {attempt.name}: another process has withdrawn its job")
    try:
        yield key
    except StageFailed as error:
        if why := read_answer(attempt, store, FAILURE):
            raise StageFailed(f"{why} ({error})", **error.numbers) from error
        raise
    finally:
        store.delete(place)


def read_answer(attempt: Attempt, store: Store, name: str) -> str | None:
    """Return an answer of the driver. None: it gave none."""
    content = store.get(attempt.directory + name)
    return None if content is None else content.decode()


def withdraw_job(attempt: Attempt, store: Store) -> None:
    """Replace the job of an attempt by nothing: a driver that has not read it never will, and a
    submitter that was paused cannot give it another one.
    """
    for _ in range(_MOST_TRIES):
        if store.create(attempt.directory + JOB, WITHDRAWN):
            return
        store.delete(attempt.directory + JOB)
    raise LakeUnavailable(
        f"attempt {attempt.name}: its job {store.uri(attempt.directory + JOB)} is there again each "
        "time it is deleted; end its submitter, and try again"
    )


def _encrypted(content: bytes, key: bytes) -> bytes:
    """Return a nonce and the content encrypted by AES-256, mode GCM. The key is used once."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, None)
