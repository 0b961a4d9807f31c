"""Requests about offsets, and the use of their responses."""

from __future__ import annotations

import pytest

from moldau.client.protocol.offsets import (
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    CommittedOffset,
    Offsets,
    check_commit,
    check_coordinator,
    commit_request,
    list_offsets_request,
    take_committed,
    take_offsets,
)
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.coordinators import FindCoordinatorResponse
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOT_LEADER, COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID = 6, 15, 25


def test_only_the_partitions_of_the_leader_are_asked_for_with_its_epochs() -> None:
    timestamps = dict.fromkeys((A0, A1, B0), LATEST_TIMESTAMP)
    request = list_offsets_request(timestamps, {A1: 7, B0: 8}, READ_COMMITTED)
    asked = [
        (topic.name, row.partition_index, row.current_leader_epoch)
        for topic in request.topics
        for row in topic.partitions
    ]
    assert asked == [("a", 1, 7), ("b", 0, 8)]
    assert request.isolation_level == READ_COMMITTED


def test_the_first_error_is_given_and_the_other_offsets_are_taken() -> None:
    rows = (
        ListOffsetsPartitionResponse(partition_index=0, error_code=NOT_LEADER),
        ListOffsetsPartitionResponse(partition_index=1, offset=5),
    )
    found: Offsets = {B0: 1}
    error = take_offsets(ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="a", partitions=rows),)), found)
    assert str(error) == "offsets of a-0: NOT_LEADER_OR_FOLLOWER"
    assert error is not None
    assert error.is_retriable
    assert found == {B0: 1, A1: 5}


def test_a_coordinator_that_is_on_its_way_is_a_retriable_error() -> None:
    check_coordinator(FindCoordinatorResponse(node_id=1), "g")
    with pytest.raises(KafkaError, match="coordinator of 'g': COORDINATOR_NOT_AVAILABLE") as raised:
        check_coordinator(FindCoordinatorResponse(error_code=COORDINATOR_NOT_AVAILABLE), "g")
    assert raised.value.is_retriable


def test_offsets_committed_by_no_member_and_an_error_that_names_the_partition() -> None:
    request = commit_request("g", {A0: 3, B0: 4})
    assert (request.member_id, [topic.name for topic in request.topics]) == ("", ["a", "b"])
    rows = (OffsetCommitResponsePartition(partition_index=1, error_code=UNKNOWN_MEMBER_ID),)
    with pytest.raises(KafkaError, match="group 'g', a-1: UNKNOWN_MEMBER_ID"):
        check_commit(OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="a", partitions=rows),)), "g")


def test_partitions_without_a_position_are_left_out() -> None:
    rows = (
        OffsetFetchResponsePartition(partition_index=0, committed_offset=-1),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=9, committed_leader_epoch=2),
    )
    response = OffsetFetchResponse(topics=(OffsetFetchResponseTopic(name="a", partitions=rows),))
    assert take_committed(response, "g") == {A1: CommittedOffset(9, 2)}
    with pytest.raises(KafkaError, match="offsets of group 'g': COORDINATOR_NOT_AVAILABLE"):
        take_committed(OffsetFetchResponse(error_code=COORDINATOR_NOT_AVAILABLE), "g")
