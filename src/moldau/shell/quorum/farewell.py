"""Lets controllers that stop together wait for each other: a clean stop needs a quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.core.metadata.image import MetadataImage
from moldau.core.raft.voters import VoterSet
from moldau.ports import Clock
from moldau.types import BrokerId

PATIENCE_MS = 500
STEP_S = 0.02


async def wait_for_others(clock: Clock, image: Callable[[], MetadataImage], voters: VoterSet, own_id: BrokerId) -> None:
    """Call it before node `own_id` stops. If the other nodes are no majority without it, they may also be stopping, and
    without a controller they cannot hand over the partitions that they lead. Returns when their brokers are fenced, or
    after a moment."""
    end_ms = clock.monotonic_ms() + PATIENCE_MS
    while clock.monotonic_ms() < end_ms:
        others = [each for each in image().brokers.values() if each.broker_id != own_id]
        serving = [each for each in others if voters.has_node(each.broker_id) and not each.is_fenced]
        if not serving or len(serving) >= voters.majority:
            return
        await asyncio.sleep(STEP_S)
