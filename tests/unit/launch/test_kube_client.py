"""What a pod says of itself, as Kubernetes' API has it."""

from typing import Any

import pytest
from lightkube.resources.core_v1 import Pod

from tidegate.launch.kube_client import FINALIZER, SparkPod, _read

ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-11-29T02:00:00Z"}}
RUNS = {"running": {"startedAt": "2026-11-29T01:00:00Z"}}


def pod(*states: dict[str, Any], node: str | None = "n", **meta: Any) -> SparkPod:
    """Return a pod of two containers, as it is read."""
    return _read(
        Pod.from_dict(
            {
                "metadata": {"name": "d", "uid": "u", "finalizers": [FINALIZER], **meta},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": node},
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [
                        {"name": "x", "image": "i", "imageID": "", "ready": False,
                         "restartCount": 0, "state": state}
                        for state in states
                    ],
                },
            }
        )
    )  # fmt: skip


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


def test_why_a_pod_waits() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    assert pod(waiting, waiting).waits.startswith("ErrImagePull: no such image")
