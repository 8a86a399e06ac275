"""Target topics that are not what they were, noticed while rows are sent to them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidegate.broker import target_watch
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.target_watch import TargetWatch
from tidegate.core.cluster_answers import TopicIdentity
from tidegate.errors import BrokerError

KAFKA = KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})
IDS = {"a": "id-a", "b": "id-b"}


class Answers:
    """A cluster that gives one answer after the other, the last for ever; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    @contextmanager
    def connect(self, _: Any) -> Iterator["Answers"]:
        yield self

    def identities(self, _: Any) -> dict[str, TopicIdentity]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {topic: TopicIdentity(topic_id, {}) for topic, topic_id in answer.items()}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], int, Answers]]:
    """Watch until something is noticed, or so many answers were given."""
    monkeypatch.setattr(target_watch, "LOOKS_APART", 0.001)

    def watch(*answers: Any, most: int = 20) -> tuple[list[str], int, Answers]:
        cluster, stops = Answers(*answers), [0]
        monkeypatch.setattr(target_watch, "Cluster", cluster.connect)

        def stop() -> None:
            stops[0] += 1

        with TargetWatch(KAFKA, IDS, stop) as running:
            give_up = time.monotonic() + 20
            while not stops[0] and cluster.asked < most and time.monotonic() < give_up:
                time.sleep(0.001)
        return running.changed, stops[0], cluster

    return watch


def test_topics_that_stay(watched: Any) -> None:
    assert watched(IDS)[:2] == ([], 0)


def test_a_topic_that_was_made_anew(watched: Any) -> None:
    """At the first look."""
    changed, stops, cluster = watched(IDS, IDS, {**IDS, "b": "new"})
    assert (changed, stops, cluster.asked) == (["b"], 1, 3)


def test_a_topic_that_is_missing(watched: Any) -> None:
    """At the second look: a broker that has just started may not know it yet."""
    assert watched({"a": "id-a"}, IDS)[:2] == ([], 0)
    changed, stops, cluster = watched({"a": "id-a"}, {"a": "id-a"}, IDS)
    assert (changed, stops, cluster.asked) == (["b"], 1, 2)


def test_a_broker_that_does_not_answer_proves_nothing(watched: Any) -> None:
    assert watched(BrokerError("away"), IDS, BrokerError("away"))[:2] == ([], 0)
    assert watched(BrokerError("away"), {**IDS, "a": "new"})[0] == ["a"]
