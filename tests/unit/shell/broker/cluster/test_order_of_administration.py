"""A request that follows a change of replicas, log directories or features in one segment sees the change."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.controller.features import UpgradeType
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, REGISTERED_FEATURES
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.broker_lifecycle import BrokerRegistrationRequest, RegisteredListener
from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.asyncio


async def answers_to(node: Any, *requests: tuple[ApiKey, int, Any]) -> list[Any]:
    """To requests that come in one segment."""
    client = node.connect()
    client.feed(b"".join(client.request(*request) for request in requests))
    return await client.next_answers(len(requests))


async def test_a_description_of_directories_sees_the_move_before_it(start_node: Any) -> None:
    disks = MemoryDisk(), MemoryDisk()
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.create_topic("t")
    logs = node.node.broker.partitions.logs
    (partition,) = node.node.broker.partitions
    here = logs.directory_of(partition.topic_partition)
    there = next(directory for directory in logs if directory is not here)
    move = AlterReplicaLogDirsRequest((AlterReplicaLogDir(there.path, (AlterReplicaLogDirTopic("t", (0,)),)),))
    _, described = await answers_to(
        node, (ApiKey.ALTER_REPLICA_LOG_DIRS, 2, move), (ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
    )
    found = {result.log_dir: [topic.name for topic in result.topics] for result in described.results}
    assert found[there.path] == ["t"]


async def test_a_list_of_reassignments_sees_the_one_before_it(node: Any) -> None:
    await node.create_topic("t")
    listener = RegisteredListener("PLAINTEXT", "127.0.0.1", 9092)
    directory = Uuid(b"d" * 16)
    broker, incarnation = node.node.broker, Uuid(b"i" * 16)
    other = BrokerRegistrationRequest(
        2, broker.image.cluster_id, incarnation, (listener,), REGISTERED_FEATURES, log_dirs=(directory,)
    )
    await broker.controller.submit(other)
    topic = ReassignableTopic("t", (ReassignablePartition(0, (1, 2)),))
    _, listed = await answers_to(
        node,
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, AlterPartitionReassignmentsRequest(topics=(topic,))),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest()),
    )
    assert [(topic.name, topic.partitions[0].adding_replicas) for topic in listed.topics] == [("t", (2,))]


async def test_the_features_of_a_listener_are_those_of_the_update_before(node: Any) -> None:
    for level, kind in ((0, UpgradeType.SAFE_DOWNGRADE), (1, UpgradeType.UPGRADE)):
        update = FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, level, upgrade_type=kind)
        _, told = await answers_to(
            node,
            (ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(feature_updates=(update,))),
            (ApiKey.API_VERSIONS, 3, ApiVersionsRequest("order", "1")),
        )
        levels = {feature.name: feature.max_version_level for feature in told.finalized_features}
        assert levels.get(ELIGIBLE_LEADER_REPLICAS, 0) == level
