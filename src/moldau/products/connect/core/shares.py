"""The share of a task: a partition of the topic of shares, whose owner in the group of workers runs the task.

A worker owns a range of shares, or every n-th one. The tasks of a connector take shares in steps of the golden ratio,
which spread evenly over both.
"""

from __future__ import annotations

import math
import zlib

LEADER = 0
"""Its owner writes the configurations, and looks after the connectors."""
_GOLDEN = (math.sqrt(5) - 1) / 2


def share_of_task(name: str, task: int, shares: int) -> int:
    """Tasks of a connector have different shares, unless it has more tasks than there are shares."""
    return (zlib.crc32(name.encode()) + task * _step(shares)) % shares


def _step(shares: int) -> int:
    """Without a common factor with `shares`."""
    return next(step for step in range(round(shares * _GOLDEN), 2 * shares + 1) if math.gcd(step, shares) == 1)
