"""A world from the view of its clients: how they connect to brokers, and the promises to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

import msgspec

from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.checkers.ledger import Ledger, PartitionLedger, TopicRules
from moldau.simulation.client import Client
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.violation import ViolationError
from moldau.types import Uuid


class SimulatedTopic(msgspec.Struct, frozen=True):
    """A topic that clients know by name and id."""

    name: str
    topic_id: Uuid
    partitions: int
    is_compacted: bool = False

    def ledger(self, world: ClientWorld, partition: int) -> PartitionLedger:
        return world.ledger.partition(self.topic_id, partition)


class ClientWorld(Surroundings, ABC):
    """`clock`: the clock for the timestamps of clients' records."""

    retriable: tuple[int, ...] = (3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 41, 56, 100)
    """Errors that a client must handle on a node that starts, stops, or has lost its disk."""
    pauses_s: tuple[float, ...] = (0.001, 0.01, 0.05, 0.1, 0.2)
    """A client pauses for one of these between two requests."""

    def __init__(
        self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None, clock: SimulatedClock
    ) -> None:
        super().__init__(seed, loop, write_line)
        self.clock = clock
        self.ledger = Ledger(clock.latest_ms, lambda: clock.setback_ms)
        self.groups: dict[str, GroupLedger] = {}
        self.is_draining = False
        self.transaction_events: dict[TransactionEvent, int] = {}
        """How often each event has occurred so far."""
        self._producer_ids: dict[tuple[int, int], int] = {}

    @abstractmethod
    async def connect(self, name: str, random: Random) -> Client:
        """Opens a connection for the client `name`. Raises UnansweredError if no broker serves."""

    @property
    @abstractmethod
    def is_disk_limited(self) -> bool:
        """Whether the space of some disk is limited now."""

    def coordinates(self, client: Client, transactional_id: str) -> bool:
        """Whether the broker with the latest response to `client` is now the coordinator of `transactional_id`. A
        replaced coordinator that does not know it yet answers from its memory, which a client cannot notice."""
        return True

    def producer_id_given(self, producer_id: int, producer_epoch: int) -> None:
        """InitProducerId without a transactional id never returns the same result twice, over all crashes."""
        key = (producer_id, producer_epoch)
        if key in self._producer_ids:
            raise ViolationError("producer ids are given once", f"{key} after {self._producer_ids[key]} others")
        self._producer_ids[key] = len(self._producer_ids)

    def new_topic(self, name: str, topic_id: Uuid, partitions: int, rules: TopicRules) -> SimulatedTopic:
        self.ledger.add_topic(name, topic_id, partitions, rules)
        return SimulatedTopic(name, topic_id, partitions, rules.is_compacted)

    def count(self, event: TransactionEvent) -> None:
        """Counts an event of a transaction. This is not a rule, and not part of the trace."""
        self.transaction_events[event] = self.transaction_events.get(event, 0) + 1
