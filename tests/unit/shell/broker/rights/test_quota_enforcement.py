"""Quotas from the alteration to the wait: the throttle times in responses, and the begin of the next request."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.wire.protocol.messages.transactions import WriteTxnMarkersRequest
from tests.support.node import produce

METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=()))


async def set_quota(
    node: Any, key: str, value: float | None, entity: str = "client-id", name: str | None = "test"
) -> None:
    operation = AlterQuotaOperation(key, 0.0, True) if value is None else AlterQuotaOperation(key, value)
    entry = AlterQuotaEntry((AlterQuotaEntity(entity, name),), (operation,))
    answer = await node.connect().ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest((entry,)))
    assert [row.error_code for row in answer.entries] == [0]


def fetch(**values: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = (FetchTopic(topic="topic", partitions=(partition,)),)
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, topics=topics, **values)


def time_passes(client: Any) -> int:
    """The wait of a connection ends at once; gives its seconds."""
    timer = client.connection._muted
    assert timer is not None
    timer.cancel()
    client.connection._unmute()
    return round(timer.when() - client.connection.group.loop.time())


@pytest.mark.asyncio
@pytest.mark.parametrize("acks", [0, 1])
async def test_a_producer_over_its_quota_is_answered_and_its_next_request_waits(node: Any, acks: int) -> None:
    await node.create_topic("topic")
    await set_quota(node, "producer_byte_rate", 1_000)
    client = node.connect()
    client.send(ApiKey.PRODUCE, 9, produce(bytes(20_000), topic="topic", acks=acks))
    if acks:
        throttle_ms = client.answers()[0].throttle_time_ms
        assert 10_000 < throttle_ms < 11_000
    client.send(*METADATA)
    await node.turns(20)
    assert client.answers() == []
    assert time_passes(client) == 10
    if not acks:
        client._asked[0] = client._asked[-1]
    assert await client.answer() is not None
    # another client is not affected
    other = node.connect()
    other.feed(other.request(ApiKey.PRODUCE, 9, produce(bytes(20_000), topic="topic", acks=1), "other"))
    assert other.answers()[0].throttle_time_ms == 0


@pytest.mark.asyncio
async def test_what_a_producer_over_its_quota_sent_before_its_end_is_written(node: Any) -> None:
    """With acks=0 no client sends it again."""
    await node.create_topic("topic")
    await set_quota(node, "producer_byte_rate", 1_000)
    client = node.connect()
    for _ in range(4):
        client.send(ApiKey.PRODUCE, 9, produce(bytes(11_000), topic="topic", acks=0))
    log = node.node.broker.partitions.find("topic", 0).log
    assert log.log_end_offset == 1
    assert client.connection._muted is not None
    assert client.connection.eof_received() is False
    assert log.log_end_offset == 4


@pytest.mark.asyncio
async def test_a_consumer_over_its_quota_gets_nothing_now_and_all_after_the_wait(node: Any) -> None:
    await node.create_topic("topic")
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(bytes(8_000), topic="topic", acks=1))
    await set_quota(node, "consumer_byte_rate", 1_000)
    client = node.connect()
    first = await client.ask(ApiKey.FETCH, 11, fetch(session_epoch=-1))
    assert first.throttle_time_ms == 0
    assert len(first.responses[0].partitions[0].records) > 8_000
    second = await client.ask(ApiKey.FETCH, 11, fetch(session_epoch=0))
    assert second.throttle_time_ms > 6_000
    assert second.responses == ()
    assert second.session_id == 0
    time_passes(client)
    node.clock.advance(11_000)
    third = await client.ask(ApiKey.FETCH, 11, fetch(session_epoch=0))
    assert third.throttle_time_ms == 0
    assert len(third.responses[0].partitions[0].records) > 8_000


@pytest.mark.asyncio
async def test_topic_changes_over_the_quota_are_rejected_from_the_version_with_that_code(node: Any) -> None:
    await set_quota(node, "controller_mutation_rate", 1)
    client = node.connect()

    async def create(name: str, partitions: int, version: int) -> tuple[int, int]:
        topic = CreatableTopic(name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=1_000)
        answer = await client.ask(ApiKey.CREATE_TOPICS, version, request)
        if answer.throttle_time_ms:
            time_passes(client)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert await create("one", 20, 7) == (0, 0)
    node.clock.set_now(node.clock.now_ms() - 3_600_000)  # by an operator
    assert await create("two", 1, 7) == (89, 9_000)
    assert await create("two", 5, 5) == (0, 14_000)
    request = DeleteTopicsRequest(topics=(DeleteTopicState("one"),), timeout_ms=1_000)
    deleted = await client.ask(ApiKey.DELETE_TOPICS, 6, request)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (89, 14_000)
    time_passes(client)
    node.clock.advance(14_000)
    assert await create("three", 1, 7) == (0, 0)


@pytest.mark.asyncio
async def test_the_time_of_requests_is_waited_for(node: Any) -> None:
    await set_quota(node, "request_percentage", 1)
    ticks = iter(range(0, 10**12, 150_000_000))
    node.node.dispatcher.quota_timer_ns = lambda: next(ticks)
    client = node.connect()
    assert (await client.ask(*METADATA)).throttle_time_ms == 0
    assert (await client.ask(*METADATA)).throttle_time_ms == 1_000  # 15 % of ten seconds at 1 %, a second at most


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "request_of_a_broker",
    [
        (ApiKey.FETCH, 12, fetch(replica_id=2)),
        (ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=())),
    ],
)
async def test_what_brokers_ask_for_is_charged_to_nobody_and_never_waits(node: Any, request_of_a_broker: Any) -> None:
    await node.create_topic("topic")
    await set_quota(node, "request_percentage", 1)
    step_ns = 150_000_000
    ticks = iter(range(0, 10**12, step_ns))
    node.node.dispatcher.quota_timer_ns = lambda: next(ticks)
    follower = node.connect()
    for _ in range(5):
        await follower.ask(*request_of_a_broker)
    client = node.connect()
    assert (await client.ask(*METADATA)).throttle_time_ms == 0
    assert (await client.ask(*METADATA)).throttle_time_ms == 1_000
    await follower.ask(*request_of_a_broker)
    assert follower.connection._muted is None


@pytest.mark.asyncio
async def test_without_a_quota_nothing_is_asked(node: Any) -> None:
    dispatcher = node.node.dispatcher
    assert dispatcher.quotas is None
    await set_quota(node, "producer_byte_rate", 1_000)
    assert dispatcher.quotas is not None
    await set_quota(node, "producer_byte_rate", None)
    assert dispatcher.quotas is None
    await set_quota(node, "connection_creation_rate", 5, "ip", None)
    assert dispatcher.quotas is None


@pytest.mark.asyncio
async def test_quotas_survive_a_restart(start_node: Any) -> None:
    node = await start_node()
    await set_quota(node, "producer_byte_rate", 1_000)
    await set_quota(node, "connection_creation_rate", 5, "ip", None)
    await node.node.stop()
    again = await start_node(disk=node.disk)
    answer = await again.connect().ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest())
    told = [(entry.entity[0].entity_type, entry.values[0].value) for entry in answer.entries]
    assert told == [("client-id", 1_000.0), ("ip", 5.0)]
    assert again.node.dispatcher.quotas is not None


@pytest.mark.asyncio
async def test_an_address_over_its_rate_is_closed(node: Any) -> None:
    await set_quota(node, "connection_creation_rate", 1, "ip", "10.0.0.7")
    clients = [node.connect() for _ in range(11)]
    clients[-1].send(*METADATA)
    assert clients[-1].answers() == []
    clients[0].send(*METADATA)
    assert len(clients[0].answers()) == 1


@pytest.mark.asyncio
async def test_connections_of_an_address_and_in_all_are_limited(start_node: Any) -> None:
    node = await start_node({"max.connections": "2", "max.connections.per.ip.overrides": "10.0.0.7:3"})
    first, second, waiting, refused = (node.connect() for _ in range(4))
    assert refused.wire.is_closed
    waiting.feed(waiting.request(*METADATA))
    assert waiting.answers() == []
    first.wire.close()
    await node.turns(5)
    assert len(waiting.answers()) == 1
    second.send(*METADATA)
    assert len(second.answers()) == 1
