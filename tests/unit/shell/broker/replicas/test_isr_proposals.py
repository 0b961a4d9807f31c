"""In-sync replicas: a broker's requests to the controller, and their times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import FetchedUpTo, ReplicationSettings
from moldau.errors import ERROR_CODES, kafka_error
from moldau.shell.broker.replicas.replication import Replication
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import BrokerId, LeaderEpoch, TopicPartition, Uuid
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
)

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000
TOPIC_ID = Uuid(b"t" * 16)
EPOCHS = {1: 10, 2: 20, 3: 30}


class Controller:
    """Across the network: its responses come when the test releases them, and accept unless `error` is set."""

    def __init__(self) -> None:
        self.asked: list[AlterPartitionRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = ""
        self.is_away = False

    async def submit(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.asked.append(request)
        await self.gate.wait()
        if self.is_away:
            raise kafka_error("NETWORK_EXCEPTION")
        (topic,) = request.topics
        return AlterPartitionResponse(
            topics=(
                AlteredTopic(
                    topic.topic_id,
                    tuple(
                        AlteredPartition(
                            row.partition_index,
                            ERROR_CODES[self.error] if self.error else 0,
                            1,
                            row.leader_epoch,
                            tuple(replica.broker_id for replica in row.new_isr_with_epochs),
                            0,
                            row.partition_epoch + 1,
                        )
                        for row in topic.partitions
                    ),
                ),
            )
        )

    @property
    def proposed(self) -> list[dict[int, tuple[int, ...]]]:
        """For each request the in-sync replicas by partition."""
        return [
            {
                row.partition_index: tuple(replica.broker_id for replica in row.new_isr_with_epochs)
                for topic in request.topics
                for row in topic.partitions
            }
            for request in self.asked
        ]


class Story:
    """Broker 1 leads partitions of topic t with the in-sync replicas `isr` of 1, 2 and 3."""

    def __init__(self, node: Any, isr: tuple[int, ...], count: int = 1) -> None:
        self.node = node
        self.controller = Controller()
        broker = node.node.broker
        self.replication = Replication(
            broker.own_node,
            broker.partitions.logs,
            broker.partitions.flusher,
            broker.partitions.checkpoints,
            broker.others,
            self.controller.submit,
            lambda partition: None,
            lambda partition: None,
        )
        self.partitions = [self._partition(index, isr) for index in range(count)]
        self.replication.registered(10)

    def _partition(self, index: int, isr: tuple[int, ...]) -> Partition:
        place = TopicPartition("t", index)
        log = Log.open(MemoryDisk(), str(place), place, TOPIC_ID, LogSettings(), now_ms=NOW_MS)
        settings = ReplicationSettings(2, replica_lag_time_max_ms=10_000)
        partition = Partition(log, index, BrokerId(1), settings, self.replication.perform)
        image = PartitionImage((1, 2, 3), isr, BrokerId(1), LeaderEpoch(5), 0)
        partition.metadata_changed(image, EPOCHS, self.node.clock.monotonic_ms())
        self.replication.arm(partition)
        return partition

    def fetched(self, replica: int, offset: int = 0) -> None:
        for partition in self.partitions:
            self.replication.step(partition, FetchedUpTo(replica, EPOCHS[replica], 5, offset))

    async def after(self, duration_ms: int) -> None:
        self.node.clock.advance(duration_ms)
        self.replication.fire()
        await self.node.turns(10)


async def test_a_follower_that_has_caught_up_joins_with_its_broker_epoch(start_node: Any) -> None:
    story = Story(await start_node(), (1, 2))
    story.fetched(3)
    await story.node.turns(10)
    (request,) = story.controller.asked
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    (row,) = request.topics[0].partitions
    assert (row.leader_epoch, row.partition_epoch) == (5, 0)
    assert row.new_isr_with_epochs == (BrokerState(1, 10), BrokerState(2, 20), BrokerState(3, 30))
    leader = story.partitions[0].leader
    assert leader is not None
    assert (leader.partition.isr, leader.partition.partition_epoch) == ((1, 2, 3), 1)


async def test_who_does_not_fetch_for_too_long_leaves(start_node: Any) -> None:
    story = Story(await start_node(), (1, 2, 3))
    for _ in range(2):
        await story.after(5_000)
        story.fetched(2)
        assert story.controller.asked == []
    await story.after(5_000)
    assert story.controller.proposed == [{0: (1, 2)}]


async def test_what_many_partitions_propose_at_once_is_one_request_and_one_is_under_way(start_node: Any) -> None:
    story = Story(await start_node(), (1,), count=3)
    story.controller.gate.clear()
    story.fetched(2)
    await story.node.turns(10)
    assert story.controller.proposed == [dict.fromkeys(range(3), (1, 2))]
    story.controller.gate.set()
    await story.node.turns(10)
    story.fetched(3)
    await story.node.turns(10)
    assert story.controller.proposed[1:] == [dict.fromkeys(range(3), (1, 2, 3))]


async def test_a_controller_that_does_not_answer_is_asked_again(start_node: Any) -> None:
    story = Story(await start_node(), (1, 2))
    story.controller.is_away = True
    story.fetched(3)
    await story.node.turns(10)
    story.controller.is_away = False
    await story.after(999)
    assert len(story.controller.asked) == 1
    await story.after(1)
    assert story.controller.proposed == [{0: (1, 2, 3)}] * 2
    leader = story.partitions[0].leader
    assert leader is not None
    assert leader.partition.isr == (1, 2, 3)


async def test_a_refused_replica_is_proposed_again_when_it_fetches_again(start_node: Any) -> None:
    story = Story(await start_node(), (1, 2))
    story.controller.error = "INELIGIBLE_REPLICA"
    story.fetched(3)
    await story.node.turns(10)
    story.controller.error = ""
    story.fetched(3)
    await story.node.turns(10)
    assert story.controller.proposed == [{0: (1, 2, 3)}] * 2


async def test_nothing_is_due_for_partitions_without_followers(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", partitions=3)
    assert all(each.replica.next_deadline_ms() is None for each in node.node.broker.partitions)
