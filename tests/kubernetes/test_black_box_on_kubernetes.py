"""Scenarios of other engines, which look at a broker and a lake alone, with the driver in a pod."""

from pathlib import Path

import pytest

from integration import (
    test_changes_while_reading,
    test_identity_and_expiry,
    test_maintenance_commands,
    test_replay,
    test_subscriptions,
    test_whole_runs,
    test_windows_live,
)
from support import kube_user
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
_MODULES = (
    test_changes_while_reading, test_identity_and_expiry, test_maintenance_commands, test_replay,
    test_subscriptions, test_whole_runs, test_windows_live,
)  # fmt: skip
_OF_LOCAL_PROCESSES = {"test_killed_half_way", "test_publishers_race"}
"""They kill the JVM of this machine, or have none. `test_kills_on_kubernetes.py` has the like."""


@pytest.fixture
def tmp_path(home: Path) -> Path:
    """A directory that pods have as well."""
    return home


@pytest.fixture
def terminal(broker: Broker, home: Path) -> Terminal:
    return kube_user.new_user(home, broker, "cluster")


for _module in _MODULES:
    for _name, _test in vars(_module).items():
        _marks = {each.name for each in getattr(_test, "pytestmark", [])}
        if "blackbox" in _marks and _name not in _OF_LOCAL_PROCESSES:
            assert _name not in globals(), _name
            globals()[_name] = _test
