"""The output of `kafka-topics --describe` for partitions that are being reassigned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.cli.kafka.options import parse
from moldau.cli.kafka.topics import OPTIONS, describe
from moldau.client.admin.client import ClusterAdmin
from moldau.client.protocol.access import ClusterAccess
from moldau.types import Uuid
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from moldau.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.protocol.messages.partitions import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.support.scripted_brokers import ScriptedBrokers

WORDS = ("--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAABw", "--under-replicated-partitions")


@pytest.mark.parametrize(("isr", "is_reported"), [((1, 2), False), ((1,), True)])
def test_the_replicas_that_a_reassignment_adds_are_not_missed(
    capsys: pytest.CaptureFixture[str], isr: tuple[int, ...], is_reported: bool
) -> None:
    """Replicas 1 and 2, and 3 is being added."""

    def script(request: Any) -> msgspec.Struct:
        if isinstance(request, MetadataRequest):
            row = MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=(1, 2, 3), isr_nodes=isr
            )
            topic = MetadataResponseTopic(name="t", topic_id=Uuid(bytes(15) + b"\x07"), partitions=(row,))
            return MetadataResponse(brokers=(MetadataResponseBroker(1, "one", 9092),), topics=(topic,))
        if isinstance(request, DescribeConfigsRequest):
            return DescribeConfigsResponse()
        moving = OngoingPartitionReassignment(0, (1, 2, 3), (3,), ())
        return ListPartitionReassignmentsResponse(
            error_message=None, topics=(OngoingTopicReassignment("t", (moving,)),)
        )

    with ClusterAdmin(ScriptedBrokers({("one", 9092): script}), ClusterAccess("one:9092", client_id="test")) as admin:
        describe(parse(OPTIONS, WORDS), admin)
    assert ("Topic: t" in capsys.readouterr().out) == is_reported
