"""A broker's memory is bounded with peers that announce, drip, pipeline or never read, and other clients notice
nothing. Covers section "Frame and header" of the table of bad input: its rows on frames that are only announced."""

from __future__ import annotations

import resource
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.errors import ERROR_CODES
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from moldau.wire.records.batch import is_crc_valid, read_header
from tests.support.watched_broker import StartBroker, fetch, fill
from tests.support.wire import Closed, RawConnection, request_bytes
from tests.support.wire_produce import batch, idempotent, produce

MIB = 1 << 20
INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
GROUP_MAX_SIZE_REACHED = ERROR_CODES["GROUP_MAX_SIZE_REACHED"]
FRAME_BYTES = 100 * MIB
SESSION_TIMEOUT_MS = 1_800_000
"""The longest that a broker accepts: these tests send no heartbeats, and a slow machine must not end members."""


@pytest.mark.slow
def test_200_consumers_that_never_read_cost_less_than_600_mb(start_broker: StartBroker) -> None:
    broker = start_broker()
    fill(broker.address, "large", 60)
    consumers = []
    for _ in range(200):
        connection = broker.connect()
        for _ in range(5):
            connection.start(fetch("large", 55 * MIB), 12)
        consumers.append(connection)
    for connection in consumers:
        # the first bytes of a response have arrived, and stay unread
        assert connection.socket.recv(1, socket.MSG_PEEK)
    assert broker.peak_bytes() < 600_000_000
    broker.connect().assert_alive()
    # a client that starts to read after all gets whole responses
    assert len(consumers[0].receive_frame()) >= 990_000


@pytest.mark.slow
def test_400_consumers_that_never_read_hold_the_memory_for_responses_and_64_kib_each(
    start_broker: StartBroker,
) -> None:
    """This holds for any batch size, and a client that reads gets its whole response."""
    limit_bytes, count, share_bytes = 16 * MIB, 400, 64 << 10
    broker = start_broker(f"moldau.response.memory.bytes={limit_bytes}")
    fill(broker.address, "large", 8)
    fill(broker.address, "small", 4, batch_bytes=10_000)
    for topic in ("large", "small"):
        assert broker.connect().ask(fetch(topic, 55 * MIB), 12).responses[0].partitions[0].records
    before = broker.peak_bytes()
    consumers = []
    for number in range(count):
        consumers.append(broker.connect(kernel_buffer_bytes=16 << 10))
        for correlation_id in (1, 2, 3):
            request = fetch("small" if number % 4 == 0 else "large", 55 * MIB)
            consumers[-1].start(request, 12, correlation_id=correlation_id)
    for consumer in consumers:
        # the response has started, and stays unread
        assert consumer.socket.recv(1, socket.MSG_PEEK)
    # for connections, requests and the allocator, in addition to the responses
    others_bytes = 24 * MIB
    assert broker.peak_bytes() - before < limit_bytes + count * share_bytes + others_bytes
    # another client that reads is served meanwhile, and so is a slow one when it reads after all: whole batches
    other = broker.connect()
    other.start(fetch("large", 55 * MIB), 12, correlation_id=1)
    for reader in (other, consumers[-1]):
        records = reader.finish(fetch("large", 55 * MIB), 12, 1).responses[0].partitions[0].records
        size = read_header(records).size
        assert size > 990_000
        assert is_crc_valid(records, 0, size)


@pytest.mark.slow
def test_announcing_large_frames_costs_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    before = broker.peak_bytes()
    hello = request_bytes(ApiVersionsRequest(), 0)
    for _ in range(40):
        connection = broker.connect()
        connection.send(struct.pack(">i", len(hello)) + hello + struct.pack(">i", FRAME_BYTES) + bytes(14))
        assert connection.receive_frame()
    assert broker.peak_bytes() - before < 8 * MIB


@pytest.mark.slow
def test_endless_large_frames_share_the_request_memory_until_their_deadline(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("moldau.request.memory.bytes=67108864", "moldau.frame.timeout.ms=1000")
    before = broker.peak_bytes()

    def send_a_part(_: int) -> bool:
        with RawConnection(broker.address) as connection:
            try:
                connection.send(struct.pack(">i", FRAME_BYTES) + bytes(30 * MIB))
                connection.assert_closed()
            except Closed:
                pass
            return True

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(send_a_part, range(16)))
    # one alone, on a slow machine, gets the memory for its whole frame; all together would need 480 MiB
    assert broker.peak_bytes() - before < FRAME_BYTES + 32 * MIB


@pytest.mark.slow
def test_a_frame_that_drips_is_ended_at_its_deadline(start_broker: StartBroker) -> None:
    broker = start_broker("moldau.frame.timeout.ms=500")
    connection = broker.connect()
    connection.socket.settimeout(0.02)

    def is_closed() -> bool:
        try:
            return connection.socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True

    connection.send(struct.pack(">i", FRAME_BYTES))
    for _ in range(5_000):
        if is_closed():
            return
        try:
            connection.send(b"\x00")
        except Closed:
            return
    pytest.fail("a frame that never ends is still awaited")


@pytest.mark.slow
def test_10000_idle_connections_are_kept_at_little_cost(start_broker: StartBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 24_000)), hard))
    broker = start_broker()
    before = broker.peak_bytes()
    for _ in range(10_000):
        # each waits for a response: the backlog of the listener (50, as Kafka's) never overflows
        assert broker.connect().ask(ApiVersionsRequest(), 0).error_code == 0
    assert broker.peak_bytes() - before < 200 * MIB
    for connection in broker.opened[::100]:
        connection.assert_alive()


def test_no_more_fetch_sessions_than_1000(start_broker: StartBroker) -> None:
    """Later clients are served without a session; existing sessions stay until they were idle for two minutes."""
    broker = start_broker()
    connection = broker.connect()
    row = FetchPartition(partition=0, partition_max_bytes=1)
    request = FetchRequest(session_epoch=0, topics=(FetchTopic(topic="canary", partitions=(row,)),))
    answers = [connection.ask(request, 12) for _ in range(1_200)]
    assert {answer.error_code for answer in answers} == {0}
    assert all(answer.session_id for answer in answers[:1_000])
    assert {answer.session_id for answer in answers[1_000:]} == {0}
    later = FetchRequest(session_id=answers[0].session_id, session_epoch=1)
    assert connection.ask(later, 12).error_code == 0


def test_a_partition_remembers_a_bounded_number_of_producers(start_broker: StartBroker) -> None:
    broker = start_broker("moldau.producer.ids=100")
    fill(broker.address, "many-producers", 1)
    connection = broker.connect()
    for producer_id in range(7_000_000, 7_001_000):
        assert produce(connection, "many-producers", idempotent(0, producer_id=producer_id))[0] == 0
    asked = (DescribeProducersTopic("many-producers", (0,)),)
    known = connection.ask(DescribeProducersRequest(asked), 0).topics[0].partitions[0].active_producers
    assert 1 <= len(known) <= 100
    assert max(one.producer_id for one in known) == 7_000_999


def test_files_that_are_open_at_once_are_bounded(start_broker: StartBroker) -> None:
    broker = start_broker("moldau.open.files=16", "num.partitions=100")
    connection = broker.connect()
    fill(broker.address, "many-files", 1)
    for partition in range(100):
        assert produce(connection, "many-files", bytes(batch(b"%d" % partition)), partition=partition)[0] == 0
    for partition in range(1, 100):
        row = FetchPartition(partition=partition, partition_max_bytes=1_000)
        request = FetchRequest(topics=(FetchTopic(topic="many-files", partitions=(row,)),))
        assert connection.ask(request, 11).responses[0].partitions[0].error_code == 0
    segments = [path for path in broker.open_files() if path.endswith((".log", "index"))]
    assert len(segments) <= 16 + 8, segments


@pytest.mark.slow
@pytest.mark.parametrize("request_to_repeat", [MetadataRequest(topics=None), fetch("canary", MIB, offset=0)])
def test_a_client_that_pipelines_and_takes_no_answer_is_read_no_further(
    start_broker: StartBroker, request_to_repeat: MetadataRequest | FetchRequest
) -> None:
    """Its connection pauses but stays open: when the client reads, the responses come in order."""
    broker = start_broker()
    connection = broker.connect()
    before = broker.peak_bytes()
    version = 1 if isinstance(request_to_repeat, MetadataRequest) else 12
    sent = 0
    connection.socket.settimeout(1)
    try:
        while sent < 2_000_000:
            payload = request_bytes(request_to_repeat, version, correlation_id=sent + 1)
            connection.send(struct.pack(">i", len(payload)) + payload)
            sent += 1
    except TimeoutError:
        pass
    assert sent < 2_000_000, "the broker still reads from a peer that takes no answer"
    assert broker.peak_bytes() - before < 64 * MIB
    connection.socket.settimeout(20)
    for correlation_id in range(1, min(sent, 5_000) + 1):
        assert struct.unpack(">i", connection.receive_frame()[:4])[0] == correlation_id


@pytest.mark.slow
def test_long_polls_that_are_pipelined_wait_in_order_within_a_bound(start_broker: StartBroker) -> None:
    broker = start_broker()
    fill(broker.address, "empty-from-1", 1)
    connection = broker.connect()
    before = broker.peak_bytes()
    for correlation_id in range(1, 5_001):
        request = fetch("empty-from-1", MIB, offset=1, max_wait_ms=1)
        payload = request_bytes(request, 12, correlation_id=correlation_id)
        connection.send(struct.pack(">i", len(payload)) + payload)
    for correlation_id in range(1, 5_001):
        assert struct.unpack(">i", connection.receive_frame()[:4])[0] == correlation_id
    assert broker.peak_bytes() - before < 16 * MIB


def join_group(group_id: str, metadata: bytes, instance_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=30_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", metadata),),
    )


@pytest.mark.slow
def test_members_of_groups_hold_a_bounded_amount_of_memory(start_broker: StartBroker) -> None:
    broker = start_broker("moldau.group.memory.bytes=8388608", "group.initial.rebalance.delay.ms=0")
    connection = broker.connect()
    assert connection.ask(FindCoordinatorRequest(coordinator_keys=("g0",)), 4).coordinators[0].error_code == 0
    first = connection.ask(join_group("g0", b"", "i"), 9)
    assert first.error_code == 0
    # the bound of one member
    for _ in range(8):
        assert connection.ask(join_group("large", bytes(40 * MIB), "i"), 9).error_code == INVALID_REQUEST
    before = broker.peak_bytes()
    # the bound of the node
    codes = [connection.ask(join_group(f"g{n}", bytes(MIB // 2), "i"), 9).error_code for n in range(1, 60)]
    assert codes == [0] * 15 + [GROUP_MAX_SIZE_REACHED] * 44
    assert broker.peak_bytes() - before < 40 * MIB
    # members keep their group, and other members can use what members give up
    alive = connection.ask(HeartbeatRequest("g0", first.generation_id, first.member_id, "i"), 4)
    assert alive.error_code == 0
    gone = connection.ask(LeaveGroupRequest("g1", members=(MemberIdentity("", "i"),)), 3)
    assert [one.error_code for one in gone.members] == [0]
    assert connection.ask(join_group("late", bytes(MIB // 2), "i"), 9).error_code == 0
