"""What is asked of a cluster, and what a survey of some partitions contains."""

from types import SimpleNamespace

from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.protocol.broker_version_data import BrokerVersionData

from tidegate.broker import cluster
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks


class Admin:
    """An admin client that notes what it is asked; no record is later than 1 s."""

    def __init__(self, **_):
        self.asked = {}
        self._manager = SimpleNamespace(broker_version_data=BrokerVersionData((4, 0)))

    def list_partition_offsets(self, asked):
        self.asked |= asked
        late = {tp: since != OffsetSpec.EARLIEST and since > 1000 for tp, since in asked.items()}
        return {tp: SimpleNamespace(offset=-1 if late[tp] else 7) for tp in asked}

    def close(self):
        pass


def test_each_partition_has_a_timestamp_of_its_own(monkeypatch):
    """Negative ones mean the log start: Kafka's protocol has other meanings for them."""
    monkeypatch.setattr(cluster, "KafkaAdminClient", Admin)
    with Cluster(KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})) as asked:
        offsets = asked.offsets_since({"a": {0: -1, 2: 1000}, "b": {0: 1001}})
        assert offsets == {"a": {0: 7, 2: 7}, "b": {0: None}}
        assert asked.admin.asked == {
            TopicPartition("a", 0): OffsetSpec.EARLIEST,
            TopicPartition("a", 2): 1000,
            TopicPartition("b", 0): 1001,
        }
        assert asked.offsets_at({"a": [0, 1]}, 2000) == {"a": {0: None, 1: None}}


def test_a_survey_of_some_partitions():
    """Nothing of the others is left; boundaries need the survey of all."""
    marks = Watermarks(0, 5, 5)
    seen = Survey(
        "cluster",
        {
            "a": TopicIdentity("id-a", {0: 1, 1: 1, 2: 1, 3: 1}, frozenset({2, 3})),
            "b": TopicIdentity("id-b", {0: 1}),
        },
        {"a": {0: marks, 1: marks}, "b": {0: marks}},
        {"a": {0: 3, 1: 4}},
    )
    some = seen.only({"a": (1, 2)})
    assert some.watermarks == {"a": {1: marks}, "b": {}}
    assert some.leaderless == {"a": [2]}
    assert some.too_late == {"a": {1: 4}}
    assert some.topic_ids == seen.topic_ids
    assert seen.only(None) is seen
