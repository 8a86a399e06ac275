"""What tests share: one real broker."""

from collections.abc import Iterator

import pytest

from tidegate.local import kafka
from tidegate.local.kafka import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka broker, for the whole test run."""
    home = tmp_path_factory.mktemp("kafka")
    yield kafka.start(home)
    kafka.stop(home)
