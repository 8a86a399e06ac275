"""What tests share: one real broker, topics on it, and one real S3 server."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from support import topic_records
from tidegate_local import kafka
from tidegate_local import s3 as s3_server
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker, for the whole test run."""
    home = tmp_path_factory.mktemp("kafka")
    try:
        yield kafka.start(home)
    finally:
        kafka.stop(home)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real S3 server with a bucket "lakes", for the whole test run."""
    home = tmp_path_factory.mktemp("s3")
    try:
        yield s3_server.start(home, bucket="lakes")
    finally:
        s3_server.stop(home)


_numbers = itertools.count(1)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Make topics of names that no other test has: `topic(partitions=4, config={…})`."""

    def make(*, partitions: int = 4, config: dict[str, str] | None = None) -> str:
        name = f"{request.function.__name__}-{next(_numbers)}"
        topic_records.create(broker.bootstrap, name, partitions=partitions, config=config)
        return name

    return make
