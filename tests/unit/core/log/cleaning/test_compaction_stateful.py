"""Compaction compared with a model: the disk crashes before each of its operations.

The model: below the cleaned offset exactly the last record of each key is left (a tombstone until its horizon), at its
old offset; from there on every record is left.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.errors import StorageFailedError
from moldau.ports import Disk
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush
from tests.unit.core.log.compacting import begin_round, content, run_round

NOW_MS = 1_800_000_000_000
SETTINGS = LogSettings(
    cleanup_policy=("compact",), segment_bytes=700, index_interval_bytes=100, delete_retention_ms=1000
)
CODECS = ("none", "none", "lz4", "zstd")

Written = list[tuple[int, str, str | None]]

batch = st.tuples(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 3),
    st.booleans(),
)


def open_log(disk: Disk, recovery_point: int, settings: LogSettings = SETTINGS, *, cleaned_offset: int = 0) -> Log:
    return Log.open(
        disk,
        "t-0",
        TopicPartition("t", 0),
        METADATA_TOPIC_ID,
        settings,
        now_ms=NOW_MS,
        plan=RecoveryPlan(recovery_point=recovery_point, cleaned_offset=cleaned_offset),
    )


def fill(log: Log, batches: list[tuple[list[tuple[int, bool]], int, bool]], *, first_producer: int = 0) -> Written:
    written: Written = []
    for number, (pairs, codec, is_idempotent) in enumerate(batches):
        rows = []
        for index, is_tombstone in pairs:
            # every other key is longer than what the map stores directly
            key = f"key-{index}" + "-with-a-long-name" * (index % 2)
            value = None if is_tombstone else f"value-{number}-{log.log_end_offset + len(rows)}"
            written.append((log.log_end_offset + len(rows), key, value))
            rows.append((key.encode(), None if value is None else value.encode(), NOW_MS, ()))
        producer = (
            {"producer_id": first_producer + number, "producer_epoch": 0, "base_sequence": 0} if is_idempotent else {}
        )
        data = build_batch(rows, compression=CODECS[codec], **producer)  # type: ignore[arg-type]
        log.append(bytearray(data), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    return written


def expected(written: Written, end_offset: int, *, is_horizon_reached: bool = False) -> Written:
    last = {key: offset for offset, key, _ in written if offset < end_offset}
    return [
        (offset, key, value)
        for offset, key, value in written
        if offset >= end_offset or (last[key] == offset and not (value is None and is_horizon_reached))
    ]


@hypothesis_settings(max_examples=40, deadline=None)
@given(first=st.lists(batch, min_size=1, max_size=25), second=st.lists(batch, max_size=25))
def test_exactly_the_last_record_of_each_key_is_left(first: list, second: list) -> None:  # type: ignore[type-arg]
    disk = MemoryDisk()
    log = open_log(disk, 0)
    written = fill(log, first)
    log.roll(NOW_MS)
    flush(log, NOW_MS)
    clean_to = run_round(log, NOW_MS).end_offset
    assert content(log) == expected(written, clean_to)
    written += fill(log, second, first_producer=100)
    log.roll(NOW_MS)
    flush(log, NOW_MS)
    # this round removes the tombstones of the first round; those of the second have just got their horizon
    after = run_round(log, NOW_MS + 1000, clean_to)
    kept = content(log)
    assert [row for row in kept if row[2] is not None] == [
        row for row in expected(written, after.end_offset) if row[2] is not None
    ]
    assert [row for row in kept if row[2] is None and row[0] < clean_to] == []
    assert [row for row in kept if row[0] >= clean_to] == [
        row for row in expected(written, after.end_offset) if row[0] >= clean_to
    ]
    again = open_log(disk, log.recovery_point)
    assert content(again) == kept
    assert again.log_end_offset == log.log_end_offset
    assert {key: entry.last_sequence for key, entry in again.producer_state.entries.items()} == {
        key: entry.last_sequence for key, entry in log.producer_state.entries.items()
    }


class CrashError(Exception):
    """The machine or the process died here."""


class CrashingDisk:
    """A MemoryDisk that dies before its `at`-th change."""

    CHANGES = ("open", "rename", "remove", "flush_directory", "replace_file")

    def __init__(self, disk: MemoryDisk, at: int) -> None:
        self.inner = disk
        self.left = at

    def __getattr__(self, name: str) -> object:
        method: Callable[..., object] = getattr(self.inner, name)
        if name not in self.CHANGES:
            return method

        def counted(*arguments: object, **options: object) -> object:
            if self.left == 0:
                raise CrashError
            self.left -= 1
            return method(*arguments, **options)

        return counted


@pytest.mark.parametrize("is_machine", [False, True])
@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
def test_a_crash_before_any_operation_of_a_round_loses_nothing(is_machine: bool, policy: tuple[str, ...]) -> None:
    """Before: all written records. After: those that compaction keeps. In between: each group is old or new, nothing
    else."""
    settings = SETTINGS_WITH[policy]
    outcomes: dict[str, None] = {}
    for at in range(1000):
        memory = MemoryDisk()
        memory.make_directory("t-0")
        memory.flush_directory("")
        disk = CrashingDisk(memory, 1_000_000)
        log = open_log(disk, 0, settings)  # type: ignore[arg-type]
        written = fill(log, [([(number % 5, False), (number % 3, number % 7 == 0)], 0, True) for number in range(40)])
        log.roll(NOW_MS)
        flush(log, NOW_MS)
        assert len(log.segments) > 5
        disk.left = at
        is_done = False
        try:
            plan, result = begin_round(log, NOW_MS)
            for segment in result.segments:
                assert log.replace_segments(plan, segment, NOW_MS)
            disk.flush_directory("t-0")  # type: ignore[operator]
            is_done = True
        except CrashError:
            pass
        if is_machine:
            memory.crash_machine(SeededRandom(at))
        else:
            memory.crash_process()
        again = open_log(memory, log.recovery_point, settings)
        assert again.log_end_offset == log.log_end_offset
        found = content(again)
        whole, clean = written, expected(written, log.segments[-1].base_offset)
        assert [row for row in found if row in clean] == clean
        assert [row for row in whole if row in found] == found
        outcomes["old" if found == whole else "new" if found == clean else "between"] = None
        assert not [name for name in memory.list_directory("t-0") if name.endswith((".swap", ".cleaned", ".deleted"))]
        assert {key: entry.last_sequence for key, entry in again.producer_state.entries.items()} == dict.fromkeys(
            range(40), 1
        )
        # and the next round continues
        run_round(again, NOW_MS)
        assert content(again) == clean
        if is_done:
            break
    assert is_done
    assert sorted(outcomes) == ["between", "new", "old"]


SETTINGS_WITH = {
    policy: LogSettings(cleanup_policy=policy, segment_bytes=700, index_interval_bytes=100, retention_ms=-1)
    for policy in (("compact",), ("compact", "delete"))
}


def test_a_failed_disk_ends_the_round_and_takes_the_log_offline() -> None:
    disk = MemoryDisk()
    log = open_log(disk, 0)
    fill(log, [([(1, False)], 0, False)] * 3)
    log.roll(NOW_MS)
    flush(log, NOW_MS)
    plan, result = begin_round(log, NOW_MS)
    disk.fail(Fault("rename"))
    with pytest.raises(StorageFailedError):
        log.replace_segments(plan, result.segments[0], NOW_MS)
    assert log.health.is_offline


def test_a_topic_that_is_no_longer_compacted_keeps_its_holes_over_a_crash() -> None:
    disk = MemoryDisk()
    log = open_log(disk, 0)
    written = fill(log, [([(number % 3, False)], 0, False) for number in range(40)])
    log.roll(NOW_MS)
    flush(log, NOW_MS)
    run_round(log, NOW_MS)
    kept = content(log)
    assert len(kept) < len(written)
    disk.crash_process()
    settings = LogSettings(cleanup_policy=("delete",), segment_bytes=700, retention_ms=-1)
    # the cleaner's checkpoint shows that it was compacted once
    assert content(open_log(disk, log.recovery_point, settings, cleaned_offset=log.segments[-1].base_offset)) == kept
