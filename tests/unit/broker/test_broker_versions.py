"""Brokers of every version that kafka-python knows: which are refused, and that the others answer.

Its own admin client works on made-up answers, in the form of that version's protocol. Real brokers:
`tests/integration/test_old_brokers.py`.
"""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tidegate.broker import cluster, consumer_groups, target
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.doctor.check import Check, run_checks
from tidegate.doctor.pipeline_checks import check_broker
from tidegate.errors import BrokerTooOld

KAFKA = KafkaSettings("k", {"bootstrap.servers": "old:9092"})
ID = uuid.uuid4()
VERSIONS = [version for version in BROKER_API_VERSIONS if version >= (0, 10)]


class Broker(KafkaAdminClient):  # type: ignore[misc]
    """An admin client that is connected to a broker of a version, which has the topic t."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self.broker_version_data = BrokerVersionData(version)
        self.sent: list[Any] = []
        self.closed = False
        self._manager = self
        self._conns: dict[str, Any] = {}

    def run(self, ask: Callable[..., Any], *given: Any) -> Any:
        return asyncio.run(ask(*given))

    async def get_connection(self, _: int) -> Any:
        return self

    async def send(self, request: Any, **_: Any) -> Any:
        self.sent.append(request)
        version = self.broker_version_data.api_version(request)
        node = {"host": "h", "port": 9092, "rack": None}
        if not isinstance(request, MetadataRequest):
            brokers = DescribeClusterResponse.DescribeClusterBroker
            answer = DescribeClusterResponse(
                throttle_time_ms=0, error_code=0, error_message=None, endpoint_type=1,
                cluster_id="c", controller_id=1, brokers=[brokers(broker_id=1, **node)],
            )  # fmt: skip
        else:
            form = MetadataResponse.MetadataResponseTopic
            topic = form(error_code=0, name="t", topic_id=ID, is_internal=False, partitions=[])
            answer = MetadataResponse(
                throttle_time_ms=0, cluster_id="c", controller_id=1, error_code=0,
                brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, **node)],
                topics=[topic] if request.topics else [],
            )  # fmt: skip
        return type(answer).decode(answer.encode(version=version), version=version)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, ...]], Broker]:
    def to(version: tuple[int, ...]) -> Broker:
        broker = Broker(version)
        monkeypatch.setattr(cluster, "KafkaAdminClient", lambda **_: broker)
        return broker

    return to


def named(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@pytest.mark.parametrize("version", [v for v in VERSIONS if v < (2, 8)], ids=named)
@pytest.mark.parametrize(
    "ask",
    [
        lambda: cluster.survey(KAFKA, ["t"], "read_committed"),
        lambda: consumer_groups.read_group_offsets(KAFKA, "g"),
        lambda: target.survey_target(KAFKA, ["new"], create_with=1),
    ],
    ids=["ingest", "group", "egress"],
)
def test_an_older_broker_is_refused_by_name(
    connect: Any, version: tuple[int, ...], ask: Callable[[], Any]
) -> None:
    """When the connection is made: nothing is asked of it, and no topic is created."""
    broker = connect(version)
    spoken = BROKER_API_VERSIONS[version][MetadataRequest.API_KEY][1]
    with pytest.raises(BrokerTooOld) as refused:
        ask()
    assert str(refused.value) == (
        f"Kafka at old:9092 (k): the broker speaks Metadata up to version {spoken}, as Kafka "
        f"{named(version)} does; Tidegate needs version 10, as of Kafka 2.8: topic ids, by which "
        "it sees that a topic was deleted and made again"
    )
    assert refused.value.kind == "terminal"
    assert broker.sent == []
    assert broker.closed


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= (2, 8)], ids=named)
def test_a_later_broker_says_who_it_is(connect: Any, version: tuple[int, ...]) -> None:
    """kafka-python's describe_cluster fails on the answer of brokers before 3.7, by a KeyError."""
    connect(version)
    with Cluster(KAFKA) as connected:
        assert connected.id() == "c"
        assert connected.version() == named(version)
        assert connected.brokers() == [("h", 9092)]
        assert connected.identities(["t"])["t"].topic_id == str(ID)


def test_the_doctor_refuses_an_older_broker(connect: Any) -> None:
    connect((2, 7))
    (line,) = run_checks([Check("kafka", lambda: check_broker(KAFKA), "p")]).to_json()["checks"]
    assert (line["check"], line["state"]) == ("kafka", "failure")
    assert "as Kafka 2.7 does" in line["says"]
    assert "topic ids" in line["fix"]
