"""Sends requests that only tools send, about cluster, quorum, groups, producers and directories, and changes without an
effect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop, errors_of
from moldau.wire.protocol.api_keys import ApiKey, api_key_of
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, ListGroupsRequest
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    ElectionTopicPartitions,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.protocol.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from moldau.wire.protocol.schema import Request

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

METADATA_TOPIC = "__cluster_metadata"
TOPIC, BROKER = 2, 4
EXPECTED = tuple(
    ERROR_CODES[name]
    for name in (
        "ELECTION_NOT_NEEDED",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "NO_REASSIGNMENT_IN_PROGRESS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_REPLICA_ASSIGNMENT",
        "INVALID_UPDATE_VERSION",
        "FEATURE_UPDATE_FAILED",
        "GROUP_ID_NOT_FOUND",
        "INVALID_REQUEST",
        "UNSUPPORTED_VERSION",
        "POLICY_VIOLATION",
    )
)


class Questioner(ClientLoop):
    """Sends one request after the other, in every served version. Accepts only responses that this world explains."""

    def __init__(self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def step(self) -> None:
        client = await self.client()
        if self.random.random() < 0.15:
            await self.describe_producers(client)
        request = self.random.choice(self.questions(client))
        api_key, answer = api_key_of(request), await client.request(request)
        for error_code in errors_of(answer):
            if error_code not in self.world.retriable and error_code not in EXPECTED:
                raise ViolationError(
                    "no unexpected refusals", f"{self.name}: {api_key.name} got {error_code}: {answer}"
                )
        self.world.trace.note("asked", self.name, api_key.name)
        await asyncio.sleep(self.random.choice((0.02, 0.1, 0.3)))

    async def describe_producers(self, client: Client) -> None:
        """Each idempotent producer must be known, with its last acknowledged batch."""
        topic = self.random.choice(self.topics)
        ledger = topic.ledger(self.world, self.random.randrange(topic.partitions))
        expected, legal_losses = dict(ledger.last_sequences), ledger.legal_losses
        request = DescribeProducersRequest((DescribeProducersTopic(topic.name, (ledger.partition,)),))
        answer = await client.request(request)
        described = answer.topics[0].partitions[0]
        if described.error_code or ledger.legal_losses != legal_losses:
            return
        found = {producer.producer_id: producer.last_sequence for producer in described.active_producers}
        for producer_id, sequence in expected.items():
            if found.get(producer_id, -1) < sequence:
                raise ViolationError(
                    "active producers are known", f"{ledger.name}: {producer_id} wrote up to {sequence}, told {found}"
                )

    def questions(self, client: Client) -> tuple[Request[Any], ...]:
        topic = self.random.choice(self.topics)
        name = topic.name
        page = DescribeTopicPartitionsCursor(name, 0) if self.random.random() < 0.5 else None
        return (
            ApiVersionsRequest("simulator", "1.0"),
            MetadataRequest(None),
            DescribeClusterRequest(),
            DescribeQuorumRequest((DescribeQuorumTopic(METADATA_TOPIC, (DescribeQuorumPartition(0),)),)),
            ListGroupsRequest(states_filter=self.random.choice(((), ("Stable",), ("Empty",))))
            if client.version_of(ApiKey.LIST_GROUPS) >= 4
            else ListGroupsRequest(),
            DescribeGroupsRequest(tuple(self.world.groups)),
            DescribeProducersRequest((DescribeProducersTopic(name, tuple(range(topic.partitions))),)),
            DescribeLogDirsRequest(topics=None),
            ListConfigResourcesRequest(),
            DescribeConfigsRequest((DescribeConfigsResource(BROKER, "1", None),)),
            DescribeConfigsRequest((DescribeConfigsResource(TOPIC, name, None),)),
            AlterConfigsRequest(
                (AlterConfigsResource(TOPIC, name, (AlterableConfig("flush.ms", "1000"),)),), validate_only=True
            ),
            DescribeTopicPartitionsRequest(
                (DescribeTopicPartitionsTopicRequest(name),), self.random.choice((1, 2_000)), page
            ),
            ElectLeadersRequest(topic_partitions=(ElectionTopicPartitions(name, (0,)),)),
            ListPartitionReassignmentsRequest(),
            AlterPartitionReassignmentsRequest(
                topics=(ReassignableTopic(name, (ReassignablePartition(0, self.random.choice((None, (1,), (1, 7)))),)),)
            ),
            UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey("metadata.version", 1),), validate_only=True)
            if client.version_of(ApiKey.UPDATE_FEATURES) >= 1
            else UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey("no.such.feature", 1),)),
        )
