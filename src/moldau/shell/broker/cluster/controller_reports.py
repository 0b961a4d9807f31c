"""Reports about this broker's partitions to the controller, one request at a time.

A request holds everything reported since the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Generic, TypeVar

from moldau.shell.broker.own_node import OwnNode
from moldau.types import Uuid

MAX_PARTITIONS = 1_000
"""The most partitions in one request."""
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 10.0
"""Pauses after requests that the controller did not take. Each pause is twice as long as the one before, up to this."""

PartitionId = tuple[Uuid, int]
"""Topic id and partition."""

Said = TypeVar("Said")


class ControllerReports(Generic[Said]):
    """Used from the broker's loop only. Sends nothing before the broker is registered. `send` returns whether the
    controller took the reports. If not, they are sent again after a pause, together with newer ones."""

    def __init__(self, node: OwnNode, send: Callable[[dict[PartitionId, Said]], Awaitable[bool]]) -> None:
        self.broker_epoch = -1
        self._node = node
        self._send_one = send
        self._unsent: dict[PartitionId, Said] = {}
        self._sent: dict[PartitionId, Said] = {}
        """The reports in flight, to be sent again if the controller does not take them."""
        self._is_sending = False

    def registered(self, broker_epoch: int) -> None:
        """The broker is registered: starts to send reports."""
        self.broker_epoch = broker_epoch
        self._begin()

    def add(self, partition: PartitionId, said: Said) -> None:
        """Replaces an unsent report about this partition."""
        self._unsent[partition] = said
        self._begin()

    def forget(self, partition: PartitionId) -> None:
        """Drops the reports about this partition that the controller has not taken, as they no longer hold."""
        self._sent.pop(partition, None)
        self._unsent.pop(partition, None)

    def _begin(self) -> None:
        if self._unsent and not self._is_sending and self.broker_epoch >= 0:
            self._is_sending = True
            self._node.spawn(self._send())

    async def _send(self) -> None:
        pause_s = FIRST_RETRY_S
        try:
            # waits for one turn of the loop: the effects of one event on many partitions share one request
            await asyncio.sleep(0)
            while self._unsent:
                sent = dict(islice(self._unsent.items(), MAX_PARTITIONS))
                for partition in sent:
                    del self._unsent[partition]
                self._sent = dict(sent)
                if await self._send_one(sent):
                    pause_s = FIRST_RETRY_S
                    continue
                self._unsent = self._sent | self._unsent  # reports added meanwhile are newer
                self._sent = {}
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)
        finally:
            self._sent = {}
            self._is_sending = False
