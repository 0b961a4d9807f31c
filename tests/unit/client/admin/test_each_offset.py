"""Offsets of many partitions: one failure does not hide the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.offsets import each_at_time, of_led
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_brokers import ScriptedBrokers

ONE, TWO = ("one", 9092), ("two", 9092)
PARTITIONS = [TopicPartition("t", index) for index in range(4)]
LEADERS = (1, -1, 2, 1)
"""Partition 1 has none, and that of partition 2 is unreachable."""
NOT_LEADER, NOT_ALLOWED = 6, 29


class Answers:
    """Broker 1. `codes`: of the responses for partition 3 in turn, then 0."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def __call__(self, request: Any) -> msgspec.Struct:
        if isinstance(request, MetadataRequest):
            rows = tuple(
                MetadataResponsePartition(partition_index=index, leader_id=leader)
                for index, leader in enumerate(LEADERS)
            )
            brokers = (MetadataResponseBroker(1, *ONE), MetadataResponseBroker(2, *TWO))
            return MetadataResponse(brokers=brokers, topics=(MetadataResponseTopic(name="t", partitions=rows),))
        assert isinstance(request, ListOffsetsRequest)
        rows_found = []
        for row in request.topics[0].partitions:
            code = self.codes.pop(0) if row.partition_index == 3 and self.codes else 0
            rows_found.append(ListOffsetsPartitionResponse(row.partition_index, code, -1, 10 + row.partition_index))
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", tuple(rows_found)),))


def asked(answers: Answers) -> tuple[dict[int, int | str], int]:
    """By partition its offset or the name of its error; and the time that it took."""
    brokers = ScriptedBrokers({ONE: answers})
    with ClusterAdmin(brokers, ClusterAccess("one:9092", client_id="test")) as admin:
        found = each_at_time(admin, PARTITIONS, -1)
    assert list(found) == PARTITIONS
    return {
        row.partition: told.name if isinstance(told, KafkaError) else told for row, told in found.items()
    }, brokers.now_ms


def test_partitions_that_answer_are_told_beside_those_that_do_not() -> None:
    found, took_ms = asked(Answers())
    assert found == {0: 10, 1: "LEADER_NOT_AVAILABLE", 2: "NETWORK_EXCEPTION", 3: 13}
    assert 10_000 < took_ms <= 15_000  # a leader may be elected meanwhile


def test_leaderless_partitions_are_skipped_at_once_and_unreachable_ones_at_the_end() -> None:
    brokers = ScriptedBrokers({ONE: Answers()})
    with ClusterAdmin(brokers, ClusterAccess("one:9092", client_id="test")) as admin:
        assert of_led(admin, PARTITIONS[:2], -1) == [{PARTITIONS[0]: 10}]
        assert brokers.now_ms == 0
        ends = {PARTITIONS[0]: 10, PARTITIONS[3]: 13}
        assert of_led(admin, PARTITIONS, -2, -1) == [ends, ends]
        assert 10_000 < brokers.now_ms <= 15_000
        assert of_led(admin, [TopicPartition("gone", 0)], -1) == [{}]
        assert of_led(admin, [], -1) == [{}]


def test_what_is_no_matter_of_time_is_raised() -> None:
    with ClusterAdmin(
        ScriptedBrokers({ONE: Answers(NOT_ALLOWED)}), ClusterAccess("one:9092", client_id="test")
    ) as admin:
        with pytest.raises(KafkaError) as raised:
            of_led(admin, PARTITIONS, -1)
        assert raised.value.code == NOT_ALLOWED


def test_a_leader_that_has_moved_is_asked_again_and_a_refusal_is_final() -> None:
    assert asked(Answers(NOT_LEADER, NOT_LEADER))[0][3] == 13
    assert asked(Answers(NOT_LEADER, NOT_ALLOWED))[0][3] == "TOPIC_AUTHORIZATION_FAILED"
