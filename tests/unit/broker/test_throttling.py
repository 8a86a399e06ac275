"""A broker throttles this user: requests wait for the end of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from kafka.errors import NodeNotReadyError

from tidegate.broker.throttling import PatientConnections


class Throttled:
    """kafka-python's connections, of which one is paused for a second after each response."""

    broker_version_data = "of the broker"

    def __init__(self) -> None:
        self.now = self.until = 0.0
        self._net = self
        self.sent: list[tuple[str, int | None, float]] = []

    @property
    def _conns(self) -> dict[str, Any]:
        paused = {"throttle"} if self.now < self.until else set()
        return {"bootstrap-0": SimpleNamespace(paused=set()), "1": SimpleNamespace(paused=paused)}

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def send(self, request: str, node_id: int | None = None) -> str:
        if self.now < self.until:
            raise NodeNotReadyError("Node paused: {'throttle'}")
        self.sent.append((request, node_id, round(self.now)))
        self.until = self.now + 1
        return f"answer to {request}"


def test_requests_wait_for_each_other() -> None:
    connections = PatientConnections(client := Throttled())
    answers = [asyncio.run(connections.send(r, node_id=n)) for r, n in (("a", None), ("b", 1))]
    assert answers == ["answer to a", "answer to b"]
    assert client.sent == [("a", None, 0), ("b", 1, 1)]
    assert connections.broker_version_data == "of the broker"
