"""The committed offsets of a deleted topic end, even if the log has no room at first; those of a new topic with its
name stay."""

from __future__ import annotations

import pytest

from moldau.core.coordination.machine import NO_REQUEST_ID
from moldau.core.groups.expiry import MAX_TOMBSTONES
from moldau.core.groups.requests import FetchOffsets, GroupRequest
from moldau.core.metadata.image import MetadataDelta, MetadataImage, TopicImage
from moldau.errors import MoldauError
from moldau.types import ZERO_UUID
from moldau.wire.protocol.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.offsets import OffsetFetchRequestGroup

OLD, NEW = bytes(range(16)), bytes(range(16, 32))
A_WHILE_MS = 10_000
MANY = 2 * MAX_TOMBSTONES + 2


def positions(shard, group_id: str = "g") -> list[tuple[int, int]]:
    """Partitions of topic t with their offsets."""
    answer = shard.ask(FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=None)))
    return [(row.partition_index, row.committed_offset) for topic in answer.topics for row in topic.partitions]


def delete_topic(shard, topic_id: bytes = OLD) -> None:
    """The metadata loses topic t."""
    delta = MetadataDelta()
    delta.deleted_topics = {topic_id: TopicImage("t", topic_id, {})}
    shard._take(NO_REQUEST_ID, shard.host.machine.decide_metadata(shard.state, MetadataImage(), delta, shard.now))


@pytest.mark.parametrize("topic_id", [OLD, ZERO_UUID], ids=["with an id", "without one"])
def test_positions_that_found_no_room_end_when_there_is_some(shard, topic_id: bytes) -> None:
    shard.ask(shard.committing(5, topic_id=topic_id))
    shard.is_append_failing = True
    delete_topic(shard)
    shard.wait(A_WHILE_MS)
    assert positions(shard) == [(0, 5)]
    shard.is_append_failing = False
    shard.wait(A_WHILE_MS)
    assert positions(shard) == []
    assert shard.host.next_deadline_ms() > shard.now_ms + A_WHILE_MS  # and no more attempts follow


def test_positions_that_found_no_room_at_a_load_end_when_there_is_some(shard) -> None:
    shard.ask(shard.committing(5, topic_id=OLD))
    shard.is_append_failing = True
    shard._take(NO_REQUEST_ID, shard.host.machine.decide_loaded(shard.state, MetadataImage(), shard.now))
    shard.wait(A_WHILE_MS)
    assert positions(shard) == [(0, 5)]
    shard.is_append_failing = False
    shard.wait(A_WHILE_MS)
    assert positions(shard) == []


def test_what_a_new_topic_of_the_name_has_meanwhile_stays(shard) -> None:
    shard.ask(shard.committing(5, partition_count=2, topic_id=OLD))
    shard.is_append_failing = True
    delete_topic(shard)
    shard.is_append_failing = False
    shard.ask(shard.committing(7, partition=1, topic_id=NEW))
    shard.wait(A_WHILE_MS)
    assert positions(shard) == [(1, 7)]
    shard.reload()
    assert positions(shard) == [(1, 7)]


def test_the_rest_of_a_long_list_leaves_what_the_new_topic_has_meanwhile(shard) -> None:
    """The rest comes in separate decisions, and a commit for the new topic may be decided between two of them."""
    shard.ask(shard.committing(5, partition_count=MANY, topic_id=OLD))
    delete_topic(shard)
    left = shard.state.offsets["g"]["t"]
    assert len(left) == MANY - MAX_TOMBSTONES
    last = max(left)
    shard._submit(1_000, GroupRequest(shard.committing(7, partition=last, topic_id=NEW), 9, "c", "h"))
    shard.wait(A_WHILE_MS)
    assert positions(shard) == [(last, 7)]


def test_a_deletion_that_is_told_late_leaves_what_the_new_topic_has(shard) -> None:
    """The earlier coordinator had accepted the commit: it knew both topics."""
    shard.ask(shard.committing(7, topic_id=NEW))
    shard.ask(shard.committing(5, partition=1, topic_id=OLD))
    delete_topic(shard)
    shard.wait(A_WHILE_MS)
    assert positions(shard) == [(0, 7)]


def test_what_a_transaction_commits_for_the_new_topic_stays(shard) -> None:
    shard.ask(shard.committing(5, topic_id=OLD))
    commit = shard.in_transaction(1, shard.committing(7, topic_id=NEW))
    assert shard.code(commit, 3) == 0
    delete_topic(shard)
    shard.end(1, is_commit=True)
    assert positions(shard) == [(0, 7)]


# -- OffsetDelete


def deleting(count: int) -> OffsetDeleteRequest:
    """Each partition twice, and two topics without committed offsets around."""
    rows = tuple(OffsetDeleteRequestPartition(index % count) for index in range(2 * count))
    topics = (("a", rows[:1]), ("t", rows), ("z", rows[:1]))
    return OffsetDeleteRequest("g", tuple(OffsetDeleteRequestTopic(*topic) for topic in topics))


def test_offsets_that_exceed_a_batch_are_deleted_in_several_and_answered_once(shard) -> None:
    shard.max_message_bytes = 32_000
    for partition in range(0, 5_000, 500):
        shard.ask(shard.committing(partition=partition, partition_count=500))
    answer = shard.ask(deleting(5_000))
    assert answer.error_code == 0
    indexes = list(range(5_000))
    assert [(topic.name, [row.partition_index for row in topic.partitions]) for topic in answer.topics] == [
        ("a", [0]),
        ("t", indexes + indexes),
        ("z", [0]),
    ]
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {0}
    assert positions(shard) == []
    assert shard.batch_sizes[-5:] == [MAX_TOMBSTONES] * 5


def test_a_member_that_reads_the_topic_meanwhile_keeps_the_rest(shard) -> None:
    shard.ask(shard.committing(partition_count=MANY))
    shard._submit(1_000, GroupRequest(deleting(MANY), 0, "c", "h"))
    assert len(shard.state.offsets["g"]["t"]) == MANY - MAX_TOMBSTONES
    shard._submit(1_001, GroupRequest(shard.joining(protocol_type="connect"), 3, "c", "h"))
    shard.parked[1_000] = 0
    shard.wait(0)
    assert shard.replies[1_000].error_code == 68
    assert len(positions(shard)) == MANY - MAX_TOMBSTONES


def test_a_deletion_of_many_positions_that_cannot_be_written_is_an_error(shard) -> None:
    shard.ask(shard.committing(partition_count=MANY))
    shard.is_append_failing = True
    assert isinstance(shard.reply(shard.post(deleting(MANY))), MoldauError)
    assert len(positions(shard)) == MANY
