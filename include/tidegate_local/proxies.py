"""Keep a proxy of the environment away from this machine's own servers: it cannot reach them."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LOOPBACK = ("127.0.0.1", "localhost")
_NAMES = ("no_proxy", "NO_PROXY")


def without_loopback(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with which no client asks a proxy for the loopback address.

    In both spellings, with the hosts of both: clients differ in which of them they read, and in
    which one wins.
    """
    given = [environ.get(name, "").strip() for name in _NAMES]
    if "*" in given:
        return dict.fromkeys(_NAMES, "*")
    hosts = [host.strip() for host in ",".join(given).split(",") if host.strip()]
    return dict.fromkeys(_NAMES, ",".join(dict.fromkeys([*hosts, *_LOOPBACK])))
