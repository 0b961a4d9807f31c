"""Groups the results of a hot path, a flat tuple for each partition, by topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

Result = TypeVar("Result", bound="tuple[Any, ...]")


def by_topic(results: Sequence[Result]) -> list[tuple[bytes, list[Result]]]:
    """`results`: the topic is first in each; those of one topic are next to each other."""
    topics: list[tuple[bytes, list[Result]]] = []
    for result in results:
        if not topics or topics[-1][0] != result[0]:
            topics.append((result[0], []))
        topics[-1][1].append(result)
    return topics
