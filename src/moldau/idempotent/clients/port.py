"""What the library asks of a Kafka client. Methods of blocking clients return without suspending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from moldau.idempotent.records import Headers, Partition, Record


class Watcher(Protocol):
    """Learns of rebalances, from the client's callbacks."""

    async def on_assigned(self, places: Sequence[Partition]) -> Mapping[Partition, int]:
        """Gives where to start; partitions that it does not name start at the group's committed offset."""

    async def on_revoked(self, places: Sequence[Partition]) -> None:
        """The partitions go to other consumers after this call."""

    async def on_lost(self, places: Sequence[Partition]) -> None:
        """The partitions may have other consumers already."""


class Consuming(Protocol):
    """A consumer of a client, in a group, with enable.auto.commit=false."""

    def subscribe(self, topics: Sequence[str], watcher: Watcher) -> None:
        """Joins the group at the next poll."""

    async def poll(self, timeout_s: float, at_most: int) -> list[Record]:
        """Waits for the first record, and gives it with those that have already arrived."""

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commits next offsets, and waits for the answer."""

    async def seek(self, place: Partition, offset: int) -> None:
        """The next poll begins there."""

    async def pause(self, place: Partition) -> None:
        """Polls give no record of the partition until `resume`."""

    async def resume(self, place: Partition) -> None:
        """Ends a pause."""


class Producing(Protocol):
    """A producer of a client."""

    async def deliver(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Returns when the record is acknowledged. Raises DeliveryError, or the client's error."""
