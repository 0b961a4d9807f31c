"""Offsets that transactions commit (KIP-98, KIP-447): when they count, and what ends them. Asked of Apache Kafka."""

from __future__ import annotations

import pytest

from moldau.core.coordination.host import LoadedRecord, LoadedTransactionEnd
from moldau.core.groups.expiry import MAX_TOMBSTONES
from moldau.core.groups.records import GroupMetadataRecord, OffsetRecord, OtherKindRecord
from moldau.core.groups.refusals import append_error, refusal
from moldau.core.groups.requests import DeleteGroup, DescribeGroup, FetchOffsets, ForgetTopics, GroupRequest
from moldau.core.metadata.image import MetadataImage
from moldau.errors import MoldauError, kafka_error
from moldau.types import NO_PRODUCER_ID, ZERO_UUID, Offset, ProducerEpoch, ProducerId, whole
from moldau.wire.protocol.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.offsets import OffsetFetchRequestGroup, OffsetFetchRequestTopics

DAY_MS = 86_400_000
MANY = 2 * MAX_TOMBSTONES + 1
"""Offsets that do not fit into two batches of tombstones."""
UNSTABLE = 88


def position(shard, partition: int = 0, *, require_stable: bool = False, group_id: str = "g") -> tuple[int, int]:
    """Committed offset and error code."""
    asked = OffsetFetchRequestGroup(
        group_id=group_id, topics=(OffsetFetchRequestTopics("t", partition_indexes=(partition,)),)
    )
    answer = shard.ask(FetchOffsets(asked, require_stable)).topics[0].partitions[0]
    return answer.committed_offset, answer.error_code


def state_of(shard, group_id: str = "g") -> str:
    return shard.ask(DescribeGroup(group_id), 5).group_state


def commit(shard, offset: int, producer_id: int = 1, version: int = 3, **fields: object) -> int:
    return shard.code(shard.in_transaction(producer_id, shard.committing(offset, **fields)), version)


def delete(shard, partition: int = 0) -> int:
    topics = (OffsetDeleteRequestTopic("t", (OffsetDeleteRequestPartition(partition),)),)
    return shard.ask(OffsetDeleteRequest("g", topics), 0).topics[0].partitions[0].error_code


# -- when it counts


@pytest.mark.parametrize(("is_commit", "found"), [(True, 7), (False, 5)])
def test_a_transactions_commit_counts_from_its_marker_on_or_never(shard, is_commit: bool, found: int) -> None:
    shard.ask(shard.committing(5))
    assert commit(shard, 6) == 0
    assert commit(shard, 7) == 0
    for _ in range(2):
        assert position(shard) == (5, 0)
        assert position(shard, require_stable=True) == (-1, UNSTABLE)
        assert position(shard, 1, require_stable=True) == (-1, 0)
        shard.reload()
    shard.end(1, is_commit=is_commit)
    for _ in range(2):
        assert position(shard, require_stable=True) == (found, 0)
        shard.reload()
    assert shard.state.pending.producers == {}


def test_of_several_transactions_each_marker_settles_its_own_commits(shard) -> None:
    commit(shard, 5, producer_id=1)
    commit(shard, 6, producer_id=2)
    shard.end(1, is_commit=True)
    assert position(shard) == (5, 0)
    assert position(shard, require_stable=True) == (-1, UNSTABLE)
    shard.end(2, is_commit=False)
    assert position(shard, require_stable=True) == (5, 0)


def test_the_later_commit_in_the_log_counts_whichever_marker_comes_first(shard) -> None:
    commit(shard, 5, producer_id=1)
    commit(shard, 6, producer_id=2)
    shard.end(2, is_commit=True)
    shard.end(1, is_commit=True)
    assert position(shard) == (6, 0)
    commit(shard, 7)
    shard.ask(shard.committing(8))
    shard.end(1, is_commit=True)
    assert position(shard) == (8, 0)


def test_a_marker_is_written_also_for_a_producer_that_committed_nothing(shard) -> None:
    shard.end(9, is_commit=True)
    assert len(shard.log) == 1
    assert shard.state.groups == {}


def test_the_commits_of_one_request_are_one_batch_of_its_producer(shard) -> None:
    commit(shard, 5, producer_id=4)
    assert shard.producers == {0: (4, 0)}


# -- who may commit


def test_a_transaction_commits_into_an_empty_group_and_creates_one(shard) -> None:
    assert commit(shard, 5) == 0
    assert state_of(shard) == "Empty"
    assert commit(shard, 5, generation=0) == 25
    assert commit(shard, 5, group_id="other", generation=0) == 22
    assert commit(shard, 5, group_id="") == 24


def test_a_producer_that_names_its_member_must_name_the_generation_too(shard) -> None:
    """Versions before 3 cannot name it, so a request without a generation may commit into a live group."""
    member_id = shard.begin()
    assert commit(shard, 5, member_id=member_id, generation=1) == 0
    assert commit(shard, 5) == 0
    assert commit(shard, 5, member_id="nobody", generation=1) == 25
    assert commit(shard, 5, member_id=member_id, generation=0) == 22
    assert commit(shard, 5, member_id=member_id, generation=2) == 22
    assert commit(shard, 5, member_id=member_id, generation=1, instance_id="nobody") == 25


def test_a_static_member_that_was_replaced_is_fenced(shard) -> None:
    first = shard.begin(instance_id="i", version=5)
    shard.ask(shard.joining(instance_id="i"), 5)
    assert commit(shard, 5, member_id=first, generation=1, instance_id="i") == 82


def test_a_member_commits_while_its_group_waits_for_the_assignment(shard) -> None:
    joined = shard.ask(shard.joining(), 3)
    assert state_of(shard) == "CompletingRebalance"
    assert shard.code(shard.committing(member_id=joined.member_id, generation=1)) == 27
    assert commit(shard, 5, member_id=joined.member_id, generation=1) == 0


def test_a_transactions_commit_prolongs_no_session(shard) -> None:
    member_id = shard.begin(session_timeout_ms=10_000)
    shard.wait(9_000)
    commit(shard, 5, member_id=member_id, generation=1)
    shard.wait(1_000)
    assert state_of(shard) == "Empty"


def test_metadata_that_is_too_long_is_refused_and_the_rest_is_recorded(shard) -> None:
    assert commit(shard, 5, metadata="x" * 4_097) == 12
    assert shard.log == []
    assert commit(shard, 5, metadata="x" * 4_096) == 0


def test_groups_past_the_bound_are_refused(shard_class) -> None:
    shard = shard_class(moldau_groups=1)
    assert commit(shard, 5) == 0
    assert commit(shard, 5, group_id="other") == 81
    assert commit(shard, 6) == 0


def test_a_share_group_has_no_positions_here(shard) -> None:
    shard.host.load([LoadedRecord(Offset(0), OtherKindRecord("g", "share", False))])
    assert commit(shard, 5) == 69


def test_a_commit_that_the_log_refuses_leaves_nothing(shard) -> None:
    shard.is_append_failing = True
    assert isinstance(shard.reply(shard.post(shard.in_transaction(1, shard.committing(5)), 3)), MoldauError)
    shard.is_append_failing = False
    assert shard.state.pending.producers == {}
    assert position(shard, require_stable=True) == (-1, 0)


@pytest.mark.parametrize(
    ("name", "code"), [("INVALID_PRODUCER_EPOCH", 47), ("MESSAGE_TOO_LARGE", 28), ("NOT_LEADER_OR_FOLLOWER", 16)]
)
def test_what_the_log_says_becomes_the_code_of_each_partition(shard, name: str, code: int) -> None:
    request = GroupRequest(shard.in_transaction(1, shard.committing(5)), 3)
    answer = whole(refusal(request, append_error(kafka_error(name), request)))
    assert [row.error_code for topic in answer.topics for row in topic.partitions] == [code]


# -- what ends it


def test_a_plain_commit_does_not_wait_for_the_transaction(shard) -> None:
    commit(shard, 5)
    shard.ask(shard.committing(6))
    assert position(shard) == (6, 0)
    assert position(shard, require_stable=True) == (-1, UNSTABLE)
    shard.end(1, is_commit=False)
    assert position(shard, require_stable=True) == (6, 0)


@pytest.mark.parametrize("had_position", [False, True])
def test_a_deleted_position_does_not_come_back_with_the_transaction(shard, had_position: bool) -> None:
    if had_position:
        shard.ask(shard.committing(4))
    commit(shard, 5, producer_id=1)
    commit(shard, 6, producer_id=2)
    commit(shard, 7, producer_id=2, partition=1)
    assert delete(shard) == 0
    for _ in range(2):
        assert position(shard, require_stable=True) == (-1, 0)
        shard.reload()
    for producer_id in (1, 2):
        shard.end(producer_id, is_commit=True)
    assert position(shard, require_stable=True) == (-1, 0)
    assert position(shard, 1, require_stable=True) == (7, 0)


@pytest.mark.parametrize("had_position", [False, True])
def test_a_deleted_group_does_not_come_back_with_the_transaction(shard, had_position: bool) -> None:
    if had_position:
        shard.ask(shard.committing(4))
    commit(shard, 5, partition_count=MANY)
    assert shard.code(DeleteGroup("g"), 2) == 0
    assert shard.batch_sizes[-3:] == [MAX_TOMBSTONES, MAX_TOMBSTONES, 2]
    assert state_of(shard) == "Dead"
    shard.end(1, is_commit=True)
    for _ in range(2):
        assert position(shard, require_stable=True) == (-1, 0)
        assert state_of(shard) == "Dead"
        shard.reload()


def test_positions_of_a_deleted_topic_end_though_a_transaction_commits_them(shard) -> None:
    shard.ask(shard.committing(4, partition=4))
    commit(shard, 5, partition_count=MANY)
    commit(shard, 5, group_id="h")
    shard.tell(ForgetTopics((("t", ZERO_UUID),)))
    assert shard.state.pending.producers == {}
    assert shard.state.pending.by_producer == {}
    shard.end(1, is_commit=True)
    assert position(shard, require_stable=True) == (-1, 0)
    assert position(shard, require_stable=True, group_id="h") == (-1, 0)


def test_pending_positions_of_a_topic_that_was_gone_at_a_load_end_too(shard) -> None:
    commit(shard, 5)
    decision = shard.host.machine.decide_loaded(shard.state, MetadataImage(), shard.now)
    assert [record.key.topic for record in decision.records] == ["t"]


def test_a_group_does_not_expire_while_a_transaction_commits_to_it(shard) -> None:
    shard.ask(shard.committing(4))
    commit(shard, 5)
    commit(shard, 6, group_id="h")
    shard.wait(30 * DAY_MS)
    assert position(shard) == (4, 0)
    assert state_of(shard, "h") == "Empty"
    shard.end(1, is_commit=False)
    shard.wait(DAY_MS)
    assert (state_of(shard), state_of(shard, "h")) == ("Dead", "Dead")
    assert shard.state.offsets == {}


def test_pending_offsets_of_a_removed_group_create_the_group_again(shard) -> None:
    """As older brokers of Apache Kafka left them: otherwise nothing would ever end them."""
    value = OffsetCommitValue(offset=5)
    producer = ProducerId(1), ProducerEpoch(0)
    shard.host.load(
        [
            LoadedRecord(Offset(0), OffsetRecord(OffsetCommitKey("g", "t", 0), value), *producer),
            LoadedRecord(Offset(1), GroupMetadataRecord(GroupMetadataKey("g"), None), NO_PRODUCER_ID),
            LoadedTransactionEnd(Offset(2), *producer, True),
        ]
    )
    assert position(shard) == (5, 0)
    assert state_of(shard) == "Empty"
