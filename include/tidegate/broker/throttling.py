"""Requests to a broker that throttles this user: they wait, and do not fail."""

from __future__ import annotations

from typing import Any

_SECONDS = 0.05  # between two looks at the connections


class PatientConnections:
    """The connections of kafka-python's admin client. Its requests wait while they are throttled.

    Its own `send` fails at once (NodeNotReadyError) while a connection is paused, as a broker asks
    in each response to a user that is over its quota.
    """

    def __init__(self, connections: Any) -> None:
        self._connections = connections

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connections, name)

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """Return the broker's response."""
        while any(each.paused for each in self._connections._conns.values()):
            await self._connections._net.sleep(_SECONDS)
        return await self._connections.send(request, node_id=node_id)
