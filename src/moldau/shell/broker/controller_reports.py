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

PartitionId = tuple[Uuid, int]
"""Topic id and partition."""

Said = TypeVar("Said")


class ControllerReports(Generic[Said]):
    """Used from the broker's loop only. Nothing is sent before the broker is registered. `send` gives whether the
    reports behind it are to follow now; else they wait for the next one that is added."""

    def __init__(self, node: OwnNode, send: Callable[[dict[PartitionId, Said]], Awaitable[bool]]) -> None:
        self.broker_epoch = -1
        self._node = node
        self._send_one = send
        self._unsent: dict[PartitionId, Said] = {}
        self._is_sending = False

    def registered(self, broker_epoch: int) -> None:
        """The controller takes reports from now on."""
        self.broker_epoch = broker_epoch
        self._begin()

    def add(self, partition: PartitionId, said: Said) -> None:
        """In place of what was said of this partition and not sent yet."""
        self._unsent[partition] = said
        self._begin()

    def _begin(self) -> None:
        if self._unsent and not self._is_sending and self.broker_epoch >= 0:
            self._is_sending = True
            self._node.spawn(self._send())

    async def _send(self) -> None:
        try:
            # waits for one turn of the loop: what one event leads to in many partitions is one report
            await asyncio.sleep(0)
            while self._unsent:
                sent = dict(islice(self._unsent.items(), MAX_PARTITIONS))
                for partition in sent:
                    del self._unsent[partition]
                if not await self._send_one(sent):
                    return
        finally:
            self._is_sending = False
