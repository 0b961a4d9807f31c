"""One log on a disk in memory, and shortcuts to append to it and read from it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moldau.core.log.log import Appended, AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000


class Harness:
    """`log` is open on `disk`; `now_ms` stays unless a test moves it."""

    def __init__(self, **settings: object) -> None:
        self.disk = MemoryDisk()
        self.settings = LogSettings(**settings)  # type: ignore[arg-type]
        self.now_ms = NOW_MS
        self.epoch = 0
        self.open()

    def open(self, *, is_clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        self.log = Log.open(
            self.disk,
            "t-0",
            TopicPartition("t", 0),
            METADATA_TOPIC_ID,
            self.settings,
            now_ms=self.now_ms,
            plan=RecoveryPlan(is_clean=is_clean, recovery_point=recovery_point, log_start_offset=log_start_offset),
        )
        return self.log

    def change(self, **settings: object) -> None:
        self.settings = msgspec.structs.replace(self.settings, **settings)
        self.log.update_settings(self.settings)

    def batch(self, count: int = 1, *, size: int = 20, timestamp_ms: int | None = None, **fields: object) -> bytearray:
        timestamp_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        rows = [(b"key", bytes([65 + index % 26]) * size, timestamp_ms, ()) for index in range(count)]
        return bytearray(build_batch(rows, **fields))  # type: ignore[arg-type]

    def append(self, count: int = 1, **fields: object) -> Appended:
        return self.append_bytes(self.batch(count, **fields))  # type: ignore[arg-type]

    def append_bytes(self, batch: bytes | bytearray | memoryview) -> Appended:
        return self.log.append(batch, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.CLIENT)

    def flush(self) -> None:
        flush(self.log, self.now_ms)

    def offsets(self) -> list[int]:
        """Base offsets of all batches, read one fetch after the other."""
        found = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            records = self.log.read(offset, max_bytes=300, end_offset=self.log.log_end_offset).records
            assert records
            for _, header in iterate_batches(bytes(records)):
                found.append(header.base_offset)
                offset = header.next_offset
        return found

    def segments(self) -> list[int]:
        return [int(name[:20]) for name in self.disk.list_directory("t-0") if name.endswith(".log")]


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def make_harness() -> Callable[..., Harness]:
    return Harness
