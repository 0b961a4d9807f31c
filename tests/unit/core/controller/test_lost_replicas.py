"""Replicas that their broker reports as lost because its disk is full: others lead, and all return (KIP-858)."""

from __future__ import annotations

import pytest

from moldau.core.metadata.image import LOST_DIRECTORY
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord
from tests.support.controller import SESSION_MS, Controller, directory


def lies_in(cluster: Controller, broker_id: int, topic_id: Uuid, directory_id: Uuid) -> None:
    """The broker reports this directory for its replica of partition 0."""
    directories = (AssignedDirectory(directory_id, (AssignedTopic(topic_id, (AssignedPartition(0),)),)),)
    cluster.ask(AssignReplicasToDirsRequest(broker_id, cluster.epoch(broker_id), directories))


def test_a_lost_replica_leaves_the_in_sync_ones_each_time_that_it_is_reported() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    lies_in(cluster, 2, topic_id, LOST_DIRECTORY)
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    cluster.propose(1, 1, 2)
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1, 2))
    lies_in(cluster, 2, topic_id, LOST_DIRECTORY)
    assert cluster.partition.isr == (1,)
    assert cluster.last == (PartitionChangeRecord(0, topic_id, isr=(1,), directories=(LOST_DIRECTORY, directory(1))),)


def test_leadership_does_not_go_back_to_a_preferred_replica_that_is_lost() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    lies_in(cluster, 2, topic_id, LOST_DIRECTORY)
    cluster.propose(1, 1, 2)
    while cluster.now_ms < 300_000 + SESSION_MS:
        assert cluster.wait(SESSION_MS - 1) == []
        cluster.beat(2)
    lies_in(cluster, 2, topic_id, directory(2))
    while cluster.now_ms < 600_000 + SESSION_MS and cluster.partition.leader == 1:
        cluster.wait(SESSION_MS - 1)
        cluster.beat(2)
    assert cluster.partition.leader == 2


def test_a_replica_that_waits_without_a_leader_leads_once_it_is_not_lost() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    lies_in(cluster, 2, topic_id, LOST_DIRECTORY)
    cluster.propose(1, 1, 2)
    cluster.state.apply(PartitionChangeRecord(0, topic_id, isr=(2,), leader=-1))
    lies_in(cluster, 2, topic_id, directory(2))
    assert cluster.partition.leader == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_replica_in_a_directory_that_nobody_knows_may_lead(number: int) -> None:
    """Kafka's controllers write 0 for a broker without directories, and 1 for one with several."""
    cluster = Controller(1, 2)
    topic_id = cluster.create(1, 2)
    unknown = Uuid(number.to_bytes(16, "big"))
    cluster.state.apply(PartitionChangeRecord(0, topic_id, directories=(directory(1), unknown)))
    cluster.beat(1, want_fence=True)
    assert cluster.partition.leader == 2
