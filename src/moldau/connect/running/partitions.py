"""The partitions of a sink's slot."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping

from moldau.connect.contract.shared_settings import TOPICS, TOPICS_REGEX

Partition = tuple[str, int]
"""Topic and index."""


def is_of_slot(topic: str, partition: int, slot: int, slots: int) -> bool:
    """A slot has every partition that falls to it by the topic's CRC-32 and the index. The partitions of one topic go
    to the slots in turn."""
    return (zlib.crc32(topic.encode()) + partition) % slots == slot


def chosen_topics(config: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """The topics of the configuration that exist. A regular expression matches a whole name, but no internal topic."""
    named = {one.strip() for one in config.get(TOPICS, "").split(",") if one.strip()}
    pattern = config.get(TOPICS_REGEX, "").strip()
    if not named and pattern:
        expression = re.compile(pattern)
        return sorted(one for one in known if not one.startswith("__") and expression.fullmatch(one))
    return sorted(named & set(known))
