"""A start's log lines about groups of other kinds and unreadable groups."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from moldau.core.groups.group_partitions import partition_for_group
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.messages.group_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    ShareGroupMetadataKey,
)
from moldau.wire.protocol.record_codec import encode_group_key
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio
VALUE = b"\x00\x00"


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.network")


async def start_with(start_node: Any, rows: dict[str, list[tuple[Any, bytes]]]) -> Any:
    """A node on a directory in which Kafka has left these records, by group id."""
    disk = MemoryDisk()
    settings = {"offsets.topic.num.partitions": "50"}
    first = await start_node(settings, disk=disk)
    await first.node.broker.coordination.groups.ensure_topic()
    first.node.abort()
    for group_id, records in rows.items():
        file = disk.open(f"__consumer_offsets-{partition_for_group(group_id, 50)}/{0:020d}.log")
        file.append(bytes(build_batch([(encode_group_key(key), value, 1, ()) for key, value in records])))
    node = await start_node(settings, disk=disk)
    while node.node.broker.has_work:
        await node.turns(1)
    return node


async def test_groups_of_other_kinds_are_counted(start_node: Any, caplog: Any) -> None:
    await start_with(
        start_node,
        {
            "a": [(ConsumerGroupMetadataKey("a"), VALUE), (ConsumerGroupMetadataKey("a"), VALUE)],
            "b": [(ConsumerGroupMetadataKey("b"), VALUE)],
            "c": [(ShareGroupMetadataKey("c"), VALUE)],
        },
    )
    assert "kept, not served: 2 consumer groups, 1 share group;" in caplog.text


async def test_a_record_that_cannot_be_read_is_told_with_its_place_and_others_are_served(
    start_node: Any, caplog: Any
) -> None:
    await start_with(
        start_node,
        {"a": [(GroupMetadataKey("a"), b"\x00\x63")], "c": [(ShareGroupMetadataKey("c"), VALUE)]},
    )
    place = f"__consumer_offsets-{partition_for_group('a', 50)}"
    assert f"{place} cannot be loaded, its groups are not served" in caplog.text
    assert "offset 0: " in caplog.text
    assert "kept, not served: 1 share group;" in caplog.text
