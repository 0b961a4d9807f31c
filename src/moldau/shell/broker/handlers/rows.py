"""Answers of Produce and Fetch that name very many partitions, as messages."""

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
    """`row_of` gets the fields of a result behind its topic, `topic_of` the topic and its rows. Results of one topic
    stand side by side."""
    topics: list[Topic] = []
    rows: list[Row] = []
    for place, (topic, *fields) in enumerate(results):
        rows.append(row_of(*fields))
        if place + 1 == len(results) or results[place + 1][0] != topic:
            topics.append(topic_of(topic, tuple(rows)))
            rows = []
        yield
    return tuple(topics)
