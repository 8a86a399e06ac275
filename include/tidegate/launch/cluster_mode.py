"""Cluster mode on YARN: the driver runs in a container, on a machine that has nothing of ours.

The job is encrypted in the lake, in a directory of its attempt: the driver deletes it when it has
read it, and the submitter at the end. The key is a secret key of the application's Hadoop
credentials. A resource manager may keep those; without the job they are of no use.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError, LakeUnavailable, StageFailed
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import delegation_tokens, hadoop_credentials
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import Submission
from tidegate.spark.answers import DRIVER, FAILURE, IN_LAKE, JOB, LocalAnswers, ReadAnswer
from tidegate.spark.job_files import JobFile
from tidegate.spark.yarn_container import SECRET

PYTHON = "python3"
"""The interpreter on the nodes if the Spark connection names none."""
CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""The variables that lead to yarn-site.xml."""
_CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
_KEYTABS = ("spark.kerberos.keytab", "spark.yarn.keytab")
# Spark's client would give the Pythons of this machine, and its class path, to the container.
_OF_THIS_MACHINE = (
    "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGATE_PYTHONPATH", "SPARK_DIST_CLASSPATH",
)  # fmt: skip
# Spark's client writes them into the application's configuration, of which YARN keeps a copy.
_KEPT_BY_YARN = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
# What is given as a text becomes a file of this machine; the settings that name one of the nodes.
_AS_FILES = {
    "ssl.ca.pem": "ssl.ca.location",
    "ssl.key.pem": "ssl.keystore.location and ssl.keystore.password",
    "ssl.key.location": "ssl.keystore.location and ssl.keystore.password",
    "https.ca.pem": "https.ca.location",
    "tidegate.oauthbearer.token.callable": "tidegate.oauthbearer.token.file",
}
# Of YARN: at most 100 characters of ASCII. The resource manager makes them lower case by default.
_TAG = re.compile(r"[a-z0-9_-]{1,91}")
_NONCE = 12  # bytes
_MOST_TRIES = 10

logger = logging.getLogger(__name__)


def tag(attempt: str) -> str:
    """Return the tag by which YARN finds the application of an attempt, known before it is sent."""
    if not _TAG.fullmatch(attempt):
        raise ValueError(f"attempt {attempt!r}: YARN would not keep it as a tag")
    return f"tidegate-{attempt}"


def refuse(spark: SparkConnection, kafka: KafkaSettings, conf: dict[str, str]) -> None:
    """Raise ConfigurationError, with all complaints, if an application could not run on YARN.

    `conf` are the pipeline's settings. Nothing is asked of YARN.
    """
    wrong = []
    if not any(os.environ.get(name) for name in CONF_DIRS):
        wrong.append(
            "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set; set one to the directory with "
            "yarn-site.xml"
        )
    if already := os.environ.get(_CREDENTIALS):
        wrong.append(
            f"{_CREDENTIALS} is set ({already}), and the key of the job needs it for a file of its "
            "own: unset it, and log in by kinit"
        )
    given = {**spark.conf, **conf}
    if keytabs := [name for name in _KEYTABS if given.get(name)]:
        wrong.append(
            f"{keytabs[0]}: a login by keytab drops the credentials that carry the key of the job: "
            "log in by kinit"
        )
    if kafka.delegation_token:
        wrong.append(
            f"Kafka connection {kafka.connection!r}: tidegate.delegation_token needs a login of "
            "Spark by keytab, which drops the key of the job: remove it"
        )
    wrong += _files_of_this_machine(kafka)
    if wrong:
        listed = "\n".join(f"  - {each}" for each in wrong)
        raise ConfigurationError(
            f"Spark connection {spark.id!r}, deploy-mode cluster:\n{listed}\n"
            "deploy-mode client does without"
        )


def _files_of_this_machine(kafka: KafkaSettings) -> list[str]:
    """Return complaints about what Java's client would need as files, and nodes do not have."""
    with TemporaryDirectory(prefix="tidegate-") as directory:
        delegation_tokens.split(kafka, Path(directory))
        if not any(Path(directory).iterdir()):
            return []
    found = {name: instead for name, instead in _AS_FILES.items() if name in kafka.extra}
    return [
        f"Kafka connection {kafka.connection!r}: {name} becomes a file of this machine, which the "
        f"nodes do not have: give {instead}, with a path that each node has"
        for name, instead in found.items()
    ] or [f"Kafka connection {kafka.connection!r}: it needs a file of this machine"]


@contextmanager
def handed_over(
    job: JobFile, application: Submission, attempt: Attempt, store: Store, spark: SparkConnection
) -> Iterator[tuple[Submission, ReadAnswer]]:
    """Give a job to its application; yield the call to be submitted, and what reads its answers.

    The call's argument is the path of the job file, in a private directory. In cluster mode answers
    and job are in the directory of an attempt in the lake, which nothing else is written into.
    """
    path = Path(*application.args)
    if not spark.is_cluster:
        job.write(path)
        yield application, LocalAnswers(path.parent).read
        return
    for notice in notices(store, spark):
        logger.warning("%s", notice)
    key = secrets.token_bytes(32)
    hadoop_credentials.write(path.with_name("credentials"), SECRET, key)
    place = attempt.directory + JOB
    if not store.create(place, _encrypted(json.dumps(job.to_json()).encode(), key)):
        raise StageFailed(f"attempt {attempt.name}: another process has withdrawn its job")
    read = answers_of(attempt, store)
    try:
        try:
            yield _for_yarn(application, attempt, store, spark), read
        except StageFailed as error:
            if why := read(FAILURE):  # the driver's output stays in its container
                raise StageFailed(f"{why} ({error})", **error.numbers) from error
            raise
    finally:
        store.delete(place)


def withdraw(attempt: Attempt, store: Store) -> None:
    """Replace the job of an attempt by nothing: a driver that has not read it never will, and a
    submitter that was paused cannot give it another one.
    """
    for _ in range(_MOST_TRIES):
        if store.create(attempt.directory + JOB, b""):
            return
        store.delete(attempt.directory + JOB)
    raise LakeUnavailable(
        f"attempt {attempt.name}: its job {store.uri(attempt.directory + JOB)} is there again each "
        "time it is deleted; end its submitter, and try again"
    )


def left_behind(store: Store, plan_id: str) -> list[str]:
    """Return the tags of a plan's applications whose submitter was killed: they may still run."""
    staged = attempts.staged_files(store, plan_id)
    ours = {attempt.directory + name for attempt in staged for name in (JOB, DRIVER)}
    return sorted(
        {tag(attempt.name) for attempt, files in staged.items() if ours & {f.path for f in files}}
    )


def clear(attempt: Attempt, store: Store) -> None:
    """Delete what an egress attempt has in the lake beside its manifest: job, answers, mark."""
    store.delete(*(listed.path for listed in store.objects(attempt.directory)))
    store.prune(attempt.directory)


def answers_of(attempt: Attempt, store: Store) -> ReadAnswer:
    """Return what reads the answers of a driver in cluster mode."""

    def read(name: str) -> str | None:
        content = store.get(attempt.directory + name)
        return None if content is None else content.decode()

    return read


def notices(store: Store, spark: SparkConnection) -> Iterator[str]:
    """Yield what nobody can check from here; nothing in client mode."""
    where = store.native("")
    if not spark.is_cluster:
        return
    if not store.is_shared_by_nodes:
        yield f"cluster mode: each node must have the lake at {where}, as the same shared directory"
    elif where.startswith("s3a://"):
        yield (
            "cluster mode: driver and executors take keys of S3 from their nodes, by Hadoop's "
            "configuration or an instance profile, and not from this environment"
        )


def _for_yarn(
    given: Submission, attempt: Attempt, store: Store, spark: SparkConnection
) -> Submission:
    """Return a submission of client mode as one of YARN's cluster mode."""
    python = spark.python or PYTHON
    env = {name: value for name, value in given.env.items() if name not in _OF_THIS_MACHINE}
    credentials = Path(*given.args).with_name("credentials")
    name = tag(attempt.name)
    return replace(
        given,
        args=(IN_LAKE, store.native(attempt.directory)),
        conf={
            **given.conf,
            "spark.submit.deployMode": "cluster",
            "spark.yarn.submit.waitAppCompletion": "true",
            "spark.yarn.maxAppAttempts": "1",  # a retry is a new attempt, with a tag of its own
            "spark.yarn.tags": ",".join(filter(None, [given.conf.get("spark.yarn.tags"), name])),
            "spark.pyspark.python": python,
            "spark.pyspark.driver.python": python,
        },
        env={**env, _CREDENTIALS: str(credentials), "TIDEGATE_UNSET": _KEPT_BY_YARN},
        tag=name,
    )


def _encrypted(content: bytes, key: bytes) -> bytes:
    """Return a nonce and the content encrypted by AES-256, mode GCM; the key is used once."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, None)
