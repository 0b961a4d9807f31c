"""A topic `t` of one partition on a node with two log directories: written to, sealed, and moved."""

from __future__ import annotations

from typing import Any

from moldau.core.log.log import AppendOrigin
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import TopicPartition
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

PARTITION = TopicPartition("t", 0)
NAME_OF_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def write(running: Any, count: int) -> None:
    """That many batches of one record, all with one key."""
    partition = running.node.broker.partitions.find("t", 0)
    now_ms = running.clock.now_ms()
    for number in range(count):
        records = bytearray(build_batch([(b"key", b"%d" % number, now_ms, ())]))
        partition.append(records, now_ms, AppendOrigin.CLIENT)


async def seal(running: Any) -> None:
    """Flushes the written records into segments that no longer grow."""
    log = running.node.broker.partitions.find("t", 0).log
    log.roll(running.clock.now_ms())
    flush(log, running.clock.now_ms())


async def two_directories(
    start_node: Any, settings: dict[str, str] | None = None, **configs: str
) -> tuple[Any, Any, Any]:
    """A node with the topic `t`, its log directory, and the other one."""
    running = await start_node(settings, disk=MemoryDisk(), further_disks=(MemoryDisk(),))
    await running.create_topic("t", **configs)
    logs = running.node.broker.partitions.logs
    here = logs.directory_of(PARTITION)
    (there,) = [directory for directory in logs if directory is not here]
    return running, here, there


def move(running: Any, target: Any) -> None:
    running.node.broker.moves.move(running.node.broker.partitions.find("t", 0), target)
