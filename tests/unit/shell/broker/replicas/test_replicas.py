"""Partitions with replicas on other brokers: who answers, the wait of acks=all, visible offsets.

Apache Kafka 4.3.1, on a directory with the same metadata log, answers with the same codes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.log.log import AppendOrigin
from moldau.core.metadata.image import PartitionImage, ResourceType
from moldau.errors import ERROR_CODES
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import BrokerId, LeaderEpoch, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.records.builder import build_batch
from tests.support.node import change, data_of, fetch, produce, produce_bytes, result_of, tell, values_of

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000
OTHER = 7
NOT_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
UNKNOWN = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
GOOD = bytes(build_batch([(None, b"v", NOW_MS, ())]))


async def with_two_replicas(start_node: Any, **configs: str) -> Any:
    """Topic t: this broker leads, broker 7 is in sync and never fetches."""
    node = await start_node()
    await node.create_topic("t", **configs)
    us = node.node.node_id
    change(node, replicas=(us, OTHER), isr=(us, OTHER))
    return node


async def codes_of_each(client: Any, index: int) -> list[int]:
    """The codes of Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords for a partition of topic t."""
    asked = fetch(0)
    partition = msgspec.structs.replace(asked.topics[0].partitions[0], partition=index)
    asked = msgspec.structs.replace(asked, topics=(msgspec.structs.replace(asked.topics[0], partitions=(partition,)),))
    offsets = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("t", (ListOffsetsPartition(index, timestamp=-1),)),))
    epochs = OffsetForLeaderEpochRequest(-1, (OffsetForLeaderTopic("t", (OffsetForLeaderPartition(index, -1, 0),)),))
    deleting = DeleteRecordsRequest((DeleteRecordsTopic("t", (DeleteRecordsPartition(index, 0),)),), 1_000)
    return [
        result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a", partition=index))).error_code,
        data_of(await client.ask(ApiKey.FETCH, 12, asked)).error_code,
        (await client.ask(ApiKey.LIST_OFFSETS, 5, offsets)).topics[0].partitions[0].error_code,
        (await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs)).topics[0].partitions[0].error_code,
        (await client.ask(ApiKey.DELETE_RECORDS, 2, deleting)).topics[0].partitions[0].error_code,
    ]


async def test_a_partition_of_other_brokers_is_told_from_one_that_nobody_has(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    tell(node, PartitionImage((OTHER,), (OTHER,), BrokerId(OTHER), LeaderEpoch(2), 2), index=1)
    client = node.connect()
    assert await codes_of_each(client, 0) == [0] * 5
    assert await codes_of_each(client, 1) == [NOT_LEADER] * 5
    assert await codes_of_each(client, 2) == [UNKNOWN] * 5


async def test_a_replica_that_follows_serves_fetches_only(start_node: Any) -> None:
    node = await with_two_replicas(start_node)
    for epoch, leader in ((9, OTHER), (10, -1)):
        change(node, leader=BrokerId(leader), leader_epoch=LeaderEpoch(epoch))
        assert await codes_of_each(node.connect(), 0) == [NOT_LEADER, 0, NOT_LEADER, NOT_LEADER, NOT_LEADER]


async def test_a_new_leader_with_an_older_high_watermark_hides_the_log_end(
    start_node: Any,
) -> None:
    node = await with_two_replicas(start_node)
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
    change(node, leader_epoch=LeaderEpoch(9))

    async def ask(version: int = 5, timestamp: int = -1, replica_id: int = -1) -> tuple[int, int]:
        asked = ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp=timestamp),))
        answer = await client.ask(ApiKey.LIST_OFFSETS, version, ListOffsetsRequest(replica_id, 0, (asked,)))
        row = answer.topics[0].partitions[0]
        return row.error_code, row.offset

    not_available = ERROR_CODES["OFFSET_NOT_AVAILABLE"], -1
    assert await ask() == not_available
    assert await ask(timestamp=0) == not_available
    assert await ask(version=4) == (ERROR_CODES["LEADER_NOT_AVAILABLE"], -1)
    assert await ask(timestamp=-2) == (0, 0)
    assert await ask(replica_id=-2) == (0, 1)
    change(node, isr=(node.node.node_id,))
    assert await ask() == (0, 1)
    assert await ask(timestamp=0) == (0, 0)


async def test_a_replica_that_is_taken_away_leaves_its_directory(start_node: Any) -> None:
    node = await with_two_replicas(start_node)
    client = node.connect()
    change(node, replicas=(OTHER,), isr=(OTHER,), leader=BrokerId(OTHER), leader_epoch=LeaderEpoch(9))
    assert await codes_of_each(client, 0) == [NOT_LEADER] * 5
    assert TopicPartition("t", 0) not in node.node.broker.partitions.logs
    us = node.node.node_id
    change(node, replicas=(us,), isr=(us,), leader=us, leader_epoch=LeaderEpoch(10))
    assert await codes_of_each(client, 0) == [0] * 5


async def test_acks_all_waits_for_the_in_sync_replicas_and_acks_1_does_not(start_node: Any) -> None:
    node = await with_two_replicas(start_node)
    writer, impatient, reader = node.connect(), node.connect(), node.connect()
    assert result_of(await impatient.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))).error_code == 0
    reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=60_000))
    writer.send(ApiKey.PRODUCE, 9, produce(b"b"))
    writer.send(ApiKey.PRODUCE, 9, produce(b"c"))
    await node.turns(20)
    assert (writer.answers(), reader.answers()) == ([], [])
    change(node, isr=(node.node.node_id,))
    await node.turns(20)
    assert [(result_of(answer).error_code, result_of(answer).base_offset) for answer in writer.answers()] == [
        (0, 1),
        (0, 2),
    ]
    (answer,) = reader.answers()
    assert values_of(answer) == [b"a", b"b", b"c"]
    assert data_of(answer).high_watermark == 3


async def test_acks_all_waits_no_longer_than_the_client_says(start_node: Any) -> None:
    node = await with_two_replicas(start_node)
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
    answer = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"b", timeout_ms=0)))
    assert answer.error_code == ERROR_CODES["REQUEST_TIMED_OUT"]
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (1, -1, 0), "it is in the log"
    assert node.node.broker.waits.by_number == {}


@pytest.mark.parametrize("replica_id", [-1, -2, -4, -(1 << 31)])
async def test_a_fetch_by_a_negative_replica_id_reads_as_a_consumer(start_node: Any, replica_id: int) -> None:
    """It sees neither records that the other replica lacks, nor undecided ones. A replica that moves between
    directories (-3) does."""
    node = await with_two_replicas(start_node)
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
    for isolation_level in (0, 1):
        asked = fetch(0, replica_id=replica_id, isolation_level=isolation_level)
        assert values_of(await client.ask(ApiKey.FETCH, 11, asked)) == []
    assert values_of(await client.ask(ApiKey.FETCH, 11, fetch(0, replica_id=-3))) == [b"a"]


@pytest.mark.parametrize("records", [b"", GOOD[:-1], GOOD[:40], GOOD + GOOD, GOOD[:16] + b"\x01" + GOOD[17:]])
async def test_what_is_not_one_batch_is_refused_before_the_log(start_node: Any, records: bytes) -> None:
    """87 without a log start offset, as Kafka answers; a rejection by its log has one."""
    node = await start_node()
    await node.create_topic("t")
    client = node.connect()
    refused = result_of(await client.ask(ApiKey.PRODUCE, 9, produce_bytes(records)))
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (87, -1, -1)
    by_the_log = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a", base_offset=5)))
    assert (by_the_log.error_code, by_the_log.base_offset, by_the_log.log_start_offset) == (87, -1, 0)


async def test_only_what_is_here_moves_to_another_log_directory(start_node: Any) -> None:
    """9 if other brokers have the partition: the API keeps this code for old clients, where others answer 6."""
    node = await start_node()
    await node.create_topic("t")
    tell(node, PartitionImage((OTHER,), (OTHER,), BrokerId(OTHER), LeaderEpoch(2), 2), index=1)
    path = node.node.broker.partitions.logs.paths[0]
    asked = AlterReplicaLogDir(path, (AlterReplicaLogDirTopic("t", (0, 1, 2)),))
    answer = await node.connect().ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest((asked,)))
    assert [row.error_code for row in answer.results[0].partitions] == [0, 9, 3]


async def test_with_the_leadership_end_its_waits(start_node: Any) -> None:
    node = await with_two_replicas(start_node, flush_messages="1")
    writer, reader = node.connect(), node.connect()
    reader.send(ApiKey.FETCH, 10, fetch(0, max_wait_ms=60_000))
    writer.send(ApiKey.PRODUCE, 9, produce(b"a"))
    await node.turns(20)
    assert (writer.answers(), reader.answers()) == ([], [])
    change(node, leader=BrokerId(OTHER), leader_epoch=LeaderEpoch(9))
    await node.turns(20)
    (written,) = writer.answers()
    assert result_of(written).error_code == NOT_LEADER
    (read,) = reader.answers()
    assert data_of(read).error_code == NOT_LEADER


async def test_below_min_insync_replicas_acks_all_writes_nothing(start_node: Any) -> None:
    node = await with_two_replicas(start_node, min_insync_replicas="2")
    change(node, isr=(node.node.node_id,))
    client = node.connect()
    refused = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"a")))
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (19, -1, 0)
    taken = result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"b", acks=1)))
    assert (taken.error_code, taken.base_offset) == (0, 0)
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(0))).high_watermark == 0
    alteration = IncrementalAlterableConfig("min.insync.replicas", value="1")
    altering = IncrementalAlterConfigsRequest(
        (IncrementalAlterConfigsResource(ResourceType.TOPIC, "t", (alteration,)),)
    )
    await node.node.broker.submit(altering)
    assert data_of(await client.ask(ApiKey.FETCH, 12, fetch(0))).high_watermark == 1


async def test_the_checkpointed_high_watermark_is_where_a_replica_begins(start_node: Any) -> None:
    node = await start_node()
    [directory] = node.node.broker.partitions.logs
    place, topic_id = TopicPartition("u", 0), Uuid(b"u" * 16)
    settings = node.node.broker.partitions.log_settings(node.node.broker.image, "u")
    log = directory.create_log(place, topic_id, settings, now_ms=NOW_MS)
    for value in (b"a", b"b", b"c"):
        batch = bytearray(build_batch([(None, value, NOW_MS, ())]))
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    directory.high_watermarks[place] = 2
    us = node.node.node_id
    tell(node, PartitionImage((us, OTHER), (us, OTHER), us, LeaderEpoch(1), 0), "u", topic_id=topic_id)
    answer = await node.connect().ask(ApiKey.FETCH, 12, fetch(0, topic="u"))
    assert (values_of(answer), data_of(answer).high_watermark) == ([b"a", b"b"], 2)


async def test_a_leader_that_wrote_nothing_knows_its_epoch_for_every_reader(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    assert result_of(await node.connect().ask(ApiKey.PRODUCE, 9, produce(b"a"))).error_code == 0
    await node.node.stop()
    node = await start_node(disk=disk)
    client = node.connect()
    epoch = node.node.broker.partitions.find("t", 0).leader_epoch
    asked = OffsetForLeaderEpochRequest(-1, (OffsetForLeaderTopic("t", (OffsetForLeaderPartition(0, -1, epoch),)),))
    found = (await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, asked)).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (epoch, 1)
    read = data_of(await client.ask(ApiKey.FETCH, 12, fetch(1, last_fetched_epoch=epoch)))
    assert (read.error_code, read.diverging_epoch.epoch) == (0, -1)
