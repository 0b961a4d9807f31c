"""The memory of expanded batches in a Produce request: they are read and appended in steps, not all at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.support.node import NOW_MS

pytestmark = pytest.mark.asyncio

T = TypeVar("T")
EXPANDED_BYTES = 8 << 20
COUNT = 12


class WatchingWorkers(InlineWorkers):
    """Records the result of `look` before each piece of work."""

    def __init__(self) -> None:
        self.look: Callable[[], int] = int
        self.seen: list[int] = []

    async def run(self, work: Callable[[], T]) -> T:
        self.seen.append(self.look())
        return await super().run(work)


def to_each_partition(count: int, expanded_bytes: int) -> ProduceRequest:
    """A batch of less than a KiB for each partition, with one large record without a key."""
    batch = build_batch([(None, bytes(expanded_bytes), NOW_MS, ())], compression="zstd")
    assert len(batch) < 1 << 10
    rows = tuple(PartitionProduceData(index, batch) for index in range(count))
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name="t", partition_data=rows),))


def codes_of(answer: Any) -> list[int]:
    return [row.error_code for row in answer.responses[0].partition_responses]


@contextmanager
def at_most(allowed_bytes: int) -> Iterator[None]:
    """The block allocates less than this at its peak."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < allowed_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"compression_type": "uncompressed"}, 10),  # larger than max.message.bytes without its codec
        ({"cleanup_policy": "compact"}, 87),
    ],
)
async def test_a_batch_that_is_refused_leaves_nothing_of_what_it_expanded_to(
    node: Any, config: dict[str, str], code: int
) -> None:
    await node.create_topic("t", COUNT, **config)
    client, request = node.connect(), to_each_partition(COUNT, EXPANDED_BYTES)
    with at_most(COUNT // 2 * EXPANDED_BYTES):
        answer = await client.ask(ApiKey.PRODUCE, 9, request)
    assert codes_of(answer) == [code] * COUNT


async def test_batches_that_grow_are_appended_before_many_more_are_read(start_node: Any) -> None:
    workers = WatchingWorkers()
    node = await start_node(workers=workers)
    await node.create_topic("t", 5, compression_type="uncompressed", max_message_bytes=str(32 << 20))
    partitions = [node.node.broker.partitions.find("t", index) for index in range(5)]
    workers.look = lambda: sum(partition.log.log_end_offset for partition in partitions)
    workers.seen.clear()
    answer = await node.connect().ask(ApiKey.PRODUCE, 9, to_each_partition(5, 10 << 20))
    assert codes_of(answer) == [0] * 5
    # each is expanded, and written without its codec; two exceed the limit for memory at once
    assert workers.seen == [0, 0, 0, 0, 2, 2, 2, 2, 4, 4]
