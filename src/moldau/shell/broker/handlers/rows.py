"""Groups the results of Produce and Fetch by topic, for answers with very many partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moldau.types import Pausing

Row = TypeVar("Row")
Topic = TypeVar("Topic")


def rows_by_topic(
    results: Sequence[tuple[Any, ...]],
    row_of: Callable[..., Row],
    topic_of: Callable[[bytes, tuple[Row, ...]], Topic],
) -> Pausing[tuple[Topic, ...]]:
    """Groups `results` by topic. `row_of` gets the fields of a result after its topic, `topic_of` the topic and its
    rows. The results of one topic must be adjacent."""
    topics: list[Topic] = []
    rows: list[Row] = []
    for place, (topic, *fields) in enumerate(results):
        rows.append(row_of(*fields))
        if place + 1 == len(results) or results[place + 1][0] != topic:
            topics.append(topic_of(topic, tuple(rows)))
            rows = []
        yield
    return tuple(topics)
