"""Target topics that are deleted or recreated while rows are sent to them.

With `auto.create.topics.enable`, Kafka's default, the producer itself makes a deleted topic anew:
Java's producer always asks for that. What it sends from then on is in another topic.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Self

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster

LOOKS_APART = 5.0  # seconds between looks


class TargetWatch:
    """Looks at the ids of topics while a block runs, and calls `stop` once if one has changed.

    A topic that is missing counts at the second look: a broker that has just started may not know
    it yet. What cannot be asked is asked again. The check after the block decides.
    """

    def __init__(
        self, kafka: KafkaSettings, topic_ids: Mapping[str, str], stop: Callable[[], object]
    ) -> None:
        self._kafka, self._topic_ids, self._stop = kafka, topic_ids, stop
        self._ended = threading.Event()
        self._missing: set[str] = set()
        self.changed: list[str] = []
        """The topics that are not those which were planned, once `stop` was called."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="tidegate-target-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOKS_APART):
            with contextlib.suppress(Exception), Cluster(self._kafka) as cluster:
                while not self._ended.is_set():
                    if changed := self._look(cluster):
                        self.changed = changed
                        self._stop()
                        return
                    self._ended.wait(LOOKS_APART)

    def _look(self, cluster: Cluster) -> list[str]:
        found = cluster.identities(self._topic_ids)
        missing = self._topic_ids.keys() - found.keys()
        others = {topic for topic, each in found.items() if each.topic_id != self._topic_ids[topic]}
        gone, self._missing = missing & self._missing, set(missing)
        return sorted(others | gone)
