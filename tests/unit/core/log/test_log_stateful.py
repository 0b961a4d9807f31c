"""A log compared with a model, a list of batches, in any order of operations and crashes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.errors import KafkaError, StorageFullError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush

NOW_MS = 1_800_000_000_000
DIRECTORY = "topic-0"
SETTINGS = LogSettings(segment_bytes=1500, index_interval_bytes=200, retention_bytes=-1, retention_ms=-1)


class ModelBatch(msgspec.Struct):
    """A batch as the log should return it, and its producer (producer id -1: none)."""

    base_offset: int
    next_offset: int
    data: bytes
    epoch: int
    producer_id: int
    first_sequence: int


class LogMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_directory(DIRECTORY)
        self.disk.flush_directory("")
        self.now_ms = NOW_MS
        self.epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.batches: list[ModelBatch] = []
        """Everything ever appended and not truncated; batches below the start offset are no longer read."""
        self.ever: dict[tuple[int, bytes], bool] = {}
        self.next_producer_id = 1
        self.fresh: dict[int, int] = {}
        """Producer id -> the number of its last batches that the log surely remembers."""
        self.open(is_clean=False)

    def open(self, *, is_clean: bool) -> None:
        recovery_point = self.log.recovery_point if hasattr(self, "log") else 0
        self.log = Log.open(
            self.disk,
            DIRECTORY,
            TopicPartition("topic", 0),
            METADATA_TOPIC_ID,
            SETTINGS,
            now_ms=self.now_ms,
            plan=RecoveryPlan(is_clean=is_clean, recovery_point=recovery_point, log_start_offset=self.start_offset),
        )
        # a snapshot file remembers one batch of each producer
        self.fresh = dict.fromkeys(self.fresh, 1)

    # --- appends ---

    def append(self, size: int, count: int, producer_id: int, first_sequence: int) -> None:
        data = build_batch(
            [(None, bytes([self.end_offset % 251]) * size, self.now_ms, ())] * count,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=first_sequence,
        )
        buffer = bytearray(data)
        appended = self.log.append(buffer, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.CLIENT)
        assert not appended.is_duplicate
        assert (appended.base_offset, appended.last_offset) == (self.end_offset, self.end_offset + count - 1)
        next_offset = self.end_offset + count
        self.batches.append(
            ModelBatch(self.end_offset, next_offset, bytes(buffer), self.epoch, producer_id, first_sequence)
        )
        self.ever[self.end_offset, bytes(buffer)] = True
        self.end_offset = next_offset

    @rule(size=st.integers(0, 300), count=st.integers(1, 4), step_ms=st.integers(0, 1000))
    def append_plain(self, size: int, count: int, step_ms: int) -> None:
        self.now_ms += step_ms
        self.append(size, count, -1, -1)

    @rule(count=st.integers(1, 4), is_new=st.booleans(), pick=st.integers(0, 100))
    def append_idempotent(self, count: int, is_new: bool, pick: int) -> None:
        if is_new or not self.fresh:
            producer_id, self.next_producer_id = self.next_producer_id, self.next_producer_id + 1
        else:
            producer_id = list(self.fresh)[pick % len(self.fresh)]
        self.append(10, count, producer_id, self.next_sequence(producer_id))
        self.fresh[producer_id] = min(5, self.fresh.get(producer_id, 0) + 1)

    def produced(self, producer_id: int) -> list[ModelBatch]:
        return [batch for batch in self.batches if batch.producer_id == producer_id]

    def next_sequence(self, producer_id: int) -> int:
        mine = self.produced(producer_id)
        return mine[-1].first_sequence + mine[-1].next_offset - mine[-1].base_offset if mine else 0

    @precondition(lambda self: self.fresh)
    @rule(pick=st.integers(0, 100), back=st.integers(0, 4))
    def repeat(self, pick: int, back: int) -> None:
        producer_id = list(self.fresh)[pick % len(self.fresh)]
        mine = self.produced(producer_id)[-self.fresh[producer_id] :]
        again = mine[back % len(mine)]
        buffer = bytearray(again.data)
        buffer[:8] = bytes(8)
        appended = self.log.append(buffer, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.CLIENT)
        assert appended.is_duplicate
        assert (appended.base_offset, appended.last_offset) == (again.base_offset, again.next_offset - 1)

    @precondition(lambda self: self.fresh)
    @rule(pick=st.integers(0, 100), gap=st.integers(1, 1000))
    def gap(self, pick: int, gap: int) -> None:
        producer_id = list(self.fresh)[pick % len(self.fresh)]
        data = build_batch(
            [(None, b"x", self.now_ms, ())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.next_sequence(producer_id) + gap,
        )
        with pytest.raises(KafkaError) as refused:
            self.log.append(data, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.CLIENT)
        assert refused.value.code == 45

    @rule(operation=st.sampled_from(["append", "open", "write"]))
    def disk_is_full(self, operation: str) -> None:
        self.disk.fail(Fault(operation, error="full"))  # type: ignore[arg-type]
        data = build_batch([(None, b"full", self.now_ms, ())])
        try:
            self.log.append(data, leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.CLIENT)
        except StorageFullError:
            self.disk.heal()
        else:
            self.disk.heal()
            buffer = bytearray(data)
            buffer[:8] = self.end_offset.to_bytes(8, "big")
            buffer[12:16] = self.epoch.to_bytes(4, "big")
            self.batches.append(ModelBatch(self.end_offset, self.end_offset + 1, bytes(buffer), self.epoch, -1, -1))
            self.ever[self.end_offset, bytes(buffer)] = True
            self.end_offset += 1

    # --- everything else that changes a log ---

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        flush(self.log, self.now_ms)
        assert self.log.recovery_point == self.end_offset

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        target = max(self.start_offset, self.end_offset - back)
        self.log.truncate_to(target, self.now_ms)
        kept = [batch for batch in self.batches if batch.next_offset <= target]
        if target < self.end_offset:
            self.batches = kept
            # as in Kafka, the log may begin in the middle of the removed batch
            self.end_offset = self.log.log_end_offset
            assert self.end_offset <= target
            kept_end = kept[-1].next_offset if kept else 0
            assert self.end_offset == max(kept_end, self.start_offset)
            if kept_end < self.start_offset:  # the start was inside the removed batch: a new log begins there
                self.batches = kept = []
            self.fresh = {
                producer_id: 1 for producer_id in self.fresh if any(b.producer_id == producer_id for b in kept)
            }

    @rule(forward=st.integers(0, 10))
    def advance_start(self, forward: int) -> None:
        target = min(self.end_offset, self.start_offset + forward)
        self.log.advance_log_start_offset(target)
        self.start_offset = target

    @rule(retention_bytes=st.integers(0, 4000))
    def retain(self, retention_bytes: int) -> None:
        before = self.log.size_bytes
        self.log.update_settings(msgspec.structs.replace(SETTINGS, retention_bytes=retention_bytes))
        deleted = self.log.delete_old_segments(self.now_ms, self.end_offset)
        self.log.update_settings(SETTINGS)
        assert self.log.size_bytes == before - sum(segment.size_bytes for segment in deleted)
        if deleted:
            self.start_offset = max(self.start_offset, deleted[-1].end_offset)
        self.now_ms += 60_000
        remove_files(self.disk, self.log.take_purgeable(self.now_ms))
        assert not any(name.endswith(".deleted") for name in self.disk.list_directory(DIRECTORY))

    # --- stops ---

    @rule()
    def stop_cleanly(self) -> None:
        self.log.close(self.now_ms)
        self.open(is_clean=True)
        assert not self.log.cuts

    @rule()
    def crash_process(self) -> None:
        self.disk.crash_process()
        self.open(is_clean=False)
        assert not self.log.cuts

    @rule(seed=st.integers(0, 1 << 30))
    def crash_machine(self, seed: int) -> None:
        promised = self.log.recovery_point
        self.disk.crash_machine(SeededRandom(seed))
        self.open(is_clean=False)
        self.take_what_is_left(promised)

    @rule(seed=st.integers(0, 1 << 30))
    def stop_cleanly_and_crash_machine(self, seed: int) -> None:
        self.log.close(self.now_ms)
        self.disk.crash_machine(SeededRandom(seed))
        self.open(is_clean=True)

    def take_what_is_left(self, promised: int) -> None:
        """Unflushed data may be lost, or be what was once written there, but nothing else."""
        assert self.log.log_end_offset >= promised
        left = self.read_all()
        known = {batch.base_offset: batch for batch in self.batches}
        survivors = []
        for base_offset, next_offset, data in left:
            assert (base_offset, data) in self.ever
            batch = known.get(base_offset)
            if next_offset <= promised:
                assert batch is not None
                assert batch.data == data
            epoch = int.from_bytes(data[12:16], "big")
            producer_id = int.from_bytes(data[43:51], "big", signed=True)
            sequence = int.from_bytes(data[53:57], "big", signed=True)
            survivors.append(ModelBatch(base_offset, next_offset, data, epoch, producer_id, sequence))
        self.batches = survivors
        self.end_offset = self.log.log_end_offset
        self.fresh = {
            producer_id: 1 for producer_id in self.fresh if any(b.producer_id == producer_id for b in survivors)
        }
        # batches that were truncated and came back may hold an epoch and producers that the model had removed
        self.epoch = max([self.epoch, *(batch.epoch for batch in survivors)])

    # --- invariants after every step ---

    def read_all(self, max_bytes: int = 700) -> list[tuple[int, int, bytes]]:
        found: list[tuple[int, int, bytes]] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            read = self.log.read(offset, max_bytes=max_bytes, end_offset=self.log.log_end_offset)
            assert read.records is not None
            records = bytes(read.records)
            size = 0
            for position, header in iterate_batches(records):
                found.append((header.base_offset, header.next_offset, records[position : position + header.size]))
                offset, size = header.next_offset, position + header.size
            assert size == len(records) > 0
        return found

    @invariant()
    def the_log_is_the_model(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start_offset, self.end_offset)
        assert log.recovery_point <= self.end_offset
        wanted = [
            (batch.base_offset, batch.next_offset, batch.data)
            for batch in self.batches
            if batch.next_offset > self.start_offset
        ]
        assert self.read_all() == wanted
        for bound in range(self.start_offset, self.end_offset + 1, 3):
            records = log.read(self.start_offset, max_bytes=1 << 20, end_offset=bound).records
            assert records is not None
            first_segment = [header.next_offset for _, header in iterate_batches(bytes(records))]
            assert all(next_offset <= bound for next_offset in first_segment)
        for epoch in range(self.epoch + 1):
            later = [b.base_offset for b in self.batches if b.epoch > epoch and b.next_offset > self.start_offset]
            ours = [b for b in self.batches if b.epoch == epoch and b.next_offset > self.start_offset]
            if ours:
                wanted_end = max(min(later, default=self.end_offset), ours[-1].next_offset)
                assert log.end_offset_for_epoch(epoch) == (epoch, wanted_end)


LogMachine.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)
test_a_log_behaves_like_a_list_of_batches = LogMachine.TestCase
