"""Produce names the records with errors, as Apache Kafka 4.3.1 was seen to (KIP-467)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from moldau.core.replication.produce_plan import MANY_RECORDS, MAX_RECORD_ERRORS_PER_RESPONSE
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.batch import MAX_TIMESTAMP_POSITION, write_crc
from moldau.wire.records.builder import build_batch
from moldau.wire.records.validate import MAX_RECORD_ERRORS, NO_BOUND_MS
from tests.support.node import produce_bytes

pytestmark = pytest.mark.asyncio

NO_KEY = "Compacted topic cannot accept message without key in topic partition t-0"
BAD_TIMESTAMP = "One or more records have been rejected due to invalid timestamp"
BOUNDS = {"message_timestamp_before_max_ms": "1000000", "message_timestamp_after_max_ms": "1000000"}


def no_key_in(*indexes: int) -> str:
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{NO_KEY}')" for index in indexes[:3])
    return (
        f"One or more records have been rejected due to {len(indexes)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]"
    )


def out_of_range(index: int, timestamp_ms: int, now_ms: int) -> tuple[int, str]:
    return index, (
        f"Timestamp {timestamp_ms} of message with offset {index} is out of range. The timestamp should be within "
        f"[{now_ms - 1_000_000}, {now_ms + 1_000_000}]"
    )


def request_of(*rows: tuple[bytes | None, int], partition: int = 0, **batch: Any) -> ProduceRequest:
    records = build_batch([(key, b"v", timestamp_ms, ()) for key, timestamp_ms in rows], **batch)
    return produce_bytes(records, partition=partition, acks=1)


def told(answer: Any) -> tuple[int, str | None, list[tuple[int, str | None]]]:
    (result,) = answer.responses[0].partition_responses
    assert (result.base_offset, result.log_append_time_ms, result.log_start_offset) == (-1, -1, 0)
    errors = [(error.batch_index, error.batch_index_error_message) for error in result.record_errors]
    return result.error_code, result.error_message, errors


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("batch", [{}, {"compression": "gzip"}])
async def test_records_without_a_key_on_a_compacted_topic_are_named(
    node: Any, version: int, batch: dict[str, str]
) -> None:
    await node.create_topic("t", cleanup_policy="compact")
    client, now_ms = node.connect(), node.clock.now_ms()
    rows = [(b"k", now_ms), (None, now_ms), (b"k", now_ms), (None, now_ms), (None, now_ms), (None, now_ms)]
    answer = await client.ask(ApiKey.PRODUCE, version, request_of(*rows, **batch))
    assert told(answer) == (87, no_key_in(1, 3, 4, 5), [(index, NO_KEY) for index in (1, 3, 4, 5)])
    answer = await client.ask(ApiKey.PRODUCE, 7, request_of(*rows, **batch))
    assert told(answer) == (87, None, [])


@pytest.mark.parametrize("batch", [{}, {"compression": "zstd"}])
async def test_records_whose_timestamps_the_topic_does_not_take_are_named(node: Any, batch: dict[str, str]) -> None:
    await node.create_topic("t", **BOUNDS)
    client, now_ms = node.connect(), node.clock.now_ms()
    past_ms, future_ms = now_ms - 5_000_000, now_ms + 5_000_000
    rows = [(None, now_ms), (None, past_ms), (b"k", future_ms)]
    answer = await client.ask(ApiKey.PRODUCE, 9, request_of(*rows, **batch))
    expected = [out_of_range(1, past_ms, now_ms), out_of_range(2, future_ms, now_ms)]
    assert told(answer) == (32, BAD_TIMESTAMP, expected)


async def test_a_timestamp_past_64_bits_is_refused_and_the_other_partitions_are_appended(node: Any) -> None:
    await node.create_topic("t", 2, message_timestamp_after_max_ms=str(NO_BOUND_MS), compression_type="lz4")
    client, now_ms = node.connect(), node.clock.now_ms()
    records = bytearray(build_batch([(b"k", b"v", 0, ()), (b"k", b"v", 7, ())]))
    struct.pack_into(">qq", records, MAX_TIMESTAMP_POSITION - 8, NO_BOUND_MS, NO_BOUND_MS)
    write_crc(records, 0, len(records))
    (good,) = request_of((b"k", now_ms), partition=1).topic_data[0].partition_data
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(0, bytes(records)), good))
    answer = await client.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(data,)))
    rows = answer.responses[0].partition_responses
    assert [row.error_code for row in rows] == [32, 0]
    assert [error.batch_index for error in rows[0].record_errors] == [1]


async def test_a_record_without_a_key_is_blamed_for_that_first(node: Any) -> None:
    await node.create_topic("t", cleanup_policy="compact", **BOUNDS)
    client, now_ms = node.connect(), node.clock.now_ms()
    future_ms = now_ms + 5_000_000
    answer = await client.ask(ApiKey.PRODUCE, 9, request_of((None, future_ms)))
    assert told(answer) == (87, no_key_in(0), [(0, NO_KEY)])
    answer = await client.ask(ApiKey.PRODUCE, 9, request_of((None, now_ms), (b"k", future_ms)))
    assert told(answer) == (32, BAD_TIMESTAMP, [(0, NO_KEY), out_of_range(1, future_ms, now_ms)])


async def test_the_others_of_the_request_are_appended_and_the_order_of_answers_stays(node: Any) -> None:
    await node.create_topic("t", 2, flush_messages="1", **BOUNDS)
    client, now_ms = node.connect(), node.clock.now_ms()
    bad = build_batch([(None, b"v", now_ms + 5_000_000, ())])
    good = build_batch([(None, b"v", now_ms, ())])
    data = (PartitionProduceData(0, bad), PartitionProduceData(1, good))
    both = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name="t", partition_data=data),))
    client.feed(client.request(ApiKey.PRODUCE, 9, both) + client.request(ApiKey.PRODUCE, 9, request_of((b"k", now_ms))))
    await node.turns(30)
    first, second = client.answers()
    results = [
        (result.error_code, result.base_offset, len(result.record_errors))
        for result in first.responses[0].partition_responses
    ]
    assert results == [(32, -1, 1), (0, 0, 0)]
    assert second.responses[0].partition_responses[0].base_offset == 0


async def test_an_answer_names_so_many_records_and_no_more(node: Any) -> None:
    partitions = MAX_RECORD_ERRORS_PER_RESPONSE // MAX_RECORD_ERRORS + 1
    await node.create_topic("t", partitions, cleanup_policy="compact")
    client, now_ms = node.connect(), node.clock.now_ms()
    count = MAX_RECORD_ERRORS + 500
    answer = await client.ask(ApiKey.PRODUCE, 9, request_of(*[(None, now_ms)] * count))
    code, message, errors = told(answer)
    assert (code, message) == (87, no_key_in(*range(count)))
    assert [index for index, _ in errors] == list(range(MAX_RECORD_ERRORS))

    records = build_batch([(None, b"v", now_ms, ())] * MAX_RECORD_ERRORS)
    data = tuple(PartitionProduceData(index, records) for index in range(partitions))
    all_of_them = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=data),))
    answer = await client.ask(ApiKey.PRODUCE, 9, all_of_them)
    named = [len(result.record_errors) for result in answer.responses[0].partition_responses]
    assert named == [MAX_RECORD_ERRORS] * (partitions - 1) + [0]
    assert {result.error_code for result in answer.responses[0].partition_responses} == {87}


async def test_many_short_batches_for_compacted_partitions_are_read_in_slices(node: Any) -> None:
    await node.create_topic("t", 4, cleanup_policy="compact")
    client, other, now_ms = node.connect(), node.connect(), node.clock.now_ms()
    records = build_batch([(b"k", b"v", now_ms, ())] * (MANY_RECORDS // 2))
    data = tuple(PartitionProduceData(index, records) for index in range(4))
    request = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=data),))
    client.send(ApiKey.PRODUCE, 9, request)
    assert client.answers() == []
    other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    assert len(other.answers()) == 1
    answer = await client.answer()
    assert [result.error_code for result in answer.responses[0].partition_responses] == [0, 0, 0, 0]


async def test_a_producer_epoch_of_minus_one_is_taken_from_a_producer_that_is_not_known(node: Any) -> None:
    await node.create_topic("t")
    client, now_ms = node.connect(), node.clock.now_ms()
    found = []
    for epoch, sequence in ((-1, 0), (-1, 9), (0, 5), (-1, 0), (-2, 0)):
        batch = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
        answer = await client.ask(ApiKey.PRODUCE, 9, request_of((b"k", now_ms), **batch))
        result = answer.responses[0].partition_responses[0]
        found.append((result.error_code, result.base_offset))
    assert found == [(0, 0), (0, 1), (0, 2), (47, -1), (47, -1)]


async def test_an_epoch_before_all_ends_where_the_first_begins(node: Any) -> None:
    await node.create_topic("t")
    client, now_ms = node.connect(), node.clock.now_ms()

    async def ask(epoch: int) -> tuple[int, int, int]:
        row = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic("t", (row,)),))
        answer = (await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert await ask(-2) == (0, -2, 0)
    await client.ask(ApiKey.PRODUCE, 9, request_of((b"k", now_ms)))
    assert await ask(-1) == (0, -1, -1)
    assert await ask(-2) == (0, -2, 0)
    assert await ask(-(2**31)) == (0, -(2**31), 0)
    assert await ask(0) == (0, 0, 1)
