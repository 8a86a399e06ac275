"""Cluster mode on YARN: the driver runs in a container, on a machine that has nothing of ours.

The key of the job (`job_in_lake`) is a secret key of the application's Hadoop credentials. A
resource manager may keep those.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tidegate.core.locations import find_scheme
from tidegate.errors import ConfigurationError
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import hadoop_credentials, spark_home, yarn_client
from tidegate.launch.job_in_lake import (
    OF_THIS_MACHINE,
    PYTHON,
    ApplicationInLake,
    handed_over,
    withdraw_job,
)
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import Submission
from tidegate.launch.yarn_client import Ask
from tidegate.runs.engine_protocol import Ended, Unknown
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark.answers import DRIVER, IN_LAKE, JOB
from tidegate.spark.yarn_container import SECRET, Container

MASTER = "yarn"
"""The master in the identity of an application, in claims."""
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
_KEYTABS = ("spark.kerberos.keytab", "spark.yarn.keytab")
# Spark's client writes them into the application's configuration. YARN keeps a copy of it.
_KEPT_BY_YARN = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
# Of YARN: at most 100 characters of ASCII. The resource manager makes them lower case by default.
_TAG = re.compile(r"[a-z0-9_-]{1,91}")
_PATIENCE = 60.0  # seconds for an application that was killed to end
LOOKS_AT_DRIVER_APART = 2.0

logger = logging.getLogger(__name__)


def configuration_directory() -> str:
    """Return the variable that leads to the cluster, with its value. ConfigurationError without."""
    for name in _CONF_DIRS:
        if value := os.environ.get(name):
            return f"{name}={value}"
    raise ConfigurationError(
        f"neither {' nor '.join(_CONF_DIRS)} is set; set one to the directory with yarn-site.xml"
    )


def ask_cluster(spark: SparkConnection) -> str:
    """Return what answers for a master. OSError if nothing does; both name the configuration.

    ConfigurationError if no variable leads to the cluster.
    """
    directory = configuration_directory()
    try:
        ask = yarn_client.application_client(spark.home or spark_home.home())
        yarn_client.list_tagged("tidegate-doctor", ask)  # a tag that no application has
    except OSError as error:
        raise OSError(
            f"the resource manager does not answer: {error}; start it, or correct yarn-site.xml in "
            f"{directory}"
        ) from error
    return f"the resource manager answers (deploy mode {spark.deploy_mode}, {directory})"


def identify_application(attempt: Attempt) -> dict[str, str]:
    """Return by what YARN finds the application of an attempt, known before it is sent."""
    return {"master": MASTER, "tag": _tag(attempt)}


def _tag(attempt: Attempt) -> str:
    if not _TAG.fullmatch(attempt.name):
        raise ValueError(f"attempt {attempt.name!r}: YARN would not keep it as a tag")
    return f"tidegate-{attempt.name}"


def refuse_cluster_mode(
    spark: SparkConnection, kafka: JavaCluster, conf: Mapping[str, str]
) -> None:
    """Raise ConfigurationError, with all complaints, if an application could not run on YARN.

    `conf` are the pipeline's settings. Nothing is asked of YARN.
    """
    wrong = []
    try:
        configuration_directory()
    except ConfigurationError as error:
        wrong.append(str(error))
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


def _files_of_this_machine(kafka: JavaCluster) -> list[str]:
    """Return complaints about what Java's client would need as files, and nodes do not have."""
    client = kafka.for_java(Path("/"))
    if not client.files:
        return []
    return [
        f"Kafka connection {kafka.connection!r}: {name} becomes a file of this machine, which the "
        f"nodes do not have: give {instead}, with a path that each node has"
        for name, instead in client.instead.items()
    ] or [f"Kafka connection {kafka.connection!r}: it needs a file of this machine"]


class ClusterApplication(ApplicationInLake):
    """An application of YARN."""

    def run(self) -> None:
        for notice in cluster_notices(self.store, self.spark):
            logger.warning("%s", notice)
        with handed_over(self.job, self.attempt, self.store) as key:
            hadoop_credentials.write_credentials(_credentials(self.call), SECRET, key)
            self.submit(_for_yarn(self.call, self.attempt, self.store, self.spark))


def end_application(
    attempt: Attempt, tag: str, store: Store, home: Path | None, *, patience: float = _PATIENCE
) -> Ended | Unknown:
    """End the application of an attempt whose submitter is gone, and wait for the proof.

    A driver names its container before it reads its job. With the job withdrawn, a driver that has
    not named itself by now sends nothing, whether YARN starts it or not. `home` is the Spark with
    whose client YARN is asked. None: the installed one.
    """
    withdraw_job(attempt, store)
    named = store.get(attempt.directory + DRIVER)
    try:
        ask = yarn_client.application_client(home or spark_home.home())
    except ConfigurationError as error:
        return Unknown(str(error)) if named else Ended()
    if named is None:
        _kill(tag, ask, set())
        return Ended()
    why = _awaited(attempt, tag, Container.from_json(json.loads(named)), ask, patience)
    return Unknown(why) if why else Ended()


def _awaited(
    attempt: Attempt, tag: str, driver: Container, ask: Ask, patience: float
) -> str | None:
    deadline, said = time.monotonic() + patience, set[str]()
    while True:
        _kill(tag, ask, said)
        why = yarn_client.not_ended(tag, driver, ask)
        if why is None or time.monotonic() > deadline:
            return why
        if why not in said:
            logger.info("attempt %s: %s; looking again", attempt.name, why)
            said.add(why)
        time.sleep(LOOKS_AT_DRIVER_APART)


def _kill(tag: str, ask: Ask, said: set[str]) -> None:
    """End the applications with a tag. Log why that fails if it is not `said` yet."""
    try:
        for each in yarn_client.kill_applications(tag, ask):
            logger.warning("%s: killed: no process waits for it", each)
    except OSError as error:
        if (why := str(error)) not in said:
            logger.warning("%s may still run: %s", yarn_client.tagged_name(tag), why)
            said.add(why)


def running_applications(tag: str, home: Path | None) -> list[str]:
    """Return the applications with a tag that YARN shows as not ended, each with how to end it.

    It is empty if YARN cannot be asked: an operator's decision needs no proof of death.
    """
    try:
        ask = yarn_client.application_client(home or spark_home.home())
        found = yarn_client.running_ids(tag, ask)
    except (OSError, ConfigurationError) as error:
        logger.warning(
            "YARN cannot be asked whether the application with the tag %s runs: %s", tag, error
        )
        return []
    return [f"YARN application {each} (`yarn application -kill {each}`)" for each in found]


def left_behind(store: Store, plan_id: str) -> list[str]:
    """Return notices of a plan's applications whose submitter was killed: they may still run."""
    staged = attempts.staged_files(store, plan_id)
    ours = {attempt.directory + name for attempt in staged for name in (JOB, DRIVER)}
    tags = {_tag(attempt) for attempt, files in staged.items() if ours & {f.path for f in files}}
    return [
        f"plan {plan_id}: {yarn_client.tagged_name(tag)} may still run: its submitter was "
        "killed. It does no harm, and what it finishes is kept"
        for tag in sorted(tags)
    ]


def cluster_notices(store: Store, _: SparkConnection) -> Iterator[str]:
    """Yield what nobody can check from here."""
    where = store.native("")
    if not store.is_shared_by_nodes:
        yield f"cluster mode: each node must have the lake at {where}, as the same shared directory"
    elif scheme := find_scheme(where):
        yield (
            f"cluster mode: driver and executors take keys of {scheme.title} from their nodes, by "
            "Hadoop's configuration or an instance profile, and not from this environment"
        )


def _for_yarn(
    given: Submission, attempt: Attempt, store: Store, spark: SparkConnection
) -> Submission:
    """Return a submission of client mode as one of YARN's cluster mode."""
    python = spark.python or PYTHON
    env = {name: value for name, value in given.env.items() if name not in OF_THIS_MACHINE}
    name = _tag(attempt)
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
        env={**env, _CREDENTIALS: str(_credentials(given)), "TIDEGATE_UNSET": _KEPT_BY_YARN},
        kill=partial(yarn_client.kill_tagged, name, Path(env["SPARK_HOME"])),
    )


def _credentials(call: Submission) -> Path:
    return Path(*call.args).with_name("credentials")


class Yarn:
    """Cluster mode on YARN: `tidegate.launch.cluster_modes.ClusterMode`."""

    ask = staticmethod(ask_cluster)
    refuse = staticmethod(refuse_cluster_mode)
    application = ClusterApplication
    left_behind = staticmethod(left_behind)
    notices = staticmethod(cluster_notices)

    def identity(self, attempt: Attempt, spark: SparkConnection) -> Mapping[str, str]:
        del spark
        return identify_application(attempt)

    def end(
        self, identity: Mapping[str, str], attempt: Attempt, store: Store, spark: SparkConnection
    ) -> Ended | Unknown:
        return end_application(attempt, identity["tag"], store, spark.home)

    def running(self, identity: Mapping[str, str], spark: SparkConnection) -> list[str]:
        return running_applications(identity["tag"], spark.home)
