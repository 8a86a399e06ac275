"""Cluster mode on YARN: the driver runs in a container, on a machine that has nothing of ours.

The job file travels by `spark.yarn.dist.files`, Tidegate's modules by `spark.yarn.dist.pyFiles`.
YARN keeps copies of both after the end, so neither holds a secret: secrets are a secret key of
the application's Hadoop credentials, which its containers get in files that end with them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ConfigurationError
from tidegate.launch import hadoop_credentials
from tidegate.spark.yarn_container import SECRETS

if TYPE_CHECKING:
    from tidegate.launch.spark_submit import Submission

_CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
_SETTINGS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_KEYTABS = ("spark.kerberos.keytab", "spark.yarn.keytab")
# Spark's client would give the Pythons of this machine to the container.
_OF_THIS_MACHINE = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGATE_PYTHONPATH")
_CLASS_PATH = "spark.driver.extraClassPath"
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_ARCHIVE = re.compile(r"\s*-XX:SharedArchiveFile=\S+")
# Of YARN: at most 100 characters of ASCII. The resource manager makes them lower case by default.
_TAG = re.compile(r"[a-z0-9_-]{1,91}")


def tag(attempt: str) -> str:
    """Return the tag by which YARN finds the application of an attempt, known before it is sent."""
    if not _TAG.fullmatch(attempt):
        raise ValueError(f"attempt {attempt!r}: YARN would not keep it as a tag")
    return f"tidegate-{attempt}"


def for_yarn(
    given: Submission, *, attempt: str, modules: Path, python: str, secrets: Mapping[str, str]
) -> Submission:
    """Return a submission of client mode as one of YARN's cluster mode.

    `modules` is the zip of Tidegate's modules, `python` the interpreter on the nodes. A file with
    the secrets is created beside the job file; it is needed until spark-submit has ended. Raises
    ConfigurationError if secrets could not reach the driver, or YARN is not configured.
    """
    if not any(os.environ.get(name) for name in _SETTINGS):
        raise ConfigurationError(
            "Spark master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set; set one to the "
            "directory with yarn-site.xml"
        )
    (job,) = map(Path, given.args)
    env = {name: value for name, value in given.env.items() if name not in _OF_THIS_MACHINE}
    if secrets:
        env[_CREDENTIALS] = str(_written(job.with_name("credentials"), secrets, given.conf))
    return replace(
        given,
        args=(job.name,),
        conf={
            **_without_local_paths(given),
            "spark.submit.deployMode": "cluster",
            "spark.yarn.submit.waitAppCompletion": "true",
            "spark.yarn.maxAppAttempts": "1",  # a retry is a new attempt, with a tag of its own
            "spark.yarn.tags": _listed(given.conf, "spark.yarn.tags", tag(attempt)),
            "spark.yarn.dist.files": _listed(given.conf, "spark.yarn.dist.files", str(job)),
            "spark.yarn.dist.pyFiles": _listed(given.conf, "spark.yarn.dist.pyFiles", str(modules)),
            "spark.pyspark.python": python,
            "spark.pyspark.driver.python": python,
        },
        env=env,
    )


def _written(path: Path, secrets: Mapping[str, str], conf: Mapping[str, str]) -> Path:
    if already := os.environ.get(_CREDENTIALS):
        raise ConfigurationError(
            f"{_CREDENTIALS} is set ({already}), and the secrets of the job need it for a file of "
            "their own: unset it, and log in by kinit"
        )
    if keytabs := [name for name in _KEYTABS if conf.get(name)]:
        raise ConfigurationError(
            f"{keytabs[0]}: a login by keytab drops the credentials that carry the secrets of the "
            "job: log in by kinit, or use connections without secrets"
        )
    hadoop_credentials.write(path, SECRETS, json.dumps(dict(secrets)).encode())
    return path


def _without_local_paths(given: Submission) -> dict[str, str]:
    """Return the settings without this machine's archive of classes, and without jars that YARN
    puts into the class path of the driver itself.
    """
    conf = dict(given.conf)
    paths = conf.pop(_CLASS_PATH, "").split(":")
    if others := [path for path in paths if path and path not in given.jars]:
        conf[_CLASS_PATH] = ":".join(others)
    if _JAVA_OPTIONS in conf:
        conf[_JAVA_OPTIONS] = _ARCHIVE.sub("", conf[_JAVA_OPTIONS])
    return conf


def _listed(conf: Mapping[str, str], name: str, ours: str) -> str:
    return ",".join(filter(None, [conf.get(name), ours]))
