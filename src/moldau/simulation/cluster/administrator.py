"""An administrator of a cluster: moves replicas, cancels moves, elects preferred leaders, and removes and adds voters
of the quorum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.cluster.machine import voter
from moldau.simulation.cluster.settings import (
    REPLICAS,
    Voters,
    brokers_of,
    fewest_replicas_of,
    settings_of,
    voters_of,
)
from moldau.simulation.workloads.client_loop import ClientLoop, errors_of
from moldau.types import METADATA_PARTITION, ZERO_UUID, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest

if TYPE_CHECKING:
    from moldau.simulation.cluster.world import ClusterWorld

RESTS_S = (0.5, 2.0, 6.0)
FEWEST_VOTERS = 2
INTERNAL_SHARE = 0.3
"""The share of moves of an internal topic, whose coordinators move with it."""
FIRST_VERSION_WITH_DIRECTORIES = 2
EXPECTED = tuple(
    ERROR_CODES[name]
    for name in (
        "INVALID_REPLICA_ASSIGNMENT",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "NO_REASSIGNMENT_IN_PROGRESS",
        "DUPLICATE_VOTER",
        "VOTER_NOT_FOUND",
    )
)
"""A broker that should get a replica is fenced; there is nothing to do; or a node has joined by itself."""


def internal_topics_of(seed: int) -> tuple[SimulatedTopic, ...]:
    """The topics that are created on first use, and can be moved only after that."""
    settings = settings_of(seed, brokers_of(seed)[0])
    partitions = {
        OFFSETS_TOPIC: settings["offsets.topic.num.partitions"],
        TRANSACTION_STATE_TOPIC: settings["transaction.state.log.num.partitions"],
    }
    return tuple(SimulatedTopic(name, ZERO_UUID, int(count)) for name, count in partitions.items())


class Administrator(ClientLoop):
    world: ClusterWorld

    def __init__(
        self, world: ClusterWorld, name: str, topics: tuple[SimulatedTopic, ...], careless: SimulatedTopic
    ) -> None:
        """`careless`: the one of `topics` that may have fewer than REPLICAS."""
        super().__init__(world, name)
        self.topics = topics
        self.careless = careless
        self.internal_topics = internal_topics_of(world.seed)
        self.moves_of_internal = world.random_of("moves of internal topics")
        self.replicas = world.random_of("replicas of the careless topic")
        self.node_ids = brokers_of(world.seed)
        self.voters = voters_of(world.seed)

    async def step(self) -> None:
        await asyncio.sleep(self.random.choice(RESTS_S))
        if self.world.is_draining:
            return
        client = await self.client()
        if self.voters is not Voters.CONFIGURED and self.random.random() < 0.5:
            await self.change_voters(client)
        else:
            await self.move_replicas(client)

    async def move_replicas(self, client: Client) -> None:
        topic = self.random.choice(self.topics)
        if self.moves_of_internal.random() < INTERNAL_SHARE:
            topic = self.moves_of_internal.choice(self.internal_topics)
        draw = self.random.random()
        if draw < 0.3:
            answer: object = await client.request(ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000))
        else:
            replicas = None if draw < 0.4 else tuple(self.random.sample(self.node_ids, REPLICAS))
            if replicas is not None and topic is self.careless:
                replicas = replicas[: self.replicas.randint(fewest_replicas_of(self.world.seed), REPLICAS)]
            row = ReassignablePartition(self.random.randrange(topic.partitions), replicas)
            self.world.trace.tell(f"{topic.name}-{row.partition_index} is to lie on {replicas}")
            answer = await client.request(
                AlterPartitionReassignmentsRequest(5_000, topics=(ReassignableTopic(topic.name, (row,)),))
            )
        self.take(answer, "a change of replicas")

    async def change_voters(self, client: Client) -> None:
        """Removes a voter whose disk is lost; else adds a controller that is not a voter; else removes any voter, if
        allowed."""
        known = await self.known_voters(client)
        controllers = [machine for machine in self.world.machines if machine.is_controller]
        live = {machine.node_id: machine.directory_id for machine in controllers}
        lost = [key for key in known if live[key[0]] != key[1]]
        missing = [node_id for node_id in live if node_id not in dict(known)]
        if not lost and not missing and self.voters is Voters.CHANGED and len(known) > FEWEST_VOTERS:
            lost = [self.random.choice(known)]
        if known and lost:
            self.world.trace.tell(f"node {lost[0][0]} is to be no voter")
            self.take(await client.request(RemoveRaftVoterRequest(None, *lost[0])), "RemoveRaftVoter")
        elif known and missing:
            new = voter(missing[0], live[missing[0]])
            self.world.trace.tell(f"node {new.voter_id} is to be a voter")
            adding = AddRaftVoterRequest(None, 5_000, new.voter_id, new.voter_directory_id, new.endpoints)
            self.take(await client.request(adding), "AddRaftVoter")

    async def known_voters(self, client: Client) -> list[tuple[int, Uuid]]:
        """The node id and directory of each voter; empty if no broker knows them now."""
        least = max(FIRST_VERSION_WITH_DIRECTORIES, client.versions[ApiKey.DESCRIBE_QUORUM])
        client.versions[ApiKey.DESCRIBE_QUORUM] = least
        topic = DescribeQuorumTopic(METADATA_PARTITION.topic, (DescribeQuorumPartition(0),))
        answer = await client.request(DescribeQuorumRequest((topic,)))
        self.take(answer, "DescribeQuorum")
        described = [row for topic in answer.topics for row in topic.partitions]
        return [(each.replica_id, each.replica_directory_id) for row in described for each in row.current_voters]

    def take(self, answer: object, what: str) -> None:
        for error_code in errors_of(answer):
            if error_code not in EXPECTED:
                self.must_be_retriable(error_code, what)
