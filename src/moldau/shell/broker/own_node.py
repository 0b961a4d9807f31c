"""The ports and settings that each part of a broker gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from moldau.ports import Clock, Random, Workers
from moldau.shell.broker.dynamic_settings import DynamicSettings
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.pauses import Pauses
from moldau.telemetry import Telemetry
from moldau.types import BrokerId, TopicPartition


class OwnNode(msgspec.Struct, frozen=True):
    """The ports of the node, the loop of the broker, and the settings in force."""

    node_id: BrokerId
    settings: DynamicSettings
    loop: asyncio.AbstractEventLoop
    clock: Clock
    random: Random
    workers: Workers
    pauses: Pauses
    telemetry: Telemetry
    log: EventLog
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    """Runs background work. A broken invariant stops the node; any other error is logged."""
    spawn_lasting: Callable[[Coroutine[Any, Any, None]], object]
    """As `spawn`, for work that continues as long as it is needed."""
    directory_failed: Callable[[], None]
    """Call this after finding a log directory offline: takes its partitions offline."""
    no_room: Callable[[TopicPartition], None]
    """Call this when there was no room for records of a partition."""
