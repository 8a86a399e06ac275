"""Surveys of target topics on a real broker."""

import uuid

import pytest

from support import topic_records
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.target import survey_target
from tidegate.errors import UnknownTopic
from tidegate_local.kafka import Broker


def test_topics_that_must_be_created(broker: Broker) -> None:
    """Missing topics are surveyed as they would be created, and created only with `make`."""
    kafka = KafkaCluster("k", {"bootstrap.servers": broker.bootstrap})
    there, later = (f"target-{uuid.uuid4().hex[:8]}" for _ in range(2))
    topic_records.numbers(broker.bootstrap, there, 4, partitions=2)
    seen = survey_target(kafka, [there, later], create_with=3, make=False)
    assert seen.topics[there].topic_id
    assert (seen.topics[there].ends, seen.topics[later].ends) == ({0: 2, 1: 2}, {0: 0, 1: 0, 2: 0})
    assert seen.topics[later].topic_id == ""
    assert survey_target(kafka, [later], create_with=1, make=False).topics[later].partitions == 1
    with pytest.raises(UnknownTopic, match=f"has no topic {later}"):
        survey_target(kafka, [there, later], create_with=None)
    with pytest.raises(UnknownTopic, match=f"; did you mean '{there}'"):
        survey_target(kafka, [f"{there}s"], create_with=None)
    made = survey_target(kafka, [later], create_with=3).topics[later]
    assert (made.partitions, made.topic_id != "") == (3, True)
