"""A partition alone, on a disk in memory."""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import ReplicationSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import BrokerId, LeaderEpoch, TopicPartition, Uuid

NOW_MS = 1_800_000_000_000
ALONE = PartitionImage((1,), (1,), BrokerId(1), LeaderEpoch(3), 0)
TWO = PartitionImage((1, 2), (1, 2), BrokerId(1), LeaderEpoch(3), 0)


def open_partition(
    disk: MemoryDisk | None = None, image: PartitionImage = ALONE, high_watermark: int = 0, **settings: int
) -> Partition:
    log = Log.open(
        disk or MemoryDisk(),
        "t-0",
        TopicPartition("t", 0),
        Uuid(bytes(16)),
        LogSettings(**settings),
        now_ms=NOW_MS,
    )
    partition = Partition(
        log, 1, BrokerId(1), replication(log.settings), lambda partition, output: None, high_watermark
    )
    partition.metadata_changed(image, {}, NOW_MS)
    return partition


def replication(settings: LogSettings, min_insync_replicas: int = 1) -> ReplicationSettings:
    return ReplicationSettings(min_insync_replicas, waits_for_flush=settings.flush_messages == 1)
