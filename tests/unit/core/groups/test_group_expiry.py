"""Committed offsets and groups that end: by age, by DeleteGroups, by OffsetDelete. Asked of Apache Kafka 4.3.1."""

from __future__ import annotations

import struct

import pytest

from moldau.core.coordination.host import LoadedRecord
from moldau.core.coordination.machine import NO_REQUEST_ID, Now
from moldau.core.groups.counters import OFFSET_DELETIONS, OFFSET_EXPIRATIONS
from moldau.core.groups.expiry import MAX_POSITIONS_A_DECISION, MAX_TOMBSTONES
from moldau.core.groups.records import GroupMetadataRecord, OffsetRecord, OtherKindRecord, decode_group_record
from moldau.core.groups.requests import DeleteGroup, DescribeGroup, ExpireOffsets, FetchOffsets, ForgetTopics
from moldau.errors import MoldauError
from moldau.types import ZERO_UUID, Offset, ProducerEpoch, ProducerId
from moldau.wire.protocol.consumer_protocol import subscribed_topics
from moldau.wire.protocol.messages.group_admin import (
    DeletableGroupResult,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.offsets import OffsetFetchRequestGroup

RETENTION_MS = 102_000_000
CHECK_MS = 600_000


@pytest.fixture
def shard(shard_class):
    return shard_class(offsets_retention_minutes=RETENTION_MS // 60_000, offsets_retention_check_interval_ms=CHECK_MS)


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 3, len(topics)) + names + struct.pack(">i", -1)


def positions(shard, group_id: str = "g") -> list[tuple[str, int]]:
    answer = shard.ask(FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=None)))
    return [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]


def state_of(shard, group_id: str = "g") -> str:
    return shard.ask(DescribeGroup(group_id), 5).group_state


def reading(shard, *topics: str, **join: object) -> str:
    """A stable group of one consumer that reads `topics`, silent for as long as a test needs."""
    protocols = shard.protocols("range", metadata=subscription(*topics))
    return shard.begin(protocols=protocols, session_timeout_ms=1_800_000, **join)


def keep_alive(shard, member_id: str, delay_ms: int, generation: int = 1) -> None:
    for _ in range(delay_ms // 1_000_000 + 1):
        shard.wait(1_000_000)
        shard.ask(shard.beating(member_id, generation), 4)


def tombstones(shard, since: int) -> list[object]:
    return [decode_group_record(key, value) for key, value in shard.log[since:] if value is None]


# -- by age


def test_positions_of_a_group_without_members_expire_each_by_its_commit(shard) -> None:
    shard.ask(shard.committing(partition=0))
    shard.wait(RETENTION_MS // 2)
    shard.ask(shard.committing(partition=1))
    shard.wait(RETENTION_MS // 2 - CHECK_MS)
    assert positions(shard) == [("t", 0), ("t", 1)]
    before = len(shard.log)
    shard.wait(2 * CHECK_MS)
    assert positions(shard) == [("t", 1)]
    assert state_of(shard) == "Empty"
    shard.wait(RETENTION_MS)
    assert state_of(shard) == "Dead"
    ends = tombstones(shard, before)
    assert [type(record) for record in ends] == [OffsetRecord, OffsetRecord, GroupMetadataRecord]
    shard.reload()
    assert state_of(shard) == "Dead"


def test_offsets_of_an_emptied_group_expire_together_from_when_it_became_empty(shard) -> None:
    member_id = reading(shard, "t")
    shard.ask(shard.committing(member_id=member_id, generation=1))
    keep_alive(shard, member_id, RETENTION_MS + CHECK_MS)
    assert positions(shard) == [("t", 0)]
    assert shard.code(shard.leaving((member_id, None)), 5) == 0
    shard.wait(RETENTION_MS // 2)
    shard.ask(shard.committing(partition=1))
    shard.wait(RETENTION_MS // 2 - 2 * CHECK_MS)
    assert positions(shard) == [("t", 0), ("t", 1)]
    shard.wait(4 * CHECK_MS)
    assert positions(shard) == []
    assert state_of(shard) == "Dead"


def test_when_a_group_became_empty_is_known_after_a_reload(shard) -> None:
    member_id = reading(shard, "t")
    shard.ask(shard.committing(member_id=member_id, generation=1))
    shard.ask(shard.leaving((member_id, None)), 5)
    shard.wait(RETENTION_MS - CHECK_MS)
    shard.reload()
    assert positions(shard) == [("t", 0)]
    shard.wait(2 * CHECK_MS)
    assert state_of(shard) == "Dead"


def test_a_living_group_loses_positions_of_topics_that_nobody_reads_any_more(shard) -> None:
    member_id = reading(shard, "other")
    shard.ask(shard.committing(member_id=member_id, generation=1))
    keep_alive(shard, member_id, RETENTION_MS + CHECK_MS)
    assert positions(shard) == []
    assert state_of(shard) == "Stable"


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_a_group_whose_members_read_nobody_knows_what_keeps_all(shard, protocol_type: str) -> None:
    member_id = (
        shard.begin(protocol_type=protocol_type, session_timeout_ms=1_800_000, version=3)
        if (protocol_type == "consumer")
        else None
    )
    if member_id is None:
        joined = shard.ask(shard.joining(protocol_type="connect", session_timeout_ms=1_800_000), 3)
        member_id = joined.member_id
        assert shard.code(shard.syncing(member_id, 1, {member_id: b"all"}, protocol_type="connect"), 5) == 0
    shard.ask(shard.committing(member_id=member_id, generation=1))
    keep_alive(shard, member_id, RETENTION_MS + CHECK_MS)
    assert positions(shard) == [("t", 0)]


def test_a_rebalancing_group_keeps_all(shard) -> None:
    member_id = reading(shard, "other", rebalance_timeout_ms=2**31 - 1)
    shard.ask(shard.committing(member_id=member_id, generation=1))
    keep_alive(shard, member_id, RETENTION_MS - 3_000_000)
    shard.post(shard.joining(session_timeout_ms=1_800_000), 9)
    pending = shard.replies[shard.last_request_id].member_id
    shard.post(shard.joining(pending, session_timeout_ms=1_800_000, rebalance_timeout_ms=2**31 - 1), 9)
    assert state_of(shard) == "PreparingRebalance"
    keep_alive(shard, member_id, 6_000_000)
    assert state_of(shard) == "PreparingRebalance"
    assert positions(shard) == [("t", 0)]


def test_a_commits_own_retention_time_counts(shard) -> None:
    shard.ask(shard.committing(retention_time_ms=1), 4)
    shard.ask(shard.committing(partition=1), 4)
    shard.wait(CHECK_MS)
    assert positions(shard) == [("t", 1)]


def test_a_retention_time_without_end_is_kept_and_one_in_the_past_is_over(shard) -> None:
    for partition, retention_time_ms in enumerate((2**63 - 1, -(2**63), 2**62, 0)):
        assert shard.code(shard.committing(partition=partition, retention_time_ms=retention_time_ms), 4) == 0
    shard.wait(CHECK_MS)
    assert positions(shard) == [("t", 0), ("t", 2)]


def test_a_position_with_an_open_transactional_commit_stays_and_so_does_the_group(shard) -> None:
    shard.ask(shard.committing())
    record = OffsetRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=2))
    shard.host.load([LoadedRecord(Offset(len(shard.log)), record, ProducerId(7), ProducerEpoch(0))])
    shard.wait(RETENTION_MS + CHECK_MS)
    assert positions(shard) == [("t", 0)]
    assert state_of(shard) == "Empty"


def test_a_group_without_members_and_positions_ends_at_the_next_check(shard) -> None:
    member_id = reading(shard, "t")
    shard.ask(shard.leaving((member_id, None)), 5)
    assert state_of(shard) == "Empty"
    shard.wait(CHECK_MS)
    assert state_of(shard) == "Dead"


def test_a_group_of_another_kind_is_left_alone(shard) -> None:
    shard.ask(shard.committing())
    shard.host.load([LoadedRecord(Offset(len(shard.log)), OtherKindRecord("g", "consumer", False))])
    before = len(shard.log)
    shard.wait(RETENTION_MS + CHECK_MS)
    assert tombstones(shard, before) == []
    assert shard.code(DeleteGroup("g")) == 69


def test_much_that_expires_goes_in_batches_of_a_size(shard) -> None:
    for number in range(4):
        shard.ask(shard.committing(group_id=f"g{number}", partition_count=2 * MAX_TOMBSTONES + 500))
    begin = len(shard.batch_sizes)
    shard.wait(RETENTION_MS + CHECK_MS)
    assert max(shard.batch_sizes[begin:]) <= MAX_TOMBSTONES + 1
    assert shard.state.offsets == {}
    assert shard.state.groups == {}
    assert shard.counts == {OFFSET_EXPIRATIONS: 4 * (2 * MAX_TOMBSTONES + 500)}


def test_a_check_looks_at_so_many_positions_in_one_decision(shard) -> None:
    """Nothing has expired: only checked offsets end a stretch."""
    for number in range(4):
        shard.ask(shard.committing(group_id=f"g{number}", partition_count=MAX_POSITIONS_A_DECISION // 2))
    now_ms, state = shard.now_ms, shard.state
    decision = shard.host.machine.decide(state, NO_REQUEST_ID, ExpireOffsets(), Now(now_ms, now_ms))
    (timer,) = decision.timers
    assert (timer.deadline_ms, timer.request) == (now_ms, ExpireOffsets(("g2", "g3")))


def test_a_check_whose_append_fails_is_made_again(shard) -> None:
    shard.ask(shard.committing())
    shard.is_append_failing = True
    shard.wait(RETENTION_MS + CHECK_MS)
    assert positions(shard) == [("t", 0)]
    shard.is_append_failing = False
    shard.wait(CHECK_MS)
    assert positions(shard) == []


LONG = "x" * 32_000


def commit_with_long_ids(shard) -> tuple[str, ...]:
    """Two groups whose committed offsets need more tombstones than fit into one batch, and one of another name."""
    shard.max_message_bytes = 1 << 20
    group_ids = (LONG, "\U0001f30a" * 8_000, "g")
    for group_id in group_ids:
        for partition in range(0, 60, 20):
            shard.ask(shard.committing(group_id=group_id, partition=partition, partition_count=20))
    return group_ids


def test_long_group_ids_keep_no_check_from_what_has_expired(shard) -> None:
    commit_with_long_ids(shard)
    shard.wait(RETENTION_MS + CHECK_MS)
    assert (shard.state.offsets, shard.state.groups) == ({}, {})


def test_positions_of_long_group_ids_end_with_their_topic(shard) -> None:
    commit_with_long_ids(shard)
    shard.tell(ForgetTopics((("t", ZERO_UUID),)))
    assert shard.state.offsets == {}


def test_groups_with_long_ids_are_deleted(shard) -> None:
    for group_id in commit_with_long_ids(shard):
        assert shard.code(DeleteGroup(group_id)) == 0
    assert (shard.state.offsets, shard.state.groups) == ({}, {})


# -- by request


def test_a_group_is_deleted_with_its_positions(shard) -> None:
    assert shard.code(DeleteGroup("g")) == 69
    shard.ask(shard.committing())
    before = len(shard.log)
    assert shard.code(DeleteGroup("g")) == 0
    assert [type(record) for record in tombstones(shard, before)] == [OffsetRecord, GroupMetadataRecord]
    assert (positions(shard), state_of(shard)) == ([], "Dead")
    assert shard.code(DeleteGroup("g")) == 69
    shard.reload()
    assert state_of(shard) == "Dead"


def test_a_group_with_members_is_not_deleted(shard) -> None:
    member_id = reading(shard, "t")
    assert shard.code(DeleteGroup("g")) == 68
    shard.ask(shard.leaving((member_id, None)), 5)
    assert shard.code(DeleteGroup("g")) == 0


def test_a_deletion_that_cannot_be_written_changes_nothing(shard) -> None:
    shard.ask(shard.committing())
    shard.is_append_failing = True
    assert isinstance(shard.reply(shard.post(DeleteGroup("g"))), MoldauError)
    assert positions(shard) == [("t", 0)]


@pytest.mark.parametrize("is_whole_group", [True, False])
def test_a_large_deletion_that_is_refused_does_not_go_on_by_itself(shard, is_whole_group: bool) -> None:
    count = MAX_TOMBSTONES + 2
    shard.ask(shard.committing(partition_count=count))
    shard.is_append_failing = True
    refused = shard.post(DeleteGroup("g") if is_whole_group else deleting(*range(count)))
    assert isinstance(shard.reply(refused), MoldauError)
    shard.is_append_failing = False
    shard.wait(10_000)
    assert len(positions(shard)) == count


def test_a_large_deletion_whose_second_batch_is_refused_goes_on_until_it_is_answered(shard) -> None:
    shard.ask(shard.committing(partition_count=2 * MAX_TOMBSTONES + 2))
    shard.max_batches = len(shard.batch_sizes) + 1
    deletion = shard.post(DeleteGroup("g"))
    assert (shard.reply(deletion), len(positions(shard))) == (None, MAX_TOMBSTONES + 2)
    shard.max_batches = None
    shard.wait(1_000)
    assert shard.reply(deletion) == DeletableGroupResult("g")


def test_a_large_group_is_deleted_in_several_batches_and_answered_at_the_end(shard) -> None:
    shard.ask(shard.committing(partition_count=2 * MAX_TOMBSTONES + 2))
    before = len(shard.log)
    assert shard.code(DeleteGroup("g")) == 0
    assert len(tombstones(shard, before)) == 2 * MAX_TOMBSTONES + 3
    assert shard.batch_sizes[-3:] == [MAX_TOMBSTONES, MAX_TOMBSTONES, 3]
    assert shard.state.groups == {}
    # the rest of them too, though a timer continues with it
    assert shard.counts == {OFFSET_DELETIONS: 2 * MAX_TOMBSTONES + 2}


def deleting(*indexes: int, topic: str = "t", group_id: str = "g") -> OffsetDeleteRequest:
    partitions = tuple(OffsetDeleteRequestPartition(index) for index in indexes)
    return OffsetDeleteRequest(group_id, (OffsetDeleteRequestTopic(topic, partitions),))


def codes(answer) -> list[int]:
    assert answer.error_code == 0
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def test_positions_are_deleted_and_what_is_not_there_is_done(shard) -> None:
    assert shard.code(deleting(0)) == 69
    assert shard.code(deleting(0, group_id="")) == 24
    for partition in (0, 1):
        shard.ask(shard.committing(partition=partition))
    before = len(shard.log)
    assert codes(shard.ask(deleting(0, 0, 7))) == [0, 0, 0]
    assert len(shard.log) == before + 1
    assert positions(shard) == [("t", 1)]
    assert state_of(shard) == "Empty"


def test_a_topic_that_a_member_reads_keeps_its_positions(shard) -> None:
    member_id = reading(shard, "t")
    shard.ask(shard.committing(member_id=member_id, generation=1))
    assert codes(shard.ask(deleting(0))) == [86]
    assert codes(shard.ask(deleting(0, topic="other"))) == [0]
    shard.reload()
    assert codes(shard.ask(deleting(0))) == [86]
    shard.ask(shard.leaving((member_id, None)), 5)
    assert codes(shard.ask(deleting(0))) == [0]


def test_members_that_do_not_say_what_they_read_may_read_all(shard) -> None:
    shard.begin()
    assert codes(shard.ask(deleting(0))) == [86]


def test_positions_of_a_group_with_members_of_another_protocol_are_not_deleted(shard) -> None:
    shard.ask(shard.joining(protocol_type="connect"), 3)
    assert shard.code(deleting(0)) == 68


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("a", "b"), ("a", "b")),
        (subscription(), ()),
        (b"", None),
        (b"m", None),
        (b"topics", None),
        (struct.pack(">hi", -1, 0), None),
        (struct.pack(">hi", 0, -1), None),
        (struct.pack(">hi", 0, 2**31 - 1), None),
        (struct.pack(">hih", 0, 1, 5) + b"ab", None),
        (struct.pack(">hih", 0, 1, -1), None),
        (struct.pack(">hih", 0, 1, 1) + b"\xff", ("\ufffd",)),
    ],
)
def test_subscriptions_are_read_as_far_as_they_go(metadata: bytes, topics: tuple[str, ...] | None) -> None:
    assert subscribed_topics(metadata) == topics
