"""The hand-written Produce and Fetch equal the codec, for good bytes and bad, in every version."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from moldau.errors import ProtocolError
from moldau.wire.protocol import fast_fetch, fast_produce
from moldau.wire.protocol.api_keys import ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.elsewhere import CurrentLeader, LeaderNode, PreferredReadReplica
from moldau.wire.protocol.fast_produce import RecordErrors
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import encode_response_header
from moldau.wire.protocol.messages import fetch as fetching
from moldau.wire.protocol.messages import produce
from moldau.wire.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.wire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.unit.wire.protocol.samples import generated, messages

PRODUCE_VERSIONS = range(fast_produce.MIN_VERSION, fast_produce.MAX_VERSION + 1)
FETCH_VERSIONS = range(fast_fetch.MIN_VERSION, fast_fetch.MAX_VERSION + 1)

some = generated(25)


def produce_by_codec(body: memoryview, version: int) -> tuple[object, ...]:
    request, _ = decode_message(ProduceRequest, version, body)
    entries = [
        (topic.topic_id if version >= 13 else topic.name.encode(), partition.index, partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
    return request.transactional_id, request.acks, request.timeout_ms, entries


def fetch_by_codec(body: memoryview, version: int) -> tuple[object, ...]:
    request, _ = decode_message(FetchRequest, version, body)
    entries = [
        (
            topic.topic_id if version >= 13 else topic.topic.encode(),
            entry.partition,
            entry.current_leader_epoch,
            entry.fetch_offset,
            entry.last_fetched_epoch,
            entry.log_start_offset,
            entry.partition_max_bytes,
        )
        for topic in request.topics
        for entry in topic.partitions
    ]
    state = request.replica_state
    reader = (state.replica_id, state.replica_epoch) if version >= 15 else (request.replica_id, -1)
    head = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    forgotten = [
        (topic.topic_id if version >= 13 else topic.topic.encode(), partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return (reader, *head, request.session_id, request.session_epoch, entries, forgotten, request.rack_id)


def outcome(decode, body: memoryview, version: int) -> object:
    try:
        return decode(body, version)
    except ProtocolError:
        return ProtocolError


def fast_produce_request(body: memoryview, version: int) -> object:
    return fast_produce.decode_produce_request(body, 0, version)


def fast_fetch_request(body: memoryview, version: int) -> object:
    *question, forgotten, rack = fast_fetch.decode_fetch_request(body, 0, version)
    return (*question, list(forgotten), rack)


def damaged(body: bytes, chance: random.Random) -> bytes:
    out = bytearray(body)
    for _ in range(chance.randint(0, 3)):
        if out:
            out[chance.randrange(len(out))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(out[: chance.randint(0, len(out))]) if chance.random() < 0.5 else bytes(out)


PRODUCE = (ProduceRequest, produce_by_codec, fast_produce_request)
FETCH = (FetchRequest, fetch_by_codec, fast_fetch_request)
REQUESTS = [
    *(pytest.param(version, *PRODUCE, id=f"produce-v{version}") for version in PRODUCE_VERSIONS),
    *(pytest.param(version, *FETCH, id=f"fetch-v{version}") for version in FETCH_VERSIONS),
]


@pytest.mark.parametrize(("version", "cls", "by_codec", "fast"), REQUESTS)
def test_a_request_is_read_as_the_codec_reads_it_or_refused_as_it_refuses_it(version, cls, by_codec, fast):
    @some
    @given(messages(cls, version), st.integers(0, 2**32))
    def agree(message: msgspec.Struct, seed: int) -> None:
        chance = random.Random(seed)
        body = encode_message(message, version)
        assert fast(memoryview(body), version) == by_codec(memoryview(body), version)
        for _ in range(8):
            bad = memoryview(damaged(body, chance))
            assert outcome(fast, bad, version) == outcome(by_codec, bad, version)

    agree()


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_the_usual_request_of_one_partition_is_read_as_the_codec_reads_it(version):
    chance = random.Random(version)
    for size in (0, 1, 61, 126, 127, 128, 16_383, 20_000):
        records = None if size == 1 else bytes(size)
        for name in ("t", "n" * 126, "n" * 127, "é"):
            target = {"topic_id": b"i" * 16} if version >= 13 else {"name": name}
            topic = TopicProduceData(partition_data=(PartitionProduceData(3, records),), **target)
            body = encode_message(ProduceRequest(acks=-1, timeout_ms=5, topic_data=(topic,)), version)
            for bad in (body, body[:-1], body[:-2], body + b"after", *(damaged(body, chance) for _ in range(50))):
                view = memoryview(bad)
                assert outcome(fast_produce_request, view, version) == outcome(produce_by_codec, view, version)


def test_records_of_a_produce_request_are_views_of_the_frame():
    topic = TopicProduceData(name="t", partition_data=(PartitionProduceData(0, b"batch" * 20),))
    body = bytearray(encode_message(ProduceRequest(topic_data=(topic,)), 9))
    entries = fast_produce.decode_produce_request(memoryview(body), 0, 9)[3]
    body[body.index(b"batch")] = ord("B")
    assert bytes(entries[0][2][:5]) == b"Batch"


def topics(version: int, count: int) -> list[bytes]:
    if version >= 13:
        return [bytes((65 + index,)) * 16 for index in range(count)]
    return [name.encode() for name in ("topic-a", "x" * 249, "")[:count]]


def of_topic(topic: bytes, version: int, *, id_field: str = "topic_id", name_field: str) -> dict[str, object]:
    return {id_field: topic} if version >= 13 else {name_field: topic.decode()}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("partitions", [0, 1, 2, 200])
@pytest.mark.parametrize(
    "message", [None, "", "refused " * 20, RecordErrors("", ()), RecordErrors("r", ((0, ""), (70_000, "x" * 200)))]
)
def test_a_produce_response_has_the_bytes_of_the_codec(version, partitions, message):
    for count in range(4 if partitions else 1):
        results = []
        responses = []
        for topic in topics(version, count):
            entries = []
            for index in range(partitions):
                start = 7 if version >= 5 else -1
                results.append((topic, index, index % 90, 2**40 + index, -1, start, message))
                entries.append(
                    PartitionProduceResponse(
                        index=index,
                        error_code=index % 90,
                        base_offset=2**40 + index,
                        log_start_offset=start,
                        error_message=message.message if isinstance(message, RecordErrors) else message,
                        record_errors=tuple(
                            BatchIndexAndErrorMessage(place, reason)
                            for place, reason in (message.errors if isinstance(message, RecordErrors) else ())
                        ),
                    )
                )
            responses.append(
                TopicProduceResponse(partition_responses=tuple(entries), **of_topic(topic, version, name_field="name"))
            )
        response = ProduceResponse(responses=tuple(responses), throttle_time_ms=17)
        header = encode_response_header(99, response_header_version(ApiKey.PRODUCE, version))
        expected = frame(header, encode_message(response, version))
        assert fast_produce.encode_produce_response(version, 99, results, 17) == expected


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("partitions", [0, 1, 2, 200])
@pytest.mark.parametrize("diverging", [None, (3, 2**33)])
@pytest.mark.parametrize("aborted", [None, (), ((7, 2**40),), tuple((-1, index) for index in range(200))])
def test_a_fetch_response_has_the_bytes_of_the_codec(version, partitions, diverging, aborted):
    if version < 12:
        diverging = None
    for count in range(4 if partitions else 1):
        results = []
        responses = []
        for topic in topics(version, count):
            entries = []
            for index in range(partitions):
                records = (b"r" * 200, b"", None, b"s" * 20_000)[index % 4]
                start = 7 if version >= 5 else -1
                results.append((topic, index, index % 90, 2**40, 2**39, start, diverging, records, aborted))
                entries.append(
                    PartitionData(
                        partition_index=index,
                        error_code=index % 90,
                        high_watermark=2**40,
                        last_stable_offset=2**39,
                        log_start_offset=start,
                        diverging_epoch=EpochEndOffset(*diverging) if diverging else EpochEndOffset(),
                        aborted_transactions=None
                        if aborted is None
                        else tuple(AbortedTransaction(*a) for a in aborted),
                        records=records or b"",
                    )
                )
            responses.append(
                FetchableTopicResponse(partitions=tuple(entries), **of_topic(topic, version, name_field="topic"))
            )
        error_code, session_id = (70, 5) if version >= 7 else (0, 0)
        response = FetchResponse(
            throttle_time_ms=17, error_code=error_code, session_id=session_id, responses=tuple(responses)
        )
        header = encode_response_header(99, response_header_version(ApiKey.FETCH, version))
        buffers = fast_fetch.encode_fetch_response(version, 99, error_code, session_id, results, throttle_time_ms=17)
        assert b"".join(buffers) == frame(header, encode_message(response, version))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetched_records_go_out_as_the_buffers_they_came_in(version):
    topic = topics(version, 1)[0]
    batches = [memoryview(bytearray(b"a" * 100)), memoryview(bytearray(b"b" * 100))]
    for count in (1, 2):
        results = [(topic, index, 0, 1, 1, 0, None, batches[index], None) for index in range(count)]
        buffers = fast_fetch.encode_fetch_response(version, 1, 0, 0, results)
        assert all(any(buffer is batch for buffer in buffers) for batch in batches[:count])


NODES = (LeaderNode(3, "host-3", 9092, "rack"), LeaderNode(2**31 - 1, "h" * 200, 1, None))


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("nodes", [(), NODES[:1], NODES])
def test_a_produce_response_names_leaders_with_the_bytes_of_the_codec(version, partitions, nodes):
    [topic] = topics(version, 1)
    leader = CurrentLeader(3, 70_000)
    results = [(topic, index, 6, -1, -1, -1, leader) for index in range(partitions)]
    rows = tuple(
        PartitionProduceResponse(index, 6, -1, current_leader=produce.LeaderIdAndEpoch(3, 70_000))
        for index in range(partitions)
    )
    told = (TopicProduceResponse(partition_responses=rows, **of_topic(topic, version, name_field="name")),)
    endpoints = tuple(produce.NodeEndpoint(*astuple(node)) for node in nodes)
    header = encode_response_header(99, response_header_version(ApiKey.PRODUCE, version))
    expected = frame(header, encode_message(ProduceResponse(told, 17, endpoints), version))
    assert fast_produce.encode_produce_response(version, 99, results, 17, nodes) == expected


@pytest.mark.parametrize(
    ("version", "elsewhere", "fields"),
    [
        *((version, PreferredReadReplica(8), {"preferred_read_replica": 8}) for version in range(11, 19)),
        *(
            (version, CurrentLeader(3, 70_000), {"current_leader": fetching.LeaderIdAndEpoch(3, 70_000)})
            for version in range(16, 19)
        ),
    ],
)
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_fetch_response_names_other_replicas_with_the_bytes_of_the_codec(version, elsewhere, fields, partitions):
    [topic] = topics(version, 1)
    nodes = NODES if version >= 16 else ()
    results = [(topic, index, 6, 1, 2, 3, elsewhere, None, ()) for index in range(partitions)]
    rows = tuple(PartitionData(index, 6, 1, 2, 3, records=b"", **fields) for index in range(partitions))
    told = (FetchableTopicResponse(partitions=rows, **of_topic(topic, version, name_field="topic")),)
    endpoints = tuple(fetching.NodeEndpoint(*astuple(node)) for node in nodes)
    header = encode_response_header(99, response_header_version(ApiKey.FETCH, version))
    expected = frame(header, encode_message(FetchResponse(responses=told, node_endpoints=endpoints), version))
    assert b"".join(fast_fetch.encode_fetch_response(version, 99, 0, 0, results, nodes=nodes)) == expected
