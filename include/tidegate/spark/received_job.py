"""The job of an application: a private file or, in cluster mode, encrypted in the lake."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, TypeVar

from pyspark import SparkContext

from tidegate.errors import ConfigurationError
from tidegate.spark import kube_pod, yarn_container
from tidegate.spark.answers import (
    DRIVER,
    IN_LAKE,
    JOB,
    WITHDRAWN,
    Answers,
    HadoopAnswers,
    LocalAnswers,
    answers_in_lake,
)
from tidegate.spark.failures import report_failure
from tidegate.spark.job_files import JobFile

_NONCE, _TAG_BITS = 12, 128  # of AES in the mode GCM: bytes, bits
Job = TypeVar("Job", bound=JobFile)

log = logging.getLogger(__name__)


def receive_job(kind: type[Job], args: tuple[str, ...]) -> tuple[Job, Answers]:
    """Return the job that the arguments name, and where its answers go. The job is deleted there.

    In cluster mode the driver first names its container or pod. From then on its end must be proven
    before another attempt may send. Raises FileNotFoundError for a job that was withdrawn.
    """
    if args[0] != IN_LAKE:
        path = Path(args[0])
        job = kind.read(path)
        path.unlink()  # it may hold secrets, and its writer may be killed
        return job, LocalAnswers(path.parent)
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    answers = answers_in_lake(args[1], jvm)
    if (place := yarn_container.own_container() or kube_pod.own_pod()) is None:
        raise ConfigurationError(f"{IN_LAKE} is for a driver in cluster mode")
    if other := answers.read(DRIVER):  # it was started again: the first may still send
        raise ConfigurationError(f"the job of this attempt belongs to the driver {other}")
    answers.create(DRIVER, json.dumps(place.to_json()))
    log.info("driver %s on %s", place.id, place.node)
    try:
        content = _decrypted(_taken(answers), place.read_key(jvm), jvm)
    except Exception as error:
        report_failure(error, "reading the job", {}, answers)
        raise
    return kind.from_json(json.loads(content)), answers


def _taken(answers: LocalAnswers | HadoopAnswers) -> bytes:
    content = answers.take(JOB)
    if content == WITHDRAWN:
        raise FileNotFoundError("the job was withdrawn: another attempt does its work")
    return content


def _decrypted(content: bytes, key: bytes, jvm: Any) -> bytes:
    """Return the plain bytes. Java does it, because the nodes' Python may have no cryptography."""
    crypto = jvm.javax.crypto
    nonce = crypto.spec.GCMParameterSpec(_TAG_BITS, content[:_NONCE])
    cipher = crypto.Cipher.getInstance("AES/GCM/NoPadding")
    cipher.init(crypto.Cipher.DECRYPT_MODE, crypto.spec.SecretKeySpec(key, "AES"), nonce)
    return bytes(cipher.doFinal(content[_NONCE:]))
