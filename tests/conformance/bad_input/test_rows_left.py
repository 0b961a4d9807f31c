"""Cases of the table of bad input that concern several APIs, old messages or internal topics: of sections "Frame and
header" (ids), "Topics", "Produce", "Idempotence", "Fetch, offsets" and "Classic groups"."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection
from tests.support.wire_groups import commit, fetch, join, joined, list_offset
from tests.support.wire_log_admin import delete as delete_records
from tests.support.wire_log_admin import wait_for_leader
from tests.support.wire_produce import batch, idempotent, now_ms, produce, stored
from tests.support.wire_topics import assigned, create, exists, topic

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


# --- topics


@pytest.mark.parametrize("version", [0, 1, 3])
def test_old_metadata_always_creates(raw: RawConnection, new_name: NewName, version: int) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=new_name("topic")),))
    assert raw.ask(request, version).topics[0].error_code == 3
    while raw.ask(request, version).topics[0].error_code:
        continue


def test_only_metadata_creates(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    for _ in range(5):
        assert produce(raw, name, batch())[0] == 3
        assert fetch(raw, name).error_code == 3
        assert list_offset(raw, name, -1, 7).error_code == 3
        assert commit(raw, "a-group", name) == 3
    assert not exists(raw, name)


def partitions_of(name: str, is_moldau: bool) -> int:
    """Of an internal topic: the test broker has few for the topics that it serves."""
    return 4 if is_moldau and name == "__transaction_state" else 50


def test_metadata_creates_internal_topics_in_their_shape(raw: RawConnection, is_moldau: bool) -> None:
    asked = (MetadataRequestTopic(name="__transaction_state"),)
    while (row := raw.ask(MetadataRequest(asked, allow_auto_topic_creation=True), 9).topics[0]).error_code:
        assert row.error_code in (3, 5)
    assert (row.is_internal, len(row.partitions)) == (True, partitions_of("__transaction_state", is_moldau))


def test_more_replicas_in_sync_than_there_are(raw: RawConnection, new_name: NewName) -> None:
    """Accepted; the effective minimum of in-sync replicas is never more than the number of replicas."""
    name = new_name("topic")
    assert create(raw, topic(name, **{"min.insync.replicas": "2"})) == [0]
    wait_for_leader(raw, name)
    assert produce(raw, name, batch()) == (0, 0)


def test_too_many_partitions_over_several_topics(raw: RawConnection, new_name: NewName) -> None:
    names = [new_name("topic"), new_name("topic")]
    assert create(raw, *(topic(name, 5_001) for name in names)) == [44, 44]
    assert not any(exists(raw, name) for name in names)


def test_an_internal_topic_has_the_shape_that_it_is_asked_for(raw: RawConnection, is_moldau: bool) -> None:
    """As in Apache Kafka, which is not tested here: it would keep the topic."""
    if not is_moldau:
        return
    code = create(raw, topic("__transaction_state", 1))[0]
    assert code in (0, 36), "another test may have made it"
    if code == 0:
        rows = raw.ask(MetadataRequest(topics=(MetadataRequestTopic(name="__transaction_state"),)), 9).topics
        assert len(rows[0].partitions) == 1
    assert create(raw, assigned("__transaction_state", (1,))) == [36]


def test_records_of_a_topic_that_also_deletes_are_deleted(raw: RawConnection, new_topic: NewTopic) -> None:
    both = new_topic(**{"cleanup.policy": "compact,delete"})
    assert delete_records(raw, both, (0, 0)) == {0: (0, 0)}


# --- produce


def old_message(magic: int) -> bytes:
    """A message in the format before 0.11: offset, size, CRC-32, magic, attributes, time from magic 1 on."""
    stamp = struct.pack(">q", now_ms()) if magic else b""
    body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("magic", [0, 1])
def test_genuine_old_messages(raw: RawConnection, new_topic: NewTopic, magic: int, version: int) -> None:
    name = new_topic()
    assert produce(raw, name, old_message(magic), version)[0] == 87
    assert stored(raw, name) == b""


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(raw: RawConnection, new_topic: NewTopic, seed: int) -> None:
    name = new_topic()
    assert produce(raw, name, random.Random(seed).randbytes(500))[0] in (2, 87)
    assert stored(raw, name) == b""
    raw.assert_alive()


def test_a_timestamp_too_old_for_its_topic(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(**{"message.timestamp.before.max.ms": "60000"})
    stamped = batch()
    assert produce(raw, name, stamped)[0] == 0
    struct.pack_into(">qq", stamped, 27, *[now_ms() - 120_000] * 2)
    assert produce(raw, name, recounted(stamped))[0] == 32


def test_timestamps_do_not_matter_where_the_broker_gives_them(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(**{"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "60000"})
    stamped = batch()
    for stamp in (0, 2**62):
        struct.pack_into(">qq", stamped, 27, stamp, stamp)
        assert produce(raw, name, recounted(stamped))[0] == 0
    attributes, _, _, largest = struct.unpack_from(">hiqq", stored(raw, name), 21)
    assert attributes & 8
    assert abs(largest - now_ms()) < 3_600_000


def recounted(changed: bytearray) -> bytes:
    from moldau.wire.records.batch import write_crc

    write_crc(changed, 0, len(changed))
    return bytes(changed)


def test_a_batch_larger_than_a_segment(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(**{"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    assert produce(raw, name, batch(bytes(2_000_000)))[0] == 18
    assert stored(raw, name) == b""
    assert produce(raw, name, batch(bytes(1_000_000))) == (0, 0)


@pytest.mark.parametrize("epoch", [-1, 7, 2**31 - 1, -(2**31)])
def test_the_leader_epoch_inside_a_batch_is_the_brokers(raw: RawConnection, new_topic: NewTopic, epoch: int) -> None:
    name = new_topic()
    changed = batch()
    struct.pack_into(">i", changed, 12, epoch)
    assert produce(raw, name, bytes(changed)) == (0, 0)
    assert struct.unpack_from(">i", stored(raw, name), 12) == (0,)


# --- idempotence


def test_a_repeat_is_known_by_its_numbers_alone(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert produce(raw, name, idempotent(0)) == (0, 0)
    other = batch(b"not the same at all", producer_id=7_000_000, producer_epoch=0, base_sequence=0)
    assert produce(raw, name, bytes(other)) == (0, 0)
    assert b"not the same" not in stored(raw, name)


def test_a_repeat_on_a_topic_with_the_brokers_times(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    assert produce(raw, name, idempotent(0)) == (0, 0)
    assert produce(raw, name, idempotent(0)) == (0, 0)
    assert produce(raw, name, idempotent(1)) == (0, 1)


def test_a_producer_without_an_epoch(raw: RawConnection, new_topic: NewTopic) -> None:
    """Accepted from a producer that is not known yet."""
    name = new_topic()
    assert produce(raw, name, idempotent(0, epoch=-2))[0] == 47
    assert stored(raw, name) == b""
    assert produce(raw, name, idempotent(0, epoch=-1)) == (0, 0)
    assert produce(raw, name, idempotent(1)) == (0, 1)
    assert produce(raw, name, idempotent(2, epoch=-1))[0] == 47


def test_the_records_to_blame_are_named(raw: RawConnection, new_topic: NewTopic) -> None:
    """KIP-467."""
    name = new_topic(**{"cleanup.policy": "compact"})
    rows = [(key, b"v", now_ms(), ()) for key in (b"k", None, b"k", None)]
    data = (TopicProduceData(name=name, partition_data=(PartitionProduceData(0, build_batch(rows)),)),)
    answer = raw.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data), 9)
    (result,) = answer.responses[0].partition_responses
    reason = f"Compacted topic cannot accept message without key in topic partition {name}-0"
    assert (result.error_code, result.base_offset, result.log_start_offset) == (87, -1, 0)
    assert [(row.batch_index, row.batch_index_error_message) for row in result.record_errors] == [
        (1, reason),
        (3, reason),
    ]
    assert result.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, message='{reason}'), "
        f"RecordError(batchIndex=3, message='{reason}')]"
    )


# --- fetch, offsets


def test_a_last_fetched_epoch(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert produce(raw, name, batch(b"a", b"b", b"c"))[0] == 0

    def ask(epoch: int, offset: int):
        row = FetchPartition(0, fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1_000)
        return raw.ask(FetchRequest(topics=(FetchTopic(topic=name, partitions=(row,)),)), 12).responses[0].partitions[0]

    assert (ask(0, 1).error_code, ask(0, 1).diverging_epoch.epoch) == (0, -1)
    assert ask(99, 1).error_code == 1


def test_fetches_of_replicas(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert produce(raw, name, batch(b"a"))[0] == 0
    for special in (-2, -3):
        assert fetch(raw, name, replica_id=special).error_code == 0


def test_the_last_of_equal_partitions_is_fetched(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    for value in (b"first", b"second"):
        assert produce(raw, name, batch(value))[0] == 0
    rows = tuple(FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000) for offset in (0, 1))
    answer = raw.ask(FetchRequest(topics=(FetchTopic(topic=name, partitions=rows),)), 11)
    found = [bytes(one.records or b"") for row in answer.responses for one in row.partitions]
    assert b"second" in found[-1]
    assert b"first" not in found[-1]


# --- classic groups


def test_a_member_hears_that_the_group_rebalances(
    raw: RawConnection, connect: Callable[[], RawConnection], new_name: NewName
) -> None:
    group, other = new_name("group"), connect()
    me = joined(raw, group)
    newcomer = join(other, group)
    assert newcomer.error_code == 79
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b"m"),)
    waiting = JoinGroupRequest(
        group_id=group,
        member_id=newcomer.member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    correlation_id = other.start(waiting, 9)
    beat = HeartbeatRequest(group_id=group, generation_id=me.generation_id, member_id=me.member_id)
    while (code := raw.ask(beat, 3).error_code) == 0:
        continue
    assert code == 27
    sync = SyncGroupRequest(group_id=group, generation_id=me.generation_id, member_id=me.member_id)
    assert raw.ask(sync, 3).error_code == 27
    assert join(raw, group, me.member_id).error_code == 0
    assert other.finish(waiting, 9, correlation_id).error_code == 0
