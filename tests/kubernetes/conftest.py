"""A broker that pods reach, and users whose Spark connection is the test's Kubernetes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import kube_user
from support.cli_user import Terminal
from tidegate_local.kafka import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kube_user.broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory that the node, and so each pod, has at the same path."""
    found = kube_user.HOME / "shared" / request.node.name.replace("[", "-").rstrip("]")
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(mode=0o777)
    found.chmod(0o777)
    yield found
    kube_user.delete_pods()
    shutil.rmtree(found)


@pytest.fixture(params=["client", "cluster"])
def terminal(request: pytest.FixtureRequest, broker: Broker, home: Path) -> Terminal:
    return kube_user.new_user(home, broker, request.param)
