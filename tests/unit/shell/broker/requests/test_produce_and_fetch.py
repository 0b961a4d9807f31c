"""Produce and Fetch with a node: acks, waits, bounds, epochs, disks that are full or fail."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchRequest
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.records.batch import is_crc_valid, iterate_batches, set_log_append_time
from moldau.wire.records.builder import build_batch
from moldau.wire.records.crc import crc32c
from tests.support.node import NOW_MS, data_of, fetch, produce, produce_bytes, result_of, values_of
from tests.support.quorum import GatedWorkers

pytestmark = pytest.mark.asyncio


async def test_what_is_produced_is_fetched(node: Any, client: Any) -> None:
    await node.create_topic("t")
    first = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a", b"b")))
    second = result_of(await client.ask(ApiKey.PRODUCE, 3, produce(b"c")))
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
    answer = await client.ask(ApiKey.FETCH, 12, fetch(0))
    assert values_of(answer) == [b"a", b"b", b"c"]
    assert data_of(answer).high_watermark == 3
    assert answer.session_id == 0


async def test_an_offset_inside_a_batch_gives_the_whole_batch(node: Any, client: Any) -> None:
    await node.create_topic("t")
    await client.ask(ApiKey.PRODUCE, 9, produce(b"a", b"b", b"c"))
    await client.ask(ApiKey.PRODUCE, 9, produce(b"d"))
    assert values_of(await client.ask(ApiKey.FETCH, 12, fetch(1))) == [b"a", b"b", b"c", b"d"]


async def test_topic_ids_name_topics_from_version_13(node: Any) -> None:
    await node.create_topic("t")
    topic_id = node.node.broker.image.topic_id("t")
    client = node.connect()
    records = build_batch([(None, b"v", NOW_MS, ())])

    def request(identity: bytes) -> ProduceRequest:
        data = (TopicProduceData(topic_id=identity, partition_data=(PartitionProduceData(0, records),)),)
        return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data)

    assert result_of(await client.ask(ApiKey.PRODUCE, 13, request(topic_id))).error_code == 0
    assert result_of(await client.ask(ApiKey.PRODUCE, 13, request(bytes(16)))).error_code == 100


async def test_acks_0_is_not_answered_and_an_error_closes(node: Any, client: Any) -> None:
    await node.create_topic("t")
    client.send(ApiKey.PRODUCE, 9, produce(b"a", acks=0))
    assert client.answers() == []
    assert not client.wire.is_closed
    client.send(ApiKey.PRODUCE, 9, produce(b"a", topic="absent", acks=0))
    assert client.wire.is_closed
    assert values_of(await node.connect().ask(ApiKey.FETCH, 12, fetch(0))) == [b"a"]


async def test_a_partition_that_stands_twice_is_refused_and_nothing_is_appended(node: Any) -> None:
    await node.create_topic("t")
    records = build_batch([(None, b"v", NOW_MS, ())])
    partitions = (PartitionProduceData(0, records), PartitionProduceData(0, records))
    request = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=partitions),))
    answer = await node.connect().ask(ApiKey.PRODUCE, 9, request)
    assert [one.error_code for one in answer.responses[0].partition_responses] == [42, 42]
    assert node.node.broker.partitions.find("t", 0).log.log_end_offset == 0


async def test_one_partition_fails_and_the_other_succeeds(node: Any) -> None:
    await node.create_topic("t")
    records = build_batch([(None, b"v", NOW_MS, ())])
    partitions = (PartitionProduceData(5, records), PartitionProduceData(0, records))
    request = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=partitions),))
    answer = await node.connect().ask(ApiKey.PRODUCE, 9, request)
    assert [one.error_code for one in answer.responses[0].partition_responses] == [3, 0]


async def test_a_repeated_batch_is_answered_with_its_old_offset(node: Any, client: Any) -> None:
    await node.create_topic("t")
    batch = produce(b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    offsets = [result_of(await client.ask(ApiKey.PRODUCE, 9, batch)).base_offset for _ in range(3)]
    assert offsets == [0, 0, 0]
    gap = produce(b"a", producer_id=9, producer_epoch=0, base_sequence=7)
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, gap)).error_code == 45


async def test_a_transactional_batch_without_a_transactional_id_gets_53(node: Any) -> None:
    await node.create_topic("t")
    batch = produce(b"a", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert result_of(await node.connect().ask(ApiKey.PRODUCE, 9, batch)).error_code == 53


async def test_with_flush_messages_1_the_answer_waits_for_the_disk(start_node: Any) -> None:
    workers = GatedWorkers(is_open=True)
    node = await start_node(workers=workers)
    await node.create_topic("t", flush_messages="1")
    reader, writer = node.connect(), node.connect()
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    workers.gate.clear()
    before = workers.runs
    for index in range(5):
        writer.send(ApiKey.PRODUCE, 9, produce(b"%d" % index))
    await node.turns(20)
    assert writer.answers() == []
    assert reader.answers() == []
    assert node.node.broker.partitions.find("t", 0).high_watermark == 0
    workers.gate.set()
    await node.turns(20)
    assert [result_of(answer).base_offset for answer in writer.answers()] == [0, 1, 2, 3, 4]
    assert workers.runs == before + 1, "five appends share one fsync"
    (answer,) = reader.answers()
    assert values_of(answer) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_failed_fsync_of_the_only_directory_is_answered_and_halts_the_node(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t", flush_messages="1")
    client = node.connect()
    disk.fail(Fault("flush", "io", "t-0"))
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a"))).error_code == 56
    await node.turns(1)
    assert node.node.stopped.is_set()
    assert client.wire.is_closed
    assert str(node.node.failure) == "Shutdown broker because all log dirs in /disk0 have failed"


async def test_a_failed_write_wakes_who_waits(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client, reader = node.connect(), node.connect()
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    disk.fail(Fault("append", "io", "t-0"))
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a"))).error_code == 56
    assert data_of(await reader.answer()).error_code == 56


async def test_a_full_disk_is_answered_with_56_and_the_next_append_tries_again(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    client = node.connect()
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a"))).error_code == 0
    disk.fail(Fault("append", "full", "t-0", times=1))
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"b"))).error_code == 56
    assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"c"))).error_code == 0
    assert values_of(await client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"a", b"c"]


async def test_a_long_poll_wakes_when_something_comes(node: Any) -> None:
    await node.create_topic("t")
    readers = [node.connect() for _ in range(3)]
    for reader in readers:
        reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    writer = node.connect()
    writer.feed(b"".join(writer.request(ApiKey.PRODUCE, 9, produce(b"x")) for _ in range(4)))
    assert all(reader.answers() == [] for reader in readers), "woken once a turn, not inside the append"
    await node.turns(1)
    for reader in readers:
        (answer,) = reader.answers()
        assert values_of(answer) == [b"x"] * 4
    assert node.node.broker.fetches.parked == 0


async def test_a_long_poll_waits_for_min_bytes(node: Any) -> None:
    await node.create_topic("t")
    reader, writer = node.connect(), node.connect()
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000, min_bytes=1_000))
    for _ in range(9):
        await writer.ask(ApiKey.PRODUCE, 9, produce(b"x" * 50))
        await node.turns(1)
    early = reader.answers()
    assert early == [] or sum(len(data_of(answer).records) for answer in early) >= 1_000
    await writer.ask(ApiKey.PRODUCE, 9, produce(b"x" * 500))
    assert len(data_of(early[0] if early else await reader.answer()).records) >= 1_000


async def test_a_long_poll_ends_when_the_topic_goes(node: Any) -> None:
    await node.create_topic("t")
    reader = node.connect()
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    answer = await node.connect().ask(ApiKey.DELETE_TOPICS, 6, request)
    assert answer.responses[0].error_code == 0
    assert data_of(await reader.answer()).error_code == 3


async def test_nothing_to_wait_for_is_answered_at_once(node: Any, client: Any) -> None:
    await node.create_topic("t")
    for request in (
        fetch(0, max_wait_ms=0, min_bytes=100),
        fetch(0, max_wait_ms=-5, min_bytes=100),
        fetch(0, max_wait_ms=60_000, min_bytes=0),
        FetchRequest(max_wait_ms=60_000, min_bytes=1),
    ):
        client.send(ApiKey.FETCH, 12, request)
        assert len(client.answers()) == 1


async def test_parked_fetches_are_bounded(start_node: Any) -> None:
    """Beyond the bound a request gets the response of its one look, which found too little."""
    node = await start_node({"moldau.parked.fetches": "2"})
    await node.create_topic("t")
    readers = [node.connect() for _ in range(4)]
    for reader in readers:
        reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    assert [len(reader.answers()) for reader in readers] == [0, 0, 1, 1]
    assert node.node.telemetry.value(BOUND_REACHED, "moldau.parked.fetches") == 2
    assert node.node.broker.partitions.find("t", 0).fetch_requests == 4


async def test_a_reader_of_an_epoch_that_ended_learns_where_it_diverged(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await first.create_topic("t")
    await first.connect().ask(ApiKey.PRODUCE, 9, produce(b"a"))
    await first.node.stop()
    node = await start_node(disk=disk)
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"b"))
    epochs = node.node.broker.partitions.find("t", 0).log.leader_epochs.entries
    (old, _), (new, start) = epochs
    answer = await client.ask(ApiKey.FETCH, 12, fetch(2, last_fetched_epoch=old))
    assert (data_of(answer).diverging_epoch.epoch, data_of(answer).diverging_epoch.end_offset) == (old, start)
    assert data_of(answer).records == b""
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(2, last_fetched_epoch=new))).error_code == 0
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(2, last_fetched_epoch=new + 1))).error_code == 1
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(0, current_leader_epoch=0))).error_code in (0, 74)


async def test_cold_bytes_are_read_by_workers(start_node: Any) -> None:
    disk, workers = MemoryDisk(), GatedWorkers(is_open=True)
    node = await start_node(disk=disk, workers=workers)
    await node.create_topic("t")
    client, other = node.connect(), node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"cold"))
    disk.fail(Fault("read_cached", "cold", "t-0", times=1))
    workers.gate.clear()
    client.send(ApiKey.FETCH, 12, fetch(0))
    await node.turns(5)
    assert client.answers() == []
    other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    assert len(other.answers()) == 1, "a slow disk stalls only who reads from it"
    workers.gate.set()
    assert values_of(await client.answer()) == [b"cold"]


async def list_offset(client: Any, timestamp: int, version: int = 9) -> tuple[int, int, int]:
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic("t", (ListOffsetsPartition(0, -1, timestamp),)),)
    )
    found = (await client.ask(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


async def test_an_empty_log_begins_in_the_epoch_of_its_leader(node: Any, client: Any) -> None:
    """As Apache Kafka 4.3 answers; -1 would mean that the partition never had a leader."""
    await node.create_topic("t")
    for timestamp in (-1, -2, -4):
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(topics=(ListOffsetsTopic("t", (partition,)),))
        answer = (await client.ask(ApiKey.LIST_OFFSETS, 9, request)).topics[0].partitions[0]
        assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, 0, 0)


async def test_a_client_cannot_mark_its_batch_as_timed_by_the_broker(node: Any, client: Any) -> None:
    await node.create_topic("t")
    batch = bytearray(build_batch([(None, b"v", NOW_MS, ())]))
    set_log_append_time(batch, 0, len(batch), NOW_MS)
    await client.ask(ApiKey.PRODUCE, 9, produce_bytes(bytes(batch)))
    records = bytes(data_of(await client.ask(ApiKey.FETCH, 12, fetch(0))).records)
    (_, header), *_ = iterate_batches(records)
    assert not header.is_log_append_time
    assert is_crc_valid(records, 0, header.size)


async def test_list_offsets_finds_ends_and_timestamps(node: Any, client: Any) -> None:
    await node.create_topic("t")
    assert await list_offset(client, -1) == (0, 0, -1)
    assert await list_offset(client, NOW_MS) == (0, -1, -1)
    for step in (0, 10, 5):
        records = build_batch([(None, b"v", NOW_MS + step, ())])
        await client.ask(ApiKey.PRODUCE, 9, produce_bytes(records, acks=1))
    assert await list_offset(client, -1) == (0, 3, -1)
    assert await list_offset(client, -2) == (0, 0, -1)
    assert await list_offset(client, -3) == (0, 1, NOW_MS + 10)
    assert await list_offset(client, NOW_MS + 3) == (0, 1, NOW_MS + 10)
    assert await list_offset(client, NOW_MS + 11) == (0, -1, -1)
    assert await list_offset(client, -3, version=6) == (35, -1, -1)
    assert await list_offset(client, -7) == (35, -1, -1)
    assert await list_offset(client, -5) == (0, -1, -1)


async def test_an_unknown_topic_is_created_by_metadata_and_first_answered_with_3(node: Any, client: Any) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="new"),))
    assert (await client.ask(ApiKey.METADATA, 9, request)).topics[0].error_code == 3
    for _ in range(50):
        await node.turns(1)
        answer = await client.ask(ApiKey.METADATA, 9, request)
        if answer.topics[0].error_code == 0:
            break
    assert len(answer.topics[0].partitions) == 1
    assert answer.topics[0].partitions[0].leader_id == node.node.node_id
    without = MetadataRequest(topics=(MetadataRequestTopic(name="other"),), allow_auto_topic_creation=False)
    for _ in range(3):
        assert (await client.ask(ApiKey.METADATA, 9, without)).topics[0].error_code == 3


async def test_without_an_advertised_listener_the_asked_address_is_advertised(start_node: Any) -> None:
    node = await start_node()
    broker = (await node.connect().ask(ApiKey.METADATA, 9, MetadataRequest(topics=()))).brokers[0]
    assert (broker.host, broker.port) == ("10.0.0.1", 9092)
    advertised = await start_node({"advertised.listeners": "PLAINTEXT://kafka.example:1234"})
    broker = (await advertised.connect().ask(ApiKey.METADATA, 9, MetadataRequest(topics=()))).brokers[0]
    assert (broker.host, broker.port) == ("kafka.example", 1234)


async def test_with_full_validation_compressed_records_are_read_off_the_loop(start_node: Any) -> None:
    workers = GatedWorkers(is_open=True)
    node = await start_node({"moldau.record.validation": "full"}, workers=workers)
    await node.create_topic("t")
    client, other = node.connect(), node.connect()
    good = client.request(ApiKey.PRODUCE, 9, produce(b"a" * 1_000, compression="gzip"))
    broken = bytearray(build_batch([(None, b"x" * 1_000, NOW_MS, ())], compression="gzip"))
    broken[70:90] = bytes(20)
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    bad = client.request(ApiKey.PRODUCE, 9, produce_bytes(bytes(broken), acks=1))
    plain = client.request(ApiKey.PRODUCE, 9, produce(b"plain"))
    workers.gate.clear()
    client.feed(good + bad + plain)
    assert node.node.dispatcher.request_counts()["PRODUCE"] == 1, "no further request begins while one is prepared"
    other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    assert len(other.answers()) == 1
    workers.gate.set()
    await node.turns(20)
    results = [result_of(answer) for answer in client.answers()]
    assert [(result.error_code, result.base_offset) for result in results] == [(0, 0), (87, -1), (0, 1)]
    assert values_of(await client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"a" * 1_000, b"plain"]


async def test_a_topics_codec_is_put_on_while_the_node_serves_others(start_node: Any) -> None:
    workers = GatedWorkers(is_open=True)
    node = await start_node(workers=workers)
    await node.create_topic("t", compression_type="zstd")
    await node.create_topic("plain")
    client, other = node.connect(), node.connect()
    workers.gate.clear()
    first, second = produce(b"a" * 1_000), produce(b"b")
    client.feed(client.request(ApiKey.PRODUCE, 9, first) + client.request(ApiKey.PRODUCE, 9, second))
    assert node.node.dispatcher.request_counts()["PRODUCE"] == 1
    assert result_of(await other.ask(ApiKey.PRODUCE, 9, produce(b"c", topic="plain"))).error_code == 0
    workers.gate.set()
    await node.turns(30)
    results = [result_of(answer) for answer in client.answers()]
    assert [(result.error_code, result.base_offset) for result in results] == [(0, 0), (0, 1)]
    answer = await client.ask(ApiKey.FETCH, 12, fetch(0))
    assert values_of(answer) == [b"a" * 1_000, b"b"]
    stored = answer.responses[0].partitions[0].records
    assert [header.compression.name for _, header in iterate_batches(stored)] == ["ZSTD", "ZSTD"]


@pytest.mark.parametrize("broken", [b"count", b"data"])
async def test_a_topic_with_a_codec_refuses_what_its_records_show(node: Any, client: Any, broken: bytes) -> None:
    await node.create_topic("t", compression_type="gzip")
    batch = bytearray(build_batch([(None, b"x" * 1_000, NOW_MS, ())] * 2, compression="lz4"))
    if broken == b"count":
        batch[23:27], batch[57:61] = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")
    else:
        batch[70:80] = bytes(10)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_bytes(bytes(batch), acks=1))
    assert (result_of(answer).error_code, result_of(answer).base_offset) == (87, -1)


async def test_full_validation_and_flush_messages_1_keep_the_order(start_node: Any) -> None:
    node = await start_node({"moldau.record.validation": "full"})
    await node.create_topic("t", flush_messages="1")
    client = node.connect()
    frames = [
        client.request(ApiKey.PRODUCE, 9, produce(b"%d" % index, compression="gzip" if index % 2 else "none"))
        for index in range(6)
    ]
    client.feed(b"".join(frames))
    await node.turns(60)
    assert [result_of(answer).base_offset for answer in client.answers()] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("fault", ["damaged", "wrong deltas"])
async def test_validation_of_compressed_batches_refuses_what_a_plain_topic_would_store(
    start_node: Any, compression: str, fault: str
) -> None:
    batch = bytearray(build_batch([(None, b"x" * 1_000, NOW_MS, ())] * 2, compression=compression))
    if fault == "damaged":
        batch[70:90] = bytes(20)
    else:
        # the header counts three records, the compressed data holds two
        batch[23:27], batch[57:61] = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    codes = {}
    for validation in ("header", "compressed"):
        node = await start_node({"moldau.record.validation": validation})
        await node.create_topic("t")
        answer = await node.connect().ask(ApiKey.PRODUCE, 9, produce_bytes(bytes(batch), acks=1))
        codes[validation] = result_of(answer).error_code
    assert codes == {"header": 0, "compressed": 87}


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
async def test_a_topic_bounds_the_decompressed_size_of_a_record(node: Any, compression: str) -> None:
    await node.create_topic("t", max_decompressed_message_bytes="1000")
    batch = build_batch([(None, b"x", NOW_MS, ()), (None, b"x" * 1_000, NOW_MS, ())], compression=compression)
    answer = await node.connect().ask(ApiKey.PRODUCE, 9, produce_bytes(batch, acks=1))
    assert result_of(answer).error_code == (0 if compression == "none" else 87)


async def test_validation_of_compressed_batches_looks_at_no_record_of_the_others(start_node: Any) -> None:
    workers = GatedWorkers(is_open=True)
    node = await start_node({"moldau.record.validation": "compressed"}, workers=workers)
    await node.create_topic("t")
    runs = workers.runs
    batch = bytearray(build_batch([(None, b"x", NOW_MS, ())] * 2))
    batch[23:27], batch[57:61] = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    answer = await node.connect().ask(ApiKey.PRODUCE, 9, produce_bytes(bytes(batch), acks=1))
    assert result_of(answer).error_code == 0
    assert workers.runs == runs
