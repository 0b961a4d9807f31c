"""OffsetCommit and OffsetFetch inside one shard."""

from __future__ import annotations

import msgspec
import pytest

from moldau.core.coordination.host import LoadedRecord, LoadedTransactionEnd
from moldau.core.groups.expiry import MAX_TOMBSTONES
from moldau.core.groups.records import GroupMetadataRecord, OffsetRecord, decode_group_record
from moldau.core.groups.requests import DescribeGroup, FetchOffsets, ForgetTopics
from moldau.core.groups.state import topics_with_offsets
from moldau.types import ZERO_UUID, Offset, ProducerEpoch, ProducerId
from moldau.wire.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)

TOPIC_ID = bytes(range(16))


def fetch(
    shard, *indexes: int, group_id: str = "g", topic: str = "t", stable: bool = False, topic_id: bytes = bytes(16)
):
    topics = (OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=indexes),)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    return shard.ask(FetchOffsets(group, stable)).topics[0].partitions


def fetch_all(shard, group_id: str = "g"):
    return shard.ask(FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=None))).topics


@pytest.mark.parametrize("version", range(2, 11))
def test_a_simple_consumer_commits_without_a_group(shard, version: int) -> None:
    assert shard.code(shard.committing(-3), version) == 0
    assert fetch(shard, 0, 1) == (
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=-3),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    )
    described = shard.ask(DescribeGroup("g"), 6)
    assert (described.group_state, described.protocol_type) == ("Empty", "")


def test_no_field_of_a_commit_is_lost(shard) -> None:
    """Another value gives another record in the log, another committed offset after a restart, and another response."""

    def kept(row: OffsetCommitRequestPartition) -> tuple[object, ...]:
        shard.ask(OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=(row,)),)))
        shard.reload()
        position = msgspec.structs.replace(shard.state.offsets["g"]["t"][0], record_offset=Offset(0))
        return shard.log[-1][1], position, *fetch(shard, 0)

    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    for name in OffsetCommitRequestPartition.__struct_fields__[1:]:
        other = "another" if isinstance(getattr(row, name), str) else 5
        changed = msgspec.structs.replace(row, **{name: other})
        for before, after in zip(kept(row), kept(changed), strict=True):
            assert before != after, name


def other_than(value: object) -> object:
    if isinstance(value, bytes):
        return TOPIC_ID
    if isinstance(value, tuple):
        row = OffsetCommitRequestPartition(partition_index=7, committed_offset=7)
        is_of_topics = isinstance(value[0], OffsetCommitRequestTopic)
        return (OffsetCommitRequestTopic("another", partitions=(row,)),) if is_of_topics else (row,)
    return 5 if isinstance(value, int) else "another"


def test_no_field_of_the_request_or_of_a_topic_is_lost(shard) -> None:
    """Another value is rejected, or gives another record."""
    member_id = shard.begin()

    def outcome(request: OffsetCommitRequest) -> tuple[int, object]:
        return shard.code(request), shard.log[-1]

    request = shard.committing(member_id=member_id, generation=1)
    expected = outcome(request)
    assert expected[0] == 0
    for name in OffsetCommitRequest.__struct_fields__:
        changed = msgspec.structs.replace(request, **{name: other_than(getattr(request, name))})
        assert outcome(changed) != expected, name
        assert outcome(request) == expected
    (topic,) = request.topics
    for name in OffsetCommitRequestTopic.__struct_fields__:
        changed = msgspec.structs.replace(topic, **{name: other_than(getattr(topic, name))})
        assert outcome(msgspec.structs.replace(request, topics=(changed,))) != expected, name
        assert outcome(request) == expected


def test_the_empty_group_id_is_refused(shard) -> None:
    """Kafka accepts it, but no list can ever show it."""
    assert shard.code(shard.committing(group_id="")) == 24


@pytest.mark.parametrize(("version", "code"), [(2, 22), (8, 22), (9, 69), (10, 69)])
def test_a_generation_without_a_group(shard, version: int, code: int) -> None:
    assert shard.code(shard.committing(generation=5, member_id="m"), version) == code


def test_who_may_commit_into_a_living_group(shard) -> None:
    member_id = shard.begin()
    assert shard.code(shard.committing(member_id=member_id, generation=1)) == 0
    assert shard.code(shard.committing()) == 25
    assert shard.code(shard.committing(member_id=member_id)) == 22
    assert shard.code(shard.committing(member_id=member_id, generation=2)) == 22
    assert shard.code(shard.committing(member_id="m", generation=1)) == 25
    assert shard.code(shard.committing(generation=1)) == 25
    assert shard.code(shard.committing(member_id=member_id, generation=1, instance_id="i")) == 25


def test_between_join_and_sync_a_commit_waits(shard) -> None:
    member_id = shard.ask(shard.joining(), 3).member_id
    assert shard.code(shard.committing(member_id=member_id, generation=1)) == 27


def test_during_the_join_phase_a_member_may_still_commit(shard) -> None:
    member_id = shard.begin()
    shard.post(shard.joining(), 3)
    assert shard.code(shard.committing(member_id=member_id, generation=1)) == 0


def test_an_emptied_group_takes_simple_commits_only(shard) -> None:
    member_id = shard.begin()
    shard.ask(shard.leaving((member_id, None)), 5)
    assert shard.code(shard.committing(member_id=member_id, generation=2)) == 25
    assert shard.code(shard.committing(member_id=member_id)) == 0
    assert shard.code(shard.committing()) == 0


def test_metadata_is_bounded_in_java_characters(shard) -> None:
    assert shard.code(shard.committing(metadata="x" * 4_096)) == 0
    assert shard.code(shard.committing(metadata="x" * 4_097)) == 12
    assert shard.code(shard.committing(metadata="\U0001f600" * 2_048)) == 0
    assert shard.code(shard.committing(metadata="\U0001f600" * 2_049)) == 12
    assert shard.code(shard.committing(metadata=None)) == 0
    assert fetch(shard, 0)[0].metadata == ""


def test_of_a_partition_that_is_named_again_and_again_the_last_row_is_recorded(shard) -> None:
    """A batch is limited: a million rows for one partition fit, and each gets its response."""
    rows = tuple(OffsetCommitRequestPartition(number % 2, number) for number in range(10))
    late = (OffsetCommitRequestPartition(1, 50), OffsetCommitRequestPartition(1, 60, committed_metadata="x" * 5_000))
    topics = (OffsetCommitRequestTopic(name="t", partitions=rows), OffsetCommitRequestTopic(name="t", partitions=late))
    answer = shard.ask(OffsetCommitRequest(group_id="g", topics=topics), 8)
    assert [[row.error_code for row in topic.partitions] for topic in answer.topics] == [[0] * 10, [0, 12]]
    assert [row.committed_offset for row in fetch(shard, 0, 1)] == [8, 50]
    assert len(shard.log) == 2


def test_one_bad_partition_does_not_spoil_the_others(shard) -> None:
    partitions = (
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 5_000),
        OffsetCommitRequestPartition(partition_index=1, committed_offset=2, committed_leader_epoch=4),
    )
    message = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),))
    response = shard.ask(message)
    assert [partition.error_code for partition in response.topics[0].partitions] == [12, 0]
    assert [(item.committed_offset, item.committed_leader_epoch) for item in fetch(shard, 0, 1)] == [(-1, -1), (2, 4)]


@pytest.mark.parametrize(
    ("retention_time_ms", "topic_id", "version", "expire_timestamp"),
    [(-1, bytes(16), 3, -1), (-1, TOPIC_ID, 4, -1), (5_000, TOPIC_ID, 1, 1_005_000), (-5, bytes(16), 1, 999_995)],
)
def test_the_record_has_the_oldest_version_that_can_say_it(
    shard, retention_time_ms: int, topic_id: bytes, version: int, expire_timestamp: int
) -> None:
    shard.ask(shard.committing(retention_time_ms=retention_time_ms, topic_id=topic_id), 4)
    record = decode_group_record(*shard.log[-1])
    assert isinstance(record, OffsetRecord)
    assert record.value is not None
    assert (record.version, record.value.expire_timestamp) == (version, expire_timestamp)
    assert record.value.commit_timestamp == 1_000_000


def test_all_topics_are_those_with_an_offset(shard) -> None:
    assert fetch_all(shard, "unknown") == ()
    for partition in (3, 1):
        shard.ask(shard.committing(partition, partition=partition))
    (topic,) = fetch_all(shard)
    assert [partition.partition_index for partition in topic.partitions] == [1, 3]


def test_an_offset_of_a_topics_namesake_does_not_count(shard) -> None:
    shard.ask(shard.committing(topic_id=TOPIC_ID))
    assert fetch(shard, 0, topic_id=TOPIC_ID)[0].committed_offset == 5
    assert fetch(shard, 0)[0].committed_offset == 5
    assert fetch(shard, 0, topic_id=bytes(reversed(range(16))))[0].committed_offset == -1


def test_offsets_of_deleted_topics_end_in_batches_of_a_size(shard) -> None:
    count = 2 * MAX_TOMBSTONES + 2
    shard.ask(shard.committing(partition_count=count))
    before = len(shard.log)
    shard.tell(ForgetTopics((("other", ZERO_UUID),)))
    assert len(shard.log) == before
    assert topics_with_offsets(shard.state) == ("t",)
    shard.tell(ForgetTopics((("t", ZERO_UUID),)))
    assert topics_with_offsets(shard.state) == ()
    assert [value for _, value in shard.log[before:]] == [None] * count
    assert shard.batch_sizes[-3:] == [MAX_TOMBSTONES, MAX_TOMBSTONES, 2]
    assert fetch_all(shard) == ()
    shard.reload()
    assert fetch_all(shard) == ()
    assert shard.ask(DescribeGroup("g"), 6).group_state == "Empty"


def loaded(offset: int, value: OffsetCommitValue | None, producer_id: int = -1) -> LoadedRecord:
    record = OffsetRecord(OffsetCommitKey("g", "t", 0), value)
    return LoadedRecord(Offset(offset), record, ProducerId(producer_id), ProducerEpoch(0))


def test_a_transactional_commit_counts_when_its_marker_comes(shard) -> None:
    shard.host.load([loaded(0, OffsetCommitValue(offset=1)), loaded(1, OffsetCommitValue(offset=2), 7)])
    assert fetch(shard, 0)[0].committed_offset == 1
    assert fetch(shard, 0, stable=True)[0].error_code == 88
    shard.host.load([LoadedTransactionEnd(Offset(2), ProducerId(7), ProducerEpoch(0), True)])
    assert fetch(shard, 0, stable=True)[0].committed_offset == 2


def test_an_aborted_commit_never_counted_and_a_later_plain_one_wins(shard) -> None:
    shard.host.load(
        [
            loaded(0, OffsetCommitValue(offset=1), 7),
            LoadedTransactionEnd(Offset(1), ProducerId(7), ProducerEpoch(0), False),
            loaded(2, OffsetCommitValue(offset=2), 8),
            loaded(3, OffsetCommitValue(offset=3)),
            LoadedTransactionEnd(Offset(4), ProducerId(8), ProducerEpoch(0), True),
        ]
    )
    assert fetch(shard, 0, stable=True)[0].committed_offset == 3


def test_tombstones_end_offsets_and_groups(shard) -> None:
    shard.begin()
    shard.ask(shard.committing(group_id="h"))
    key = OffsetCommitKey("h", "t", 0)
    end = len(shard.log)
    shard.host.load(
        [
            LoadedRecord(Offset(end), OffsetRecord(key, None)),
            LoadedRecord(Offset(end + 1), GroupMetadataRecord(GroupMetadataKey("g"), None)),
            LoadedRecord(Offset(end + 2), GroupMetadataRecord(GroupMetadataKey("never"), None)),
        ]
    )
    assert fetch_all(shard, "h") == ()
    assert list(shard.state.groups) == ["h"]
