"""The data that must be on the disk before a metadata snapshot gets its name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.metadata.batches import build_metadata_batch
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, QuorumControl
from moldau.core.raft.messages import SnapshotId
from moldau.errors import StorageFailedError
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.quorum.metadata_log import LOG_SETTINGS
from moldau.shell.quorum.snapshot_files import found_snapshots
from moldau.shell.quorum.snapshots import SnapshotReports, Snapshots
from moldau.types import METADATA_PARTITION, METADATA_TOPIC_ID, Offset, whole
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from tests.support.logs import flush

LEVELS = {"metadata.version": 30}


class Taking:
    """The committed image of a voter, the log after it, and the snapshots of it."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.fold = MetadataFold("cluster")
        self.log = Log.open(
            self.disk, METADATA_DIRECTORY, METADATA_PARTITION, METADATA_TOPIC_ID, LOG_SETTINGS, now_ms=0
        )
        self.taken = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshots = Snapshots(
            self.disk,
            ManualClock(),
            InlineWorkers(),
            parse_broker_settings({"metadata.log.max.record.bytes.between.snapshots": "1"}),
            pause_long=lambda: asyncio.sleep(0),
            spawn=self._spawn,
            reports=SnapshotReports(self._failed, self._taken, lambda path: None),
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _failed(self, error: StorageFailedError) -> None:
        pytest.fail(str(error))

    def _taken(self) -> None:
        self.taken += 1

    def commit(self) -> None:
        """One more record, which other voters have on their disks."""
        record = FeatureLevelRecord("metadata.version", 30)
        batch = bytearray(whole(build_metadata_batch((record,), LEVELS, now_ms=0, leader_epoch=1)))
        self.log.append(batch, leader_epoch=1, now_ms=0, origin=AppendOrigin.CONTROLLER)
        self.fold.apply(record)
        self.fold.take_delta(Offset(self.log.log_end_offset), 1)

    async def take(self) -> list[SnapshotId]:
        self._snapshots.take_if_due(self.fold.image, QuorumControl(), self.log)
        while self._tasks:
            await self._tasks.pop()
        return found_snapshots(self.disk)


@pytest.mark.asyncio
async def test_a_snapshot_of_what_is_not_on_this_disk_yet_is_taken_with_a_later_commit() -> None:
    voter = Taking()
    voter.commit()
    assert await voter.take() == []
    assert not [name for name in voter.disk.list_directory(METADATA_DIRECTORY) if "checkpoint.part" in name]
    flush(voter.log, 0)
    assert await voter.take() == [SnapshotId(1, 1)]
    assert voter.taken == 1
    assert await voter.take() == [SnapshotId(1, 1)]
    assert voter.taken == 1, "nothing has come since then"
