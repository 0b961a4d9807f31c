"""A broker's reports to the controller, as messages of the protocol."""

from __future__ import annotations

import pytest

from moldau.shell.broker.cluster.directory_reports import assigned_directories
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import AssignedDirectory, AssignedPartition, AssignedTopic
from tests.support.quorum import GatedWorkers, Node, stop

A, B, HERE, THERE = (Uuid(bytes([number]) * 16) for number in range(4))


def assigned(directory: Uuid, topic: Uuid, *partitions: int) -> AssignedDirectory:
    return AssignedDirectory(
        directory, (AssignedTopic(topic, tuple(AssignedPartition(index) for index in partitions)),)
    )


def test_replicas_are_reported_in_the_order_in_which_they_came() -> None:
    replicas = {(A, 0): HERE, (A, 1): HERE, (A, 2): THERE, (A, 3): HERE, (B, 0): HERE}
    *first, last = assigned_directories(replicas.items())
    assert first == [assigned(HERE, A, 0, 1), assigned(THERE, A, 2)]
    assert last == AssignedDirectory(HERE, (*assigned(HERE, A, 3).topics, *assigned(HERE, B, 0).topics))


@pytest.mark.asyncio
async def test_a_broker_registers_and_is_unfenced_with_one_flush() -> None:
    node = Node()
    workers = GatedWorkers()
    workers.gate.set()
    for flushes, is_clean in ((1, False), (3, True), (1, False)):
        role = await node.start(workers)
        workers.runs = 0
        await node.start_broker(role)
        assert (workers.runs, role.image.brokers[1].is_fenced) == (flushes, False)
        assert role.image.brokers[1].epoch == node.broker_epoch
        if is_clean:
            await node.shut_down_broker(role)
            assert role.image.brokers[1].is_fenced
        await stop(role)
