"""How the tests are divided among workers: what shares costly state is a group, long ones first."""

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parents[1]
LONGEST = (
    "e2e/test_windows_in_airflow.py",
    "e2e/test_airflow.py",
    "integration/test_yarn.py",
    "integration/test_spark_cluster.py",
    "integration/test_spark_cluster_on_s3.py",
    "spark/test_egress_resume.py",
    "nets/test_crashes.py",
    "e2e/test_demo_in_a_bucket.py",
    "integration/test_local_stack.py",
    "integration/test_whole_runs.py",
    "integration/secured",
    "integration/test_leaders.py",
    "integration/test_egress_kills.py",
    "integration/test_s3.py",
    "spark/test_egress_refusals.py",
    "spark/test_send_again.py",
    "spark/test_egress.py",
    "spark/test_egress_fidelity.py",
    "dags",
    "integration/test_oracle.py",
    "integration/test_bad_input.py",
    "integration/test_windows_live.py",
)
"""Groups that take half a minute and more, the longest first."""
DIRECTORIES = (
    "e2e", "matrix", "integration", "spark", "dags", "nets", "contracts", "architecture", "unit",
)  # fmt: skip
SHARING = ("dags", "integration/secured")
"""Groups: Airflow's tables are made once, its modules loaded once; one secured broker is enough."""
AN_HOUR = 3600


def group(path: Path) -> str:
    """Return the group of a test file: itself, or the directory that shares costly state."""
    name = path.relative_to(TESTS).as_posix()
    return next((each for each in SHARING if name.startswith(f"{each}/")), name)


class GroupScheduling(LoadScopeScheduling):
    """Gives all tests of a group to one worker.

    xdist's own `loadgroup` changes the ids of tests, which pytest 9.2 does not let it do.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group(TESTS.parent / nodeid.partition("::")[0])


def arrange(items: list[pytest.Item]) -> None:
    """Sort tests for a run with workers, and give slow tests more time."""
    for item in items:
        slow = any(item.get_closest_marker(name) for name in ("slow", "faults", "matrix"))
        if slow and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(AN_HOUR))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, int]:
    name = group(item.path)
    directory = item.path.relative_to(TESTS).parts[0]
    return (
        LONGEST.index(name) if name in LONGEST else len(LONGEST),
        DIRECTORIES.index(directory) if directory in DIRECTORIES else 0,
    )
