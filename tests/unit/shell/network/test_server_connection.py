"""Frames in, responses out in order, and every bound of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.shell.network.bounds import ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.connection_group import EARLY_BYTES, RECEIVE_BUFFER_BYTES
from moldau.shell.network.flow_control import HELD_BYTES
from moldau.shell.network.long_frame import FIRST_FRAME_BYTES
from moldau.shell.network.server_connection import CARRY_BYTES
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.node import fetch, long_poll, produce

pytestmark = pytest.mark.asyncio

T = TypeVar("T")


class GatedWorkers:
    """Workers whose work waits until the test releases it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, work: Callable[[], T]) -> T:
        await self.gate.wait()
        return work()

    async def drain(self) -> None:
        """Nothing to do: no caller of a test is cancelled."""

    def close(self) -> None:
        """Nothing to close: no work runs outside of the loop."""


async def test_a_frame_may_be_cut_at_any_byte(node: Any) -> None:
    await node.create_topic("t")
    whole = node.connect()
    frames = whole.request(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    frames += whole.request(ApiKey.PRODUCE, 8, produce(b"v" * 300))
    frames += whole.request(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("kcat", "1.0"))
    for cut in range(1, len(frames)):
        client = node.connect()
        client._asked = list(whole._asked)
        client.feed(frames[:cut])
        client.feed(frames[cut:])
        answers = client.answers()
        assert [type(answer).__name__ for answer in answers] == [
            "MetadataResponse",
            "ProduceResponse",
            "ApiVersionsResponse",
        ]
        assert answers[1].responses[0].partition_responses[0].error_code == 0


async def test_large_frames_arrive_in_pieces_of_any_size(node: Any, client: Any) -> None:
    await node.create_topic("t")
    values = [bytes([65 + index]) * size for index, size in enumerate((10, 20_000, 300_000, 1_000_000, 5, 70_000))]
    data = b"".join(client.request(ApiKey.PRODUCE, 9, produce(value)) for value in values)

    @settings(max_examples=15)
    @given(st.lists(st.integers(1, 200_000), max_size=40))
    def feed(sizes: list[int]) -> None:
        sizes = [*sizes, 50_000]  # pieces of one byte, but not a million of them
        other = node.connect()
        other._asked = list(client._asked)
        position, index = 0, 0
        while position < len(data):
            size = sizes[index % len(sizes)]
            other.feed(data[position : position + size])
            position += size
            index += 1
        codes = [answer.responses[0].partition_responses[0].error_code for answer in other.answers()]
        assert codes == [0] * len(values)
        assert other.connection.group.request_memory.used_bytes == 0

    feed()


async def test_requests_of_one_read_are_answered_with_one_write(client: Any) -> None:
    client.feed(b"".join(client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()) for _ in range(20)))
    assert client.wire.writes == 1
    assert len(client.answers()) == 20


async def test_announcing_a_size_costs_nothing(node: Any) -> None:
    clients = [node.connect() for _ in range(100)]
    for client in clients:
        client.feed((100 << 20).to_bytes(4, "big") + b"\x00\x00\x00\x08\x00\x00\x00\x01\xff\xff")
    group = clients[0].connection.group
    assert group.request_memory.used_bytes == 0
    assert all(len(client.connection._carry) == 14 for client in clients)


async def test_a_frame_grows_only_as_bytes_arrive(client: Any) -> None:
    client.feed((100 << 20).to_bytes(4, "big") + bytes(CARRY_BYTES))
    group = client.connection.group
    arrived = 4 + CARRY_BYTES
    for _ in range(50):
        assert group.request_memory.used_bytes <= max(FIRST_FRAME_BYTES, 4 * arrived)
        client.feed(bytes(20_000))
        arrived += 20_000


async def test_an_incomplete_frame_has_30_seconds_for_64_kib_more(node: Any) -> None:
    client, other = node.connect(), node.connect()
    group = client.connection.group
    now_ms = int(group.loop.time() * 1000)
    client.feed((10 << 20).to_bytes(4, "big") + bytes(100))
    client.connection.sweep(now_ms)
    for second in range(1, 29):
        client.feed(b"\x00")  # one byte now and then is not progress
        client.connection.sweep(now_ms + second * 1000)
        other.connection.sweep(now_ms + second * 1000)
    assert not client.wire.is_closed
    client.connection.sweep(now_ms + 30_500)
    other.connection.sweep(now_ms + 30_500)
    assert client.wire.is_closed
    assert not other.wire.is_closed
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.frame.timeout.ms") == 1


async def test_an_incomplete_frame_that_progresses_lives(client: Any) -> None:
    now_ms = int(client.connection.group.loop.time() * 1000)
    client.feed((100 << 20).to_bytes(4, "big") + bytes(100))
    for step in range(1, 20):
        client.feed(bytes(64 << 10))
        client.connection.sweep(now_ms + step * 29_000)
    assert not client.wire.is_closed


async def test_an_idle_connection_is_closed_and_a_parked_request_is_not_idle(start_node: Any) -> None:
    node = await start_node({"connections.max.idle.ms": "10000"})
    await node.create_topic("t")
    idle, parked = node.connect(), node.connect()
    parked.send(ApiKey.FETCH, 12, long_poll(0))
    now_ms = int(idle.connection.group.loop.time() * 1000)
    for client in (idle, parked):
        client.connection.sweep(now_ms)
        client.connection.sweep(now_ms + 20_000)
    assert idle.wire.is_closed
    assert not parked.wire.is_closed


async def test_responses_leave_in_the_order_of_the_requests(node: Any) -> None:
    await node.create_topic("t")
    client, producer = node.connect(), node.connect()
    client.send(ApiKey.FETCH, 12, long_poll(0))
    client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    client.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    await node.turns(1)
    assert client.answers() == []
    producer.send(ApiKey.PRODUCE, 9, produce(b"x"))
    await node.turns(2)
    names = [type(answer).__name__ for answer in client.answers()]
    assert names == ["FetchResponse", "ApiVersionsResponse", "MetadataResponse"]


async def test_too_many_owed_responses_hold_the_next_request(start_node: Any) -> None:
    workers = GatedWorkers()
    node = await start_node({"moldau.connection.pending.responses": "4"}, workers=workers)
    await node.create_topic("t", flush_messages="1")
    client = node.connect()
    workers.gate.clear()
    client.feed(b"".join(client.request(ApiKey.PRODUCE, 9, produce(b"x")) for _ in range(10)))
    assert len(client.connection._responses) == 4
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.connection.pending.responses") == 1
    workers.gate.set()
    await node.turns(50)
    assert len(client.answers()) == 10
    assert client.connection.group.request_memory.used_bytes == 0


async def test_only_produce_requests_begin_while_produce_requests_wait_for_a_flush(start_node: Any) -> None:
    workers = GatedWorkers()
    node = await start_node(workers=workers)
    await node.create_topic("t", flush_messages="1")
    log = node.node.broker.partitions.find("t", 0).log
    client = node.connect()
    workers.gate.clear()
    write = [client.request(ApiKey.PRODUCE, 9, produce(b"x")) for _ in range(2)]
    ask = client.request(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    client.feed(b"".join((*write, ask, client.request(ApiKey.PRODUCE, 9, produce(b"x")))))
    await node.turns(20)
    assert log.log_end_offset == 2
    assert node.node.dispatcher.request_counts()["METADATA"] == 0
    assert client.answers() == []
    workers.gate.set()
    await node.turns(20)
    assert [type(answer).__name__ for answer in client.answers()] == [
        "ProduceResponse",
        "ProduceResponse",
        "MetadataResponse",
        "ProduceResponse",
    ]
    assert log.log_end_offset == 3


@pytest.mark.parametrize(("size", "requests"), [(10, 1_000), (40_000, 5)])
async def test_what_comes_while_a_request_waits_is_read_up_to_a_bound(node: Any, size: int, requests: int) -> None:
    """The end of the client is seen, and a client that sends on and on holds little memory."""
    for name in ("t", "u"):
        await node.create_topic(name)
    client, producer = node.connect(), node.connect()
    client.send(ApiKey.FETCH, 12, long_poll(0))
    write = client.request(ApiKey.PRODUCE, 9, produce(b"x" * size, topic="u"))
    client.feed(write)
    assert not client.wire.is_read_paused
    memory = client.connection.group.request_memory
    assert memory.used_bytes == len(write)
    rest = b"".join(client.request(ApiKey.PRODUCE, 9, produce(b"x" * size, topic="u")) for _ in range(requests))
    count = client.feed(rest[: 2 * HELD_BYTES])
    assert client.wire.is_read_paused
    assert memory.used_bytes == HELD_BYTES == len(write) + count
    producer.send(ApiKey.PRODUCE, 9, produce(b"x"))
    await node.turns(5)
    assert not client.wire.is_read_paused
    client.feed(rest[count:])
    await node.turns(5)
    answers = client.answers()
    assert [type(answer).__name__ for answer in answers] == ["FetchResponse", *["ProduceResponse"] * (requests + 1)]
    assert [answer.responses[0].partition_responses[0].base_offset for answer in answers[1:]] == list(
        range(requests + 1)
    )
    assert memory.used_bytes == 0


async def test_a_long_frame_that_waits_is_read_no_further(node: Any) -> None:
    await node.create_topic("t")
    client, producer = node.connect(), node.connect()
    client.send(ApiKey.FETCH, 12, long_poll(0))
    write = client.request(ApiKey.PRODUCE, 9, produce(b"x" * (2 * HELD_BYTES), topic="absent"))
    for position in range(0, len(write), 20_000):
        client.feed(write[position : position + 20_000])
    assert client.wire.is_read_paused
    producer.send(ApiKey.PRODUCE, 9, produce(b"x"))
    await node.turns(5)
    assert not client.wire.is_read_paused
    assert [type(answer).__name__ for answer in client.answers()] == ["FetchResponse", "ProduceResponse"]
    assert client.connection.group.request_memory.used_bytes == 0


async def test_a_member_that_is_gone_waits_for_nobody(start_node: Any) -> None:
    node = await start_node({"group.initial.rebalance.delay.ms": "0"})
    first, second, third = (node.connect() for _ in range(3))
    await first.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", b""),),
    )
    await first.ask(ApiKey.JOIN_GROUP, 3, join)
    for client in (second, third):
        client.send(ApiKey.JOIN_GROUP, 3, join)
    await node.turns(5)
    tasks = node.node.dispatcher._tasks
    assert len(tasks._tasks) == 2
    second.wire.close()
    await node.turns(3)
    assert len(tasks._tasks) == 1
    assert third.answers() == []
    # one whose client leaves in the very turn in which it came
    fourth = node.connect()
    fourth.send(ApiKey.JOIN_GROUP, 3, join)
    fourth.connection.connection_lost(None)
    await node.turns(3)
    assert len(tasks._tasks) == 1


async def test_a_peer_that_does_not_read_is_not_served_further(node: Any) -> None:
    await node.create_topic("t")
    client, other = node.connect(), node.connect()
    for _ in range(4):
        other.send(ApiKey.PRODUCE, 9, produce(b"x" * 500_000))
    assert len(other.answers()) == 4
    client.wire.is_stuck = True
    fetches = [client.request(ApiKey.FETCH, 12, fetch(0)) for _ in range(30)]
    client.feed(b"".join(fetches))
    assert node.node.dispatcher.request_counts()["FETCH"] < 4
    assert client.wire.unsent < 3 << 20
    assert client.connection.group.response_memory.unsent_bytes == client.wire.unsent
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.connection.high.water.bytes") == 1
    other.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert len(other.answers()) == 1
    client.wire.drain()
    await node.turns(10)
    assert len(client.answers()) == 30
    assert client.connection.group.response_memory.unsent_bytes == 0


async def test_a_parked_fetch_of_a_stuck_peer_reads_nothing_until_it_drains(node: Any) -> None:
    await node.create_topic("t")
    client, producer = node.connect(), node.connect()
    client.send(ApiKey.FETCH, 12, long_poll(0))
    client.wire.is_stuck = True
    client.wire.unsent = 2 << 20
    client.connection.pause_writing()
    producer.send(ApiKey.PRODUCE, 9, produce(b"x"))
    await node.turns(1)
    assert client.answers() == []
    client.wire.drain()
    assert len(client.answers()) == 1


async def test_requests_in_memory_are_bounded_over_all_connections(node: Any) -> None:
    first, second = node.connect(), node.connect()
    group = first.connection.group
    group.request_memory.limit_bytes = 1 << 20
    head = (8 << 20).to_bytes(4, "big")
    first.feed(head + bytes(200_000))
    second.feed(head + bytes(60_000))
    while not second.wire.is_read_paused:
        second.feed(bytes(10_000))
    assert group.request_memory.used_bytes <= (1 << 20) + RECEIVE_BUFFER_BYTES
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.request.memory.bytes") == 1
    first.wire.close()
    await node.turns(2)
    assert not second.wire.is_read_paused


async def test_a_frame_that_alone_holds_request_memory_grows_beyond_its_bound(node: Any, client: Any) -> None:
    """Before, it waited for the memory that it held itself, until the time limit of incomplete frames."""
    client.connection.group.request_memory.limit_bytes = 1 << 20
    protocol = JoinGroupRequestProtocol("range", bytes(2 << 20))
    join = JoinGroupRequest("group", 10_000, 10_000, "", None, "consumer", (protocol,))
    request = client.request(ApiKey.JOIN_GROUP, 5, join)
    for start in range(0, len(request), 100_000):
        client.feed(request[start : start + 100_000])
        assert not client.wire.is_read_paused
    await node.turns(100)
    assert len(client.answers()) == 1
    assert client.connection.group.request_memory.used_bytes == 0


async def test_connections_that_come_before_the_node_is_ready_wait(node: Any) -> None:
    group = node.connect().connection.group
    dispatcher, group.dispatcher = group.dispatcher, None
    early = node.connect()
    early.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert early.wire.is_read_paused
    assert early.answers() == []
    group.open(dispatcher)
    await node.turns(1)
    assert not early.wire.is_read_paused
    assert len(early.answers()) == 1
    early.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert len(early.answers()) == 1


async def test_early_connections_together_may_send_little(node: Any) -> None:
    group = node.connect().connection.group
    group.dispatcher, group.receive_buffer = None, bytearray(EARLY_BYTES)
    for _ in range(100):
        client = node.connect()
        assert client.feed(bytes(1 << 20)) == EARLY_BYTES
    assert group.request_memory.used_bytes == 100 * EARLY_BYTES


async def test_what_was_answered_before_a_bad_frame_still_leaves(client: Any) -> None:
    good = client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    client.feed(good + b"\x00\x00\x00\x01\x00")
    assert len(client.answers()) == 1
    assert client.wire.is_closed


async def test_a_lost_connection_leaves_nothing_behind(node: Any) -> None:
    await node.create_topic("t")
    broker = node.node.broker
    client = node.connect()
    client.send(ApiKey.FETCH, 12, long_poll(0))
    client.feed((1 << 20).to_bytes(4, "big") + bytes(100_000))
    assert broker.fetches.parked == 1
    client.wire.close()
    await node.turns(1)
    assert broker.fetches.parked == 0
    assert broker.waits.by_number == {}
    assert client.connection.group.request_memory.used_bytes == 0
    assert client.connection.group.connections == {}


async def test_request_memory_lets_the_first_taker_through_and_wakes_in_order() -> None:
    memory = RequestMemory(100)
    woken: list[int] = []
    assert memory.try_take(500)
    assert not memory.try_take(1)
    memory.wait(1, lambda: woken.append(1))
    memory.wait(2, lambda: woken.append(2))
    memory.forget(3)
    memory.give_back(500)
    assert woken == [1, 2]
    assert memory.used_bytes == 0


async def test_fetches_get_smaller_as_unread_responses_grow() -> None:
    memory = ResponseMemory(128 << 20)
    assert memory.fetch_allowance_bytes() == 32 << 20
    memory.unsent_bytes = 64 << 20
    assert memory.fetch_allowance_bytes() == 16 << 20
    memory.unsent_bytes = 127 << 20
    assert memory.fetch_allowance_bytes() == 1 << 20
    memory.unsent_bytes = 1 << 30
    assert memory.fetch_allowance_bytes() == 64 << 10


async def test_an_answer_counts_whole_until_its_last_byte_is_sent(node: Any, client: Any) -> None:
    """Even below the high-water mark: the transport keeps all of it while it sends the rest."""
    await node.create_topic("t")
    await client.ask(ApiKey.PRODUCE, 9, produce(b"x" * 600_000))
    client.wire.is_stuck = True
    client.send(ApiKey.FETCH, 12, fetch(0))
    connection, memory = client.connection, client.connection.group.response_memory
    assert not connection.is_write_paused
    assert memory.unsent_bytes == client.wire.unsent > 600_000
    client.wire.unsent = 10
    connection.count_unsent()
    assert memory.unsent_bytes > 600_000
    client.wire.unsent = 0
    memory.limit_bytes = 1 << 20
    assert memory.fetch_allowance_bytes() == 1 << 20
    assert memory.unsent_bytes == 0


async def test_answers_that_were_blocked_are_bounded_in_bytes(start_node: Any) -> None:
    """After a Produce request that waits for its flush: ready responses wait for their turn, up to a size."""
    workers = GatedWorkers()
    node = await start_node({"moldau.connection.pending.response.bytes": "200"}, workers=workers)
    await node.create_topic("t", flush_messages="1")
    client = node.connect()
    workers.gate.clear()
    waiting = client.request(ApiKey.PRODUCE, 9, produce(b"x"))
    ready = [client.request(ApiKey.PRODUCE, 9, produce(b"x", topic="absent")) for _ in range(10)]
    client.feed(waiting + b"".join(ready))
    count = len(client.connection._responses) - 1
    assert 200 // 60 <= count < 10
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.connection.pending.responses") == 1
    workers.gate.set()
    await node.turns(20)
    assert len(client.answers()) == 11


async def test_where_memory_is_short_a_peer_takes_one_answer_before_it_gets_the_next(node: Any, client: Any) -> None:
    await node.create_topic("t")
    client.connection.group.response_memory.limit_bytes = 1 << 20
    await client.ask(ApiKey.PRODUCE, 9, produce(b"x" * 600_000))
    client.wire.is_stuck = True
    client.feed(b"".join(client.request(ApiKey.FETCH, 12, fetch(0)) for _ in range(3)))
    assert client.wire.unsent < 700_000
    client.wire.drain()
    await node.turns(10)
    assert client.wire.high_water == 1 << 20
    assert len(client.answers()) == 3


async def test_the_default_limits_are_the_promised_ones() -> None:
    limits = ConnectionLimits()
    assert limits.frame_timeout_ms == 30_000
    assert limits.frame_progress_bytes == 64 << 10
    assert limits.max_pending_responses == 64
    assert limits.max_pending_response_bytes == 8 << 20
    assert limits.write_high_water_bytes == 1 << 20


async def test_consumers_that_never_read_cannot_fill_the_memory(start_node: Any) -> None:
    node = await start_node({"moldau.response.memory.bytes": str(8 << 20)})
    await node.create_topic("t")
    producer = node.connect()
    for _ in range(16):
        producer.send(ApiKey.PRODUCE, 9, produce(b"x" * 1_000_000))
    assert len(producer.answers()) == 16
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=55 << 20)
    greedy = FetchRequest(max_bytes=55 << 20, topics=(FetchTopic(topic="t", partitions=(partition,)),))
    clients = [node.connect() for _ in range(40)]
    for client in clients:
        client.wire.is_stuck = True
        client.feed(b"".join(client.request(ApiKey.FETCH, 12, greedy) for _ in range(5)))
    await node.turns(200)
    unsent = sum(client.wire.unsent for client in clients)
    assert unsent < (8 << 20) + len(clients) * (2 << 20) + (1 << 20)
    more = clients[0].request(ApiKey.FETCH, 12, greedy) * 1_000
    for client in clients:
        client.feed(more)
    assert all(client.wire.is_read_paused for client in clients)
    other = node.connect()
    assert len((await other.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))).topics) == 1


async def test_consumers_that_never_read_hold_little_more_than_the_response_memory(start_node: Any) -> None:
    limit_bytes, count = 8 << 20, 150
    node = await start_node({"moldau.response.memory.bytes": str(limit_bytes)})
    await node.create_topic("t")
    producer = node.connect()
    for _ in range(100):
        producer.send(ApiKey.PRODUCE, 9, produce(b"x" * 16_000))
    assert len(producer.answers()) == 100
    clients = [node.connect() for _ in range(count)]
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=55 << 20)
    greedy = FetchRequest(max_bytes=55 << 20, topics=(FetchTopic(topic="t", partitions=(partition,)),))
    for client in clients:
        client.wire.is_stuck = True
        client.feed(b"".join(client.request(ApiKey.FETCH, 12, greedy) for _ in range(5)))
        await node.turns(5)
    unsent_bytes = sum(client.wire.unsent for client in clients)
    assert limit_bytes < unsent_bytes < limit_bytes + (1 << 20) + count * (130 << 10)


@pytest.mark.asyncio
async def test_who_was_accepted_as_the_node_ended_is_not_kept_waiting(node: Any) -> None:
    node.node.connections.close()
    late = node.connect()
    assert late.wire.is_closed
    await node.turns(2)
    assert node.node.connections.connections == {}
