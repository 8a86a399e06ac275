"""The kinds of masters that Spark runs on: how each is written, and how Tidegate treats it."""

from __future__ import annotations

import re
from typing import NamedTuple


class MasterKind(NamedTuple):
    """A kind of master.

    `pattern` matches the whole text of a master, `example` is one. `client_alone` is the reason why
    its driver cannot run in cluster mode, or empty. `key` of a Spark connection is for this kind
    alone, and `setting` is what Spark calls it. Keys of Airflow's provider that are `unused` are
    ignored. With `obtains_tokens` Spark obtains delegation tokens of Kafka itself, by Kerberos.
    `in_pods`: in cluster mode driver and executors have the jars of an image.
    """

    name: str
    pattern: str
    example: str
    client_alone: str = "it is for the masters yarn and k8s"
    key: str = ""
    setting: str = ""
    unused: tuple[str, ...] = ()
    obtains_tokens: bool = False
    in_pods: bool = False


LOCAL = MasterKind(
    "local",
    r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?|local-cluster\[[\d\s,]+\]",
    "local[2]",
)
STANDALONE = MasterKind(
    "spark",
    r"spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*",
    "spark://host:7077",
    "Spark's own master runs no Python application in cluster mode",
)
YARN = MasterKind(
    "yarn",
    "yarn",
    "yarn",
    client_alone="",
    key="queue",
    setting="spark.yarn.queue",
    unused=("yarn_resourcemanager_webapp_address",),
    obtains_tokens=True,
)
KUBERNETES = MasterKind(
    "k8s",
    "k8s://.+",
    "k8s://…",
    client_alone="",
    key="namespace",
    setting="spark.kubernetes.namespace",
    obtains_tokens=True,
    in_pods=True,
)
KINDS = LOCAL, STANDALONE, YARN, KUBERNETES
EXAMPLES = ", ".join(kind.example for kind in KINDS)


def master_kind(master: str) -> MasterKind | None:
    """Return the kind of a master. None if Spark has none that is written so."""
    return next((kind for kind in KINDS if re.fullmatch(kind.pattern, master)), None)
