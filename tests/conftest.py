"""What tests share, in each worker of a run: a broker, topics on it, and an S3 server."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import left_lakes, order_of_tests, topic_records
from tidegate_local import kafka, ports
from tidegate_local import s3 as s3_server
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

MEMORY = Path("/dev/shm")
ENOUGH = 4 * 10**9
"""Bytes: the files of a whole run are less than half of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person write the golden files anew."""
    parser.addoption("--update", action="store_true", help="write tests/contracts/golden")


def pytest_configure(config: pytest.Config) -> None:
    """Put the tests' files in memory if possible, spare the JVMs, and give each worker its ports.

    On a disk a test of the local store waits for hundreds of fsyncs, which show nothing while the
    machine stays on.
    """
    if _fits(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # The JVMs of tests live for seconds or minutes: the second compiler would take half of their
    # time. Without it the code cache has 48 MB, and a session that ran for minutes sweeps it.
    os.environ.setdefault(
        "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    )
    os.environ["TIDEGATE_TESTING"] = "1"  # else a fault point with a fault is an error
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports.PORTS = ports.PORTS[worker % 4 :: 4]


def _fits(directory: Path) -> bool:
    """Return whether a directory exists, is large, and may hold programs that tests write."""
    try:
        state = os.statvfs(directory)
    except FileNotFoundError:
        return False
    free = state.f_bavail * state.f_frsize
    return free > ENOUGH and not state.f_flag & os.ST_NOEXEC and os.access(directory, os.W_OK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order_of_tests.arrange(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return order_of_tests.GroupScheduling(config, log)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker, for all tests of a worker; that of a whole run of mutants, if any."""
    if shared := os.environ.get("TIDEGATE_TEST_BROKER"):
        yield kafka.start(Path(shared))
        return
    home = tmp_path_factory.mktemp("kafka")
    try:
        yield kafka.start(home)
    finally:
        kafka.stop(home)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real broker with every way to log in (a SecuredBroker), for all tests of a worker."""
    from support import secured_broker  # certificates and a KDC: few tests need them

    with secured_broker.running(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real S3 server with a bucket "lakes", for all tests of a worker."""
    home = tmp_path_factory.mktemp("s3")
    try:
        yield s3_server.start(home, bucket="lakes")
    finally:
        s3_server.stop(home)


@pytest.fixture(scope="session")
def azure() -> Iterator[Any]:
    """A server of Azure Blob Storage, with a container, for all tests of a worker."""
    from support import azure_server  # few tests need it

    with azure_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of Google Cloud Storage with a bucket "lakes", for all tests of a worker."""
    from tidegate_local import gcs as gcs_server  # few tests need it

    home = tmp_path_factory.mktemp("gcs")
    try:
        yield gcs_server.start(home, bucket="lakes")
    finally:
        gcs_server.stop(home)


@pytest.fixture(scope="session", autouse=True)
def _no_spark_is_left() -> Iterator[None]:
    """End the process's Spark session, if any test has started it."""
    yield
    if started := sys.modules.get("support.spark_session"):
        started.stop()


CHECKED = ("integration", "spark", "e2e")
"""Directories of the tests whose lakes are checked at their end."""


def _is_checked(path: Path) -> bool:
    # A mutant must be found by its own test.
    return "TIDEGATE_TEST_MUTANT" not in os.environ and any(
        path.is_relative_to(Path(__file__).parent / name) for name in CHECKED
    )


@pytest.fixture(autouse=True)
def _lakes_are_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every lake that a test leaves is whole: see `support.left_lakes`.

    It is set up first, so that all processes of the test have ended when it looks.
    """
    if not _is_checked(request.path):
        yield
        return
    tmp_path = request.getfixturevalue("tmp_path")
    server = request.getfixturevalue("s3") if "s3" in request.fixturenames else None
    before = left_lakes.in_bucket(server) if server else set()
    yield
    found = left_lakes.differences(left_lakes.below(tmp_path))
    if server:
        found += left_lakes.differences(left_lakes.in_bucket(server) - before, server)
    left_lakes.judge(request.node, found)


@pytest.fixture(scope="module", autouse=True)
def _lakes_of_a_module_are_whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The same for lakes that the tests of a file share."""
    base = tmp_path_factory.getbasetemp()
    before = set(base.iterdir())
    yield
    if _is_checked(request.path):
        new = [each for each in base.iterdir() if each not in before and each.is_dir()]
        shared = [each for each in new if not each.name.startswith(("test_", *left_lakes.SERVERS))]
        found = left_lakes.differences(at for each in shared for at in left_lakes.below(each))
        left_lakes.judge(request.node, found)


_numbers = itertools.count(1)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Make topics of names that no other test has: `topic(partitions=4, config={…})`."""

    def make(*, partitions: int = 4, config: dict[str, str] | None = None) -> str:
        name = f"{request.function.__name__}-{next(_numbers)}"
        topic_records.create(broker.bootstrap, name, partitions=partitions, config=config)
        return name

    return make
