"""Before a node continues alone: which other brokers answer, and in which partitions they have more records."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec

from moldau.core.controller.survivor import Survivor
from moldau.core.metadata.image import BrokerImage, BrokerListener
from moldau.shell.node.live_brokers import PATIENCE_MS, LiveBroker, find_live_brokers
from moldau.shell.node.recover import Remains
from moldau.shell.node.storage_format import MetaProperties
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.trace import Trace
from moldau.types import ZERO_UUID, BrokerId, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataResponse
from moldau.wire.protocol.messages.partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tests.support.answering_node import AnsweringNode

PORT = 9092
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
ME = BrokerId(1)
KNOWN = tuple(TopicPartition("orders", index) for index in range(6))


class OtherBroker(AnsweringNode):
    """Answers with these pages in turn, and then with the first one again."""

    def __init__(self, *pages: DescribeTopicPartitionsResponse, cluster_id: str = CLUSTER) -> None:
        super().__init__()
        self._pages = pages
        self._cluster_id = cluster_id

    def answer(self, api_key: int, version: int) -> msgspec.Struct | None:
        if api_key == ApiKey.API_VERSIONS:
            rows = (ApiVersion(ApiKey.METADATA, 0, 12), ApiVersion(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0))
            return ApiVersionsResponse(api_keys=rows)
        self.requests.append((ApiKey(api_key), version))
        if self.is_mute:
            return None
        if api_key == ApiKey.METADATA:
            return MetadataResponse(cluster_id=self._cluster_id)
        asked = sum(key == ApiKey.DESCRIBE_TOPIC_PARTITIONS for key, _ in self.requests)
        return self._pages[(asked - 1) % len(self._pages)]


def partition(
    index: int, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...] = ()
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index, replica_nodes=replicas, isr_nodes=isr, eligible_leader_replicas=elr
    )


def page(
    *partitions: DescribeTopicPartitionsResponsePartition, topic: str = "orders", next_topic: str | None = None
) -> DescribeTopicPartitionsResponse:
    cursor = None if next_topic is None else DescribeTopicPartitionsCursor(next_topic, 0)
    topics = (DescribeTopicPartitionsResponseTopic(name=topic, partitions=partitions),)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def remains(*others: BrokerImage) -> Remains:
    properties = MetaProperties(ME, CLUSTER, ZERO_UUID)
    return Remains(properties, (), Survivor((), KNOWN[:3], KNOWN[3:5], KNOWN[5:]), -1, others)


def registered(broker_id: int, *listeners: BrokerListener) -> BrokerImage:
    return BrokerImage(BrokerId(broker_id), 0, ZERO_UUID, listeners or (listener(broker_id),))


def listener(broker_id: int, security_protocol: int = 0) -> BrokerListener:
    return BrokerListener("ANY", f"host-{broker_id}", PORT, security_protocol)


def run(asked: Remains, **brokers: OtherBroker) -> tuple[list[LiveBroker], float]:
    """The findings if these listen, by host names, and the seconds that it takes."""
    loop = VirtualLoop()
    network = SimulatedNetwork(loop, 1, Trace(loop.time))

    async def story() -> tuple[list[LiveBroker], float]:
        for name, broker in brokers.items():
            host = name.replace("_", "-")
            listening: Coroutine[Any, Any, Any] = network.listen(host, PORT, broker.accept)
            await loop.run_in_process(SimulatedProcess(host), listening)
        began_s = loop.time()
        return await find_live_brokers(asked, HostNetwork(network, "me")), loop.time() - began_s

    try:
        return loop.run_until_complete(story())
    finally:
        loop.close()


def test_partitions_that_only_the_broker_has_completely_are_named() -> None:
    first = page(
        partition(0, (1, 2), isr=(1, 2)),
        partition(1, (1, 2), isr=(2,)),
        partition(2, (1, 2), isr=(), elr=(2,)),
        partition(3, (1, 2), isr=(), elr=(1, 2)),
        partition(4, (1, 2), isr=(1,)),
        partition(5, (2, 3), isr=(2, 3)),
        next_topic="payments",
    )
    unheard_of = page(partition(0, (2, 3), isr=(2,)), topic="payments")
    found, _ = run(remains(registered(2)), host_2=OtherBroker(first, unheard_of))
    ahead = (TopicPartition("orders", 1), TopicPartition("orders", 2), TopicPartition("payments", 0))
    assert found == [LiveBroker(2, listener(2), ahead)]


def test_brokers_that_do_not_answer_are_waited_for_at_the_same_time_and_not_for_long() -> None:
    mute = OtherBroker(), OtherBroker()
    for broker in mute:
        broker.is_mute = True
    asked = remains(*map(registered, (2, 3, 4, 5)))
    found, took_s = run(asked, host_2=mute[0], host_3=mute[1], host_4=OtherBroker(page()))
    assert ([each.broker_id for each in found], took_s <= PATIENCE_MS / 1_000) == ([4], True)


def test_a_broker_of_another_cluster_at_an_old_address_is_none_of_this_one() -> None:
    other = OtherBroker(page(partition(1, (1, 2), isr=(2,))), cluster_id="another")
    assert run(remains(registered(2)), host_2=other)[0] == []


def test_it_is_asked_where_no_credentials_are_needed() -> None:
    both = registered(2, listener(3, security_protocol=1), listener(2))
    only_tls = registered(4, listener(4, security_protocol=3))
    brokers = {f"host_{number}": OtherBroker(page()) for number in (2, 3, 4)}
    found, _ = run(remains(both, only_tls), **brokers)
    assert found == [LiveBroker(2, listener(2), ())]
    assert [bool(broker.connections) for broker in brokers.values()] == [True, False, False]


def test_a_broker_whose_pages_never_end_is_left() -> None:
    endless = DescribeTopicPartitionsResponse(next_cursor=DescribeTopicPartitionsCursor("orders", 0))
    assert run(remains(registered(2)), host_2=OtherBroker(endless))[0] == [LiveBroker(2, listener(2), ())]
