"""No proxy for the servers of this machine, which a proxy of the environment cannot reach."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LOOPBACK = ("127.0.0.1", "localhost")
_NAMES = ("no_proxy", "NO_PROXY")


def without_loopback(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with which no client uses a proxy for the loopback address.

    Both spellings have the hosts of both: clients differ in which one they read or prefer.
    """
    given = [environ.get(name, "").strip() for name in _NAMES]
    if "*" in given:
        return dict.fromkeys(_NAMES, "*")
    hosts = [host.strip() for host in ",".join(given).split(",") if host.strip()]
    return dict.fromkeys(_NAMES, ",".join(dict.fromkeys([*hosts, *_LOOPBACK])))
