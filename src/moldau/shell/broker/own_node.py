"""The ports and settings that each part of a broker gets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from moldau.shell.broker.dynamic_settings import DynamicSettings
from moldau.shell.network.node_parts import NodeParts
from moldau.types import BrokerId, TopicPartition


class OwnNode(NodeParts, frozen=True):
    """The parts of the node, the settings in force, and the events that any part of the broker may report."""

    node_id: BrokerId
    settings: DynamicSettings
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    """Runs background work. A broken invariant stops the node; any other error is logged."""
    spawn_lasting: Callable[[Coroutine[Any, Any, None]], object]
    """As `spawn`, for work that continues as long as it is needed."""
    directory_failed: Callable[[], None]
    """Call this after finding a log directory offline: takes its partitions offline."""
    no_room: Callable[[TopicPartition], None]
    """Call this when there was no room for records of a partition."""
