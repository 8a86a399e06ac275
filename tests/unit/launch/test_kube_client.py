"""What a pod says of itself, as Kubernetes' API has it."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from lightkube import KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.core_v1 import Pod

from tidegate.errors import ConfigurationError
from tidegate.launch.kube_client import FINALIZER, KubeClient, SparkPod, _read, connect
from tidegate.launch.spark_connection import SparkConnection
from tidegate.spark import kube_pod

ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-11-29T02:00:00Z"}}
RUNS = {"running": {"startedAt": "2026-11-29T01:00:00Z"}}


WAITS = {"waiting": {"reason": "PodInitializing"}}


def pod(
    *states: dict[str, Any],
    node: str | None = "n",
    is_driver: bool = False,
    status: dict[str, Any] | None = None,
    **meta: Any,
) -> SparkPod:
    """Return a pod of two containers, as it is read. A driver's first one is Spark's."""
    env = [{"name": name} for name in kube_pod.FIELDS] if is_driver else []
    containers = [{"name": "a", "env": env}, {"name": "b"}]
    form = {
        "metadata": {
            "name": "d", "uid": "u", "finalizers": [FINALIZER],
            "creationTimestamp": "2026-11-29T01:00:00Z", **meta,
        },
        "spec": {"containers": containers, "nodeName": node},
        "status": {
            "phase": "Failed",
            "containerStatuses": [of_container(*each) for each in zip("ab", states, strict=False)],
            **(status or {}),
        },
    }  # fmt: skip
    return _read(Pod.from_dict(form))


def of_container(name: str, state: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0,
        "state": state,
    }  # fmt: skip


@pytest.mark.parametrize("states", [(), (ENDED,), (ENDED, RUNS), (RUNS, RUNS), (ENDED, {})])
def test_a_pod_that_may_run(states: tuple[dict[str, Any], ...]) -> None:
    """Whatever its phase says, and also if it is to be deleted."""
    assert not pod(*states).has_ended
    assert not pod(*states, deletionTimestamp="2026-11-29T02:00:00Z").has_ended


def test_a_pod_whose_containers_have_ended() -> None:
    found = pod(ENDED, ENDED)
    assert (found.codes, found.reason, found.is_kept) == ((3, 3), "Error, Error", True)
    assert found.ended_at is not None


def test_a_pod_that_no_node_has() -> None:
    """Once it is to be deleted, no node gets it: nothing of it has run or will run."""
    assert not pod(node=None).has_ended
    found = pod(node=None, deletionTimestamp="2026-11-29T02:00:00Z")
    assert found.has_ended
    assert any(found.codes or ())
    assert found.ended_at is not None


def test_of_a_driver_its_own_container_counts() -> None:
    """A sidecar that is injected may run on, and has an output of its own."""
    found = pod(ENDED, RUNS, is_driver=True)
    assert (found.codes, found.container) == ((3,), "a")
    assert not pod(RUNS, ENDED, is_driver=True).has_ended


@pytest.mark.parametrize("reason", ["OutOfcpu", "NodeAffinity", "UnexpectedAdmissionError"])
def test_a_pod_that_its_kubelet_refuses(reason: str) -> None:
    found = pod(status={"reason": reason, "message": "no cores"})
    assert (found.has_ended, found.never_ran) == (True, True)
    assert found.reason == f"{reason}: no cores"


@pytest.mark.parametrize("reason", [None, "Evicted", "NodeLost", "Terminated"])
def test_a_failed_pod_without_containers_may_run(reason: str | None) -> None:
    assert not pod(status={"reason": reason}).has_ended


def test_a_pod_whose_init_container_has_failed() -> None:
    """Its containers wait for ever, and never ran."""
    first = [of_container("first", ENDED)]
    found = pod(WAITS, WAITS, status={"initContainerStatuses": first})
    assert (found.never_ran, found.codes) == (True, (143,))
    assert not pod(WAITS, RUNS, status={"initContainerStatuses": first}).has_ended
    pending = {"initContainerStatuses": first, "phase": "Pending"}
    assert not pod(WAITS, WAITS, status=pending).has_ended


@pytest.mark.parametrize("text", ["{}", "clusters: [", "[]", "contexts: x"])
def test_a_login_that_cannot_be_read(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(ConfigurationError, match="no login to Kubernetes"):
        connect(SparkConnection("s", "k8s://https://127.0.0.1:1", {}))


def test_a_named_login_comes_before_the_account_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's own client has it: both must speak to one cluster as one user."""
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "named"}}
    form = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    config.write_text(json.dumps(form))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setattr(KubeConfig, "from_env", mock.Mock(side_effect=ConfigError("of the pod")))
    spark = SparkConnection("s", "k8s://https://127.0.0.1:1", {})
    assert connect(spark).namespace == "default"
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ConfigurationError, match="of the pod"):
        connect(spark)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("exec plugin has failed"), OSError),
        (
            ApiError(response=httpx.Response(401, json={"code": 401, "status": "x"})),
            PermissionError,
        ),
    ],
)
def test_errors_of_a_login(error: Exception, kind: type[OSError]) -> None:
    """An outage of who gives tokens is one, and a login that is refused is told apart."""
    client = KubeClient(mock.Mock(**{"get.side_effect": error}), "spark")
    with pytest.raises(kind, match="Kubernetes: "):
        client.pod("d")


def test_why_a_pod_waits() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    assert pod(waiting, waiting).waits.startswith("ErrImagePull: no such image")
