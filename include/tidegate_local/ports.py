"""Free ports for servers that keep theirs across restarts."""

import random
import socket
from collections.abc import Collection

PORTS = range(20_000, 32_000)
"""Linux gives ports from 32768 on to outgoing connections, which could take a kept port."""


_given: set[int] = set()


def free_port(kept: Collection[int] = ()) -> int:
    """Return a TCP port of the loopback address on which nothing listens now.

    It is none of `kept`, and a process is never given the same one twice: nothing may listen there
    yet.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if port in _given or port in kept:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError("no free port on 127.0.0.1")


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of the loopback address now."""
    with socket.socket() as probe:
        # As servers do: connections that are still closing do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
