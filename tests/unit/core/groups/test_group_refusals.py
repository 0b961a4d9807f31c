"""The client's response when a whole group request failed."""

from __future__ import annotations

import pytest

from moldau.core.groups.refusals import append_error, refusal
from moldau.core.groups.requests import DescribeGroup, FetchOffsets, GroupMessage, GroupRequest
from moldau.errors import InvariantError, MoldauError, StorageFailedError, StorageFullError, kafka_error
from moldau.types import whole
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

COMMIT = OffsetCommitRequest(
    group_id="g", topics=(OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(3),)),)
)
FETCH = FetchOffsets(OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("t", partition_indexes=(3,)),)))


@pytest.mark.parametrize(
    ("message", "versions"),
    [
        (JoinGroupRequest(group_id="g", member_id="m"), range(10)),
        (SyncGroupRequest(group_id="g"), range(6)),
        (HeartbeatRequest(group_id="g"), range(5)),
        (LeaveGroupRequest(group_id="g"), range(6)),
        (ListGroupsRequest(), range(6)),
    ],
)
def test_the_error_is_on_top_and_every_version_can_say_it(message: GroupMessage, versions: range) -> None:
    for version in versions:
        response = whole(refusal(GroupRequest(message, version), 16))
        assert response.error_code == 16  # type: ignore[union-attr]
        encode_message(response, version)


def test_a_refused_commit_says_it_for_each_partition() -> None:
    for version in range(2, 11):
        response = whole(refusal(GroupRequest(COMMIT, version), 14))
        assert [item.error_code for item in response.topics[0].partitions] == [14]  # type: ignore[union-attr]
        encode_message(response, version)


def test_a_refused_fetch_says_it_for_each_partition_in_v1_only() -> None:
    old = whole(refusal(GroupRequest(FETCH, 1), 14))
    assert [(item.partition_index, item.error_code) for item in old.topics[0].partitions] == [(3, 14)]  # type: ignore[union-attr]
    new = whole(refusal(GroupRequest(FETCH, 2), 14))
    assert (new.topics, new.error_code) == ((), 14)  # type: ignore[union-attr]


def test_a_refused_description_names_its_group() -> None:
    response = whole(refusal(GroupRequest(DescribeGroup("g"), 6), 14))
    assert (response.group_id, response.error_code) == ("g", 14)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageFullError(), 16),
        (StorageFailedError(), 16),
        (kafka_error("KAFKA_STORAGE_ERROR"), 16),
        (kafka_error("NOT_LEADER_OR_FOLLOWER"), 16),
        (kafka_error("NOT_ENOUGH_REPLICAS"), 15),
        (kafka_error("UNKNOWN_TOPIC_OR_PARTITION"), 15),
        (kafka_error("MESSAGE_TOO_LARGE"), -1),
        (kafka_error("COORDINATOR_NOT_AVAILABLE"), 15),
        (InvariantError("x"), -1),
    ],
)
def test_a_client_never_hears_of_the_offsets_topic(error: MoldauError, code: int) -> None:
    assert append_error(error, GroupRequest(HeartbeatRequest(), 0)) == code


def test_a_commit_that_is_too_large_is_told_so() -> None:
    assert append_error(kafka_error("MESSAGE_TOO_LARGE"), GroupRequest(COMMIT, 2)) == 28
