"""A cluster of Kafka that is not asked: each question that a test asks is a method of its own."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class ToyKafka:
    """What a run may ask, with the answers of a cluster in which nothing is unusual."""

    connection = "kafka_default"
    bootstrap_servers = "nowhere:1"
    cluster = "Kafka at nowhere:1 (kafka_default)"
    options: Mapping[str, str] = {}

    def client_id(self, name: str) -> str:
        return name

    def to_json(self) -> dict[str, str | None]:
        return {
            "connection": self.connection, "bootstrap_servers": self.bootstrap_servers,
            "protocol": "PLAINTEXT", "login": None,
        }  # fmt: skip

    def nearest(self, missing: Iterable[str]) -> str:
        del missing
        return ""

    def reading(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def unreadable(self, *_: object, **__: object) -> Mapping[Any, Any]:
        return {}

    def expiries(self, *_: object) -> Mapping[tuple[str, int], int]:
        return {}

    def epoch_ends(self, epochs: object) -> Mapping[tuple[str, int], int]:
        del epochs
        return {}

    def open_since(self, watermarks: object) -> Mapping[tuple[str, int], int]:
        del watermarks
        return {}

    def mean_size(self, ranges: Sequence[Any], isolation: str) -> float | None:
        del ranges, isolation
        return None
