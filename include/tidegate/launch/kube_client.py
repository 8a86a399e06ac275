"""What Tidegate asks of a Kubernetes cluster: pods and Secrets of one namespace.

Whether a driver has ended, only the state `terminated` of its container says: its kubelet has seen
the process end. No other answer is a proof. A pod that is gone, the phase Failed and a passed
deletion time were seen with a driver that wrote on. A container that a kubelet has refused, or that
waited for an init container when that failed, was never started.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from tidegate.core.wording import one_line
from tidegate.errors import ConfigurationError
from tidegate.launch.spark_connection import SparkConnection
from tidegate.spark import kube_pod

FINALIZER = "tidegate.io/outcome"
"""Keeps a driver's pod, whoever deletes it, until its end was seen."""
ATTEMPT = "tidegate.io/attempt"
"""The label of all that belongs to an attempt."""
KIND, INGEST, EGRESS = "tidegate.io/kind", "ingest", "egress"
"""The label of a driver with the kind of its pipeline."""
DRIVER, EXECUTOR = "driver", "executor"
_DEFAULT_NAMESPACE = "default"
_NAMESPACE = "spark.kubernetes.namespace"
_TIMEOUT = 20.0  # seconds
_MALFORMED = (AttributeError, LookupError, TypeError)  # what lightkube makes of a malformed file
_NEVER_RAN = 143  # an exit code, as of a process that is asked to end
_REFUSALS = ("NodeAffinity", "OutOf", "TopologyAffinityError", "UnexpectedAdmissionError")
"""How the reason of a pod begins that its kubelet has not admitted."""


@dataclass(frozen=True)
class SparkPod:
    """The pod of a driver or an executor, as the API server has it.

    `container` is the driver's, which alone counts for it. `codes` are the exit codes of what
    counts, and `ended_at` the time, if all of it has ended. `waits` is why it does not run yet.
    """

    name: str
    uid: str
    phase: str
    codes: tuple[int, ...] | None
    reason: str
    waits: str
    is_kept: bool
    never_ran: bool = False
    container: str | None = None
    kind: str = ""
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.codes is not None


class KubeClient:
    """One namespace of a cluster. Each method raises OSError if the cluster does not answer."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client, self.namespace = client, namespace

    def pod(self, name: str) -> SparkPod | None:
        """Return a pod by its name. None if it does not exist."""
        from lightkube.resources.core_v1 import Pod

        with _as_os_errors():
            try:
                return _read(self._client.get(Pod, name, namespace=self.namespace))
            except _api_error() as error:
                if error.status.code == 404:
                    return None
                raise

    def pods_of(self, attempt: str | None, role: str = DRIVER) -> list[SparkPod]:
        """Return the drivers, or the executors, of an attempt, or of all."""
        from lightkube.operators import exists
        from lightkube.resources.core_v1 import Pod

        labels: Any = {ATTEMPT: attempt or exists(), "spark-role": role}
        with _as_os_errors():
            found = self._client.list(Pod, namespace=self.namespace, labels=labels)
            return [_read(each) for each in found]

    def log_lines(self, pod: SparkPod) -> Iterator[tuple[str, str]]:
        """Yield the lines of a driver's output, each with its time, while it runs."""
        with _as_os_errors():
            lines = self._client.log(
                pod.name, namespace=self.namespace, container=pod.container,
                follow=True, timestamps=True, newlines=False,
            )  # fmt: skip
            for line in lines:
                time, _, text = line.partition(" ")
                yield time, text

    def delete_pod(self, pod: SparkPod) -> None:
        """Ask for the end of a pod. Its object stays until `let_go`."""
        from lightkube.resources.core_v1 import Pod

        with _as_os_errors(), _unless_gone():
            self._client.delete(Pod, pod.name, namespace=self.namespace)

    def let_go(self, pod: SparkPod) -> None:
        """Take the finalizer from a pod whose end was seen."""
        from lightkube.resources.core_v1 import Pod
        from lightkube.types import PatchType

        change = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "remove", "path": "/metadata/finalizers"},
        ]
        if pod.is_kept:
            with _as_os_errors(), _unless_gone():
                self._client.patch(
                    Pod, pod.name, change, namespace=self.namespace, patch_type=PatchType.JSON
                )

    @contextmanager
    def secret(self, name: str, attempt: str, content: Mapping[str, bytes]) -> Iterator[None]:
        """Keep a Secret while the block runs."""
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Secret

        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        meta = ObjectMeta(name=name, namespace=self.namespace, labels={ATTEMPT: attempt})
        with _as_os_errors():
            self._client.create(Secret(metadata=meta, data=data, immutable=True))
        try:
            yield
        finally:
            with suppress(OSError), _as_os_errors(), _unless_gone():
                self._client.delete(Secret, name, namespace=self.namespace)

    def own(self, secret: str, pod: SparkPod) -> None:
        """Let a Secret go with a pod: the submitter may be killed."""
        from lightkube.resources.core_v1 import Secret

        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        change = {"metadata": {"ownerReferences": [owner]}}
        with _as_os_errors(), _unless_gone():
            self._client.patch(Secret, secret, change, namespace=self.namespace)


def connect(spark: SparkConnection) -> KubeClient:
    """Return a client of a connection's cluster, by `KUBECONFIG` or the account of this pod.

    ConfigurationError without a login, and without the package `lightkube`.
    """
    try:
        from lightkube import Client, KubeConfig
        from lightkube.core.exceptions import ConfigError
    except ModuleNotFoundError:
        raise ConfigurationError(
            "lightkube is not installed: pip install 'tidegate[kubernetes]'"
        ) from None
    import httpx

    named = os.environ.get("KUBECONFIG")  # before the account of a pod, as Spark's client has it
    try:
        config: Any = (KubeConfig.from_file(named) if named else KubeConfig.from_env()).get()
    except (ConfigError, OSError, yaml.YAMLError, *_MALFORMED) as error:
        raise ConfigurationError(
            f"no login to Kubernetes: {one_line(error)}; set KUBECONFIG, or run in a pod with an "
            "account"
        ) from None
    server = spark.master.removeprefix("k8s://")
    config.cluster.server = server if "://" in server else f"https://{server}"
    client = Client(config, timeout=httpx.Timeout(_TIMEOUT), trust_env=False)
    return KubeClient(client, namespace_of(spark))


def namespace_of(spark: SparkConnection) -> str:
    """Return the namespace of a connection's applications, as Spark has it."""
    return spark.conf.get(_NAMESPACE) or _DEFAULT_NAMESPACE


def _read(found: Any) -> SparkPod:
    status, meta = found.status, found.metadata
    driver = _drivers_container(found.spec)
    count = [each.name for each in found.spec.containers if driver in (None, each.name)]
    states = [each.state for each in status.containerStatuses or () if each.name in count]
    ended = [state.terminated for state in states if state and state.terminated]
    scheduled = [c for c in status.conditions or () if c.type == "PodScheduled"]
    waiting = [state.waiting for state in states if state and state.waiting]
    waits = [f"{each.reason}: {each.message or ''}" for each in waiting]
    waits += [f"{c.reason}: {c.message or ''}" for c in scheduled if c.status == "False"]
    is_over = bool(states) and len(ended) == len(states) == len(count)
    codes = tuple(each.exitCode for each in ended) if is_over else None
    times = [each.finishedAt for each in ended if each.finishedAt] if is_over else []
    reason = ", ".join(each.reason or "" for each in ended)
    never_ran = _never_ran(found)
    if never_ran:
        codes, times = (_NEVER_RAN,), [meta.deletionTimestamp or meta.creationTimestamp]
        reason = f"{status.reason or 'an init container has failed'}: {status.message or ''}"
    return SparkPod(
        name=meta.name,
        uid=meta.uid,
        phase=status.phase or "Unknown",
        codes=codes,
        reason=reason.rstrip(": "),
        waits="; ".join(each.rstrip(": ") for each in waits),
        is_kept=FINALIZER in (meta.finalizers or ()),
        never_ran=never_ran,
        container=driver,
        kind=(meta.labels or {}).get(KIND, ""),
        ended_at=max(times, default=None),
    )


def _drivers_container(spec: Any) -> str | None:
    """Return the name of the container that has our variables."""
    for each in spec.containers:
        if any(variable.name in kube_pod.FIELDS for variable in each.env or ()):
            return str(each.name)
    return None


def _never_ran(found: Any) -> bool:
    """Return whether no container of a pod was started, and none will be."""
    status, is_deleted = found.status, bool(found.metadata.deletionTimestamp)
    if is_deleted and not found.spec.nodeName:  # it was never scheduled, and will not be
        return True
    if status.phase != "Failed":
        return False
    if not status.containerStatuses:
        return (status.reason or "").startswith(_REFUSALS)
    first = [each.state.terminated for each in status.initContainerStatuses or () if each.state]
    return any(each and each.exitCode for each in first) and all(
        each.state and each.state.waiting and not each.restartCount
        for each in status.containerStatuses
    )


def _api_error() -> type[Any]:
    from lightkube.core.exceptions import ApiError

    found: type[Any] = ApiError
    return found


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except _api_error() as error:
        if error.status.code != 404:
            raise


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise OSError in the place of an error of the client, PermissionError for a refused login."""
    import httpx
    from lightkube.core.exceptions import ConfigError

    try:
        yield
    except _api_error() as error:
        kind = PermissionError if error.status.code in (401, 403) else OSError
        raise kind(f"Kubernetes: {error}") from error
    except (ConfigError, httpx.HTTPError, httpx.StreamError) as error:
        raise OSError(f"Kubernetes: {one_line(error) or type(error).__name__}") from error
