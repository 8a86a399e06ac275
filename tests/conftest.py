"""What tests share: one real broker, and topics on it."""

import itertools
from collections.abc import Callable, Iterator

import pytest

import records
from tidegate.local import kafka
from tidegate.local.kafka import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker, for the whole test run."""
    home = tmp_path_factory.mktemp("kafka")
    try:
        yield kafka.start(home)
    finally:
        kafka.stop(home)


_numbers = itertools.count(1)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Make topics of names that no other test has: `topic(partitions=4, config={…})`."""

    def make(*, partitions: int = 4, config: dict[str, str] | None = None) -> str:
        name = f"{request.function.__name__}-{next(_numbers)}"
        records.create(broker.bootstrap, name, partitions=partitions, config=config)
        return name

    return make
