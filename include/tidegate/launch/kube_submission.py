"""The call of spark-submit for a driver in a pod: its volumes, its template, its labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tidegate.errors import ConfigurationError
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import kube_client, spark_jars
from tidegate.launch.job_in_lake import OF_THIS_MACHINE, PYTHON
from tidegate.launch.kube_client import ATTEMPT, EXECUTOR, FINALIZER, KIND
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.submission import MODULES, Submission
from tidegate.spark import kube_pod
from tidegate.spark.answers import IN_LAKE

_TEMPLATE = "spark.kubernetes.driver.podTemplateFile"
_CONTAINER = "spark.kubernetes.driver.podTemplateContainerName"
_OWN_JAR = str(spark_jars.TIMESTAMPS)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,45}[a-z0-9])?")  # with ours at most 63 characters


def pod_name(attempt: Attempt) -> str:
    """Return the name of the driver's pod of an attempt. ValueError for a name that cannot be."""
    if not _NAME.fullmatch(attempt.name):
        raise ValueError(f"attempt {attempt.name!r}: no name of a pod")
    return f"tidegate-{attempt.name}-driver"


@dataclass(frozen=True)
class Volume:
    """A Secret, and where driver and executors have its files."""

    secret: str
    content: Mapping[str, bytes] = field(repr=False)
    place: str


def secret_volumes(call: Submission, attempt: Attempt, key: bytes) -> list[Volume]:
    """Return what the pods need of this machine: modules and key, and the files of Kafka's client.

    The latter have the same path as here, since the options of the client name it.
    """
    name, private = f"tidegate-{attempt.name}", Path(*call.args).parent
    found = [Volume(name, {**_code(call), kube_pod.KEY: key}, kube_pod.DIRECTORY)]
    if files := {path.name: path.read_bytes() for path in private.iterdir()}:
        found.append(Volume(f"{name}-kafka", files, str(private)))
    return found


def make_driver_call(
    given: Submission,
    kind: str,
    attempt: Attempt,
    store: Store,
    spark: SparkConnection,
    volumes: Iterable[Volume],
) -> Submission:
    """Return a submission of client mode as one of Kubernetes' cluster mode."""
    python = spark.python or PYTHON
    template = Path(*given.args).parent / "driver.yaml"
    template.write_text(yaml.safe_dump(_template(given.conf)))
    local = f"local://{kube_pod.DIRECTORY}"
    modules = [
        f"{local}/{Path(each).name}" if each.startswith("/") else each
        for each in given.conf.get(MODULES, "").split(",")
    ]
    return replace(
        given,
        application=f"{local}/{Path(given.application).name}",
        jars=tuple(f"{local}/{Path(j).name}" if j == _OWN_JAR else j for j in given.jars),
        args=(IN_LAKE, store.native(attempt.directory)),
        conf={
            **given.conf,
            "spark.submit.deployMode": "cluster",
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.kubernetes.driver.pod.name": pod_name(attempt),
            f"spark.kubernetes.driver.label.{ATTEMPT}": attempt.name,
            f"spark.kubernetes.driver.label.{KIND}": kind,
            f"spark.kubernetes.executor.label.{ATTEMPT}": attempt.name,
            **{
                f"spark.kubernetes.{role}.secrets.{each.secret}": each.place
                for role in (kube_client.DRIVER, EXECUTOR)
                for each in volumes
            },
            _TEMPLATE: str(template),
            MODULES: ",".join(filter(None, modules)),
            "spark.pyspark.python": python,
            "spark.pyspark.driver.python": python,
        },
        env={name: value for name, value in given.env.items() if name not in OF_THIS_MACHINE},
    )


def _code(call: Submission) -> dict[str, bytes]:
    """Return the files of this machine that driver and executors need."""
    modules = [Path(each) for each in call.conf.get(MODULES, "").split(",") if each[:1] == "/"]
    own = [Path(_OWN_JAR)] if _OWN_JAR in call.jars else []
    return {path.name: path.read_bytes() for path in (Path(call.application), *modules, *own)}


def _template(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the template of the driver's pod: the user's, with the finalizer and the fields.

    ConfigurationError for one that cannot be read.
    """
    form: dict[str, Any] = {}
    if given := conf.get(_TEMPLATE):
        try:
            form = yaml.safe_load(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ConfigurationError(f"{_TEMPLATE}={given}: {error}") from None
        if not isinstance(form, dict):
            raise ConfigurationError(f"{_TEMPLATE}={given}: not a template of a pod")
    meta, spec = form.setdefault("metadata", {}), form.setdefault("spec", {})
    meta["finalizers"] = [*meta.get("finalizers", ()), FINALIZER]
    containers = spec.setdefault("containers", [{"name": "spark-kubernetes-driver"}])
    wanted = conf.get(_CONTAINER)
    container = next((c for c in containers if c.get("name") == wanted), containers[0])
    container["env"] = [
        *container.get("env", ()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in kube_pod.FIELDS.items()
        ),
    ]
    return {"apiVersion": "v1", "kind": "Pod", **form}
