"""What this broker tells the controller of its partitions: one report at a time, of all that has come by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Generic, TypeVar

from moldau.shell.broker.own_node import OwnNode
from moldau.types import Uuid

MAX_PARTITIONS = 1_000
"""In one report."""
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 10.0
"""Pauses behind reports that the controller did not take: each twice as long as the one before."""

PartitionId = tuple[Uuid, int]
"""Topic id and partition."""

Said = TypeVar("Said")


class ControllerReports(Generic[Said]):
    """Used from the broker's loop only. Nothing is sent before the broker is registered. `send` gives whether the
    controller was told; else the reports are kept, and sent again after a pause, with what came meanwhile."""

    def __init__(self, node: OwnNode, send: Callable[[dict[PartitionId, Said]], Awaitable[bool]]) -> None:
        self.broker_epoch = -1
        self._node = node
        self._send_one = send
        self._unsent: dict[PartitionId, Said] = {}
        self._sent: dict[PartitionId, Said] = {}
        """Of the report that is under way, what is to be said again if the controller does not take it."""
        self._is_sending = False

    def registered(self, broker_epoch: int) -> None:
        """The controller takes reports from now on."""
        self.broker_epoch = broker_epoch
        self._begin()

    def add(self, partition: PartitionId, said: Said) -> None:
        """In place of what was said of this partition and not sent yet."""
        self._unsent[partition] = said
        self._begin()

    def forget(self, partition: PartitionId) -> None:
        """What was said of this partition and not taken yet is not said again: it holds no longer."""
        self._sent.pop(partition, None)
        self._unsent.pop(partition, None)

    def _begin(self) -> None:
        if self._unsent and not self._is_sending and self.broker_epoch >= 0:
            self._is_sending = True
            self._node.spawn(self._send())

    async def _send(self) -> None:
        pause_s = FIRST_RETRY_S
        try:
            # waits for one turn of the loop: what one event leads to in many partitions is one report
            await asyncio.sleep(0)
            while self._unsent:
                sent = dict(islice(self._unsent.items(), MAX_PARTITIONS))
                for partition in sent:
                    del self._unsent[partition]
                self._sent = dict(sent)
                if await self._send_one(sent):
                    pause_s = FIRST_RETRY_S
                    continue
                self._unsent = self._sent | self._unsent  # what was said meanwhile is newer
                self._sent = {}
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)
        finally:
            self._sent = {}
            self._is_sending = False
