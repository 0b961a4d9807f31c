"""The share of a task: a partition of the topic of shares, whose owner in the group of workers runs the task.

The tasks of a connector take partitions that follow each other, so that they spread evenly.
"""

from __future__ import annotations

import zlib

LEADER = 0
"""Its owner writes the configurations, and looks after the connectors."""


def share_of_task(name: str, task: int, shares: int) -> int:
    return (zlib.crc32(name.encode()) + task) % shares
