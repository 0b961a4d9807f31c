"""Parses the position from which `reset` restarts a pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping

EARLIEST, LATEST = "earliest", "latest"

Start = str | int | Mapping[str, Mapping[str, int]]
"""EARLIEST, LATEST, a time in ms since 1970, or the offsets of each partition: {"orders": {"0": 23}}."""


def parse_offsets(text: str) -> Mapping[str, Mapping[str, int]]:
    """The offsets of each partition, as JSON: {"orders": {"0": 23}}. Raises ValueError."""
    nested: object = json.loads(text)
    if not isinstance(nested, dict) or not all(isinstance(partitions, dict) for partitions in nested.values()):
        raise ValueError('must be {"topic": {"0": 23}}')
    return {str(topic): {str(one): int(offset) for one, offset in nested[topic].items()} for topic in nested}
