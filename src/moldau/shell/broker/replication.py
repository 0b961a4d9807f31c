"""The replicas of this broker among those of others: passes events to them, and performs what they ask for.

What a replica may do with its own log is done in `core/replication/partition.py`; here is what goes to other nodes and
comes from them, and the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import Event, Output, ProposeIsr
from moldau.shell.broker.isr_proposals import IsrProposals
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.replica_deadlines import ReplicaDeadlines


class Replication:
    """Used from the broker's loop only. `moved`: what waits for a partition looks again."""

    def __init__(
        self, node: OwnNode, submit: Callable[[Any], Awaitable[Any]], moved: Callable[[Partition], None]
    ) -> None:
        self._node = node
        self._moved = moved
        self._deadlines = ReplicaDeadlines(node, self.step)
        self._proposals = IsrProposals(node, submit, self.step)

    def registered(self, broker_epoch: int) -> None:
        """The controller takes proposals under this epoch."""
        self._proposals.registered(broker_epoch)

    def step(self, partition: Partition, event: Event) -> None:
        """Passes the event to the replica of `partition`, unless that is gone."""
        if partition.is_deleted or partition.is_offline:
            return
        if partition.step(event, self._node.clock.monotonic_ms()):
            self._moved(partition)
        self._deadlines.arm(partition)

    def arm(self, partition: Partition) -> None:
        """The replica was told of something by somebody else: it may be due at another time."""
        self._deadlines.arm(partition)

    def fire(self) -> None:
        """Gives the time to the replicas that wait for it, as the timer does."""
        self._deadlines.fire()

    def perform(self, partition: Partition, output: Output) -> None:
        """What the replica of `partition` asks for; before its next event."""
        match output:
            case ProposeIsr():
                self._proposals.add(partition, output)

    def stop(self) -> None:
        """Nothing is asked or awaited any more."""
        self._deadlines.stop()
