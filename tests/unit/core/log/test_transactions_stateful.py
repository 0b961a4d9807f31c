"""A log with transactions compared with a model: commits, aborts, compaction, crashes, deletions, moves in any order.

The model: a reader of committed records sees no record of an aborted transaction, none from the begin of the oldest
open one on, and the last committed record of each key.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.directories.moving import FutureLog
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.recovery.recovery import RecoveryPlan
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition, Uuid
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.logs import flush
from tests.unit.core.log.compacting import committed_records, keyed, run_round

NOW_MS = 1_800_000_000_000
PRODUCERS = 3
SETTINGS = LogSettings(
    cleanup_policy=("compact",), segment_bytes=600, index_interval_bytes=100, delete_retention_ms=1000
)
PLACE = TopicPartition("t", 0)

Row = tuple[int, str, str | None]
"""Offset, key, value."""


class Model:
    """The log under test, and its expected contents."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now_ms = NOW_MS
        self.clean_to = 0
        self.directories = 0
        self.epochs = [0] * PRODUCERS
        self.sequences = [0] * PRODUCERS
        self.pending: list[list[Row]] = [[] for _ in range(PRODUCERS)]
        self.committed: list[Row] = []
        self.log = self._open()

    def _open(self, *, is_clean: bool = False, recovery_point: int = 0, start_offset: int = 0) -> Log:
        return Log.open(
            self.disk,
            "t-0",
            PLACE,
            METADATA_TOPIC_ID,
            SETTINGS,
            now_ms=self.now_ms,
            plan=RecoveryPlan(
                is_clean=is_clean,
                recovery_point=recovery_point,
                log_start_offset=start_offset,
                cleaned_offset=self.clean_to,
            ),
        )

    # -- possible operations

    def write(self, producer: int, keys: list[tuple[int, bool]]) -> None:
        producers, epoch = self.log.producer_state, self.epochs[producer]
        if not self.pending[producer]:
            first = self.sequences[producer]
            verification = producers.begin_verification(producer, epoch, self.now_ms, joins=False)
            verification.expect(first)
            producers.verified(producer, epoch, verification, "tx")
        rows = self._append(keys, AppendOrigin.TRANSACTIONAL_CLIENT, producer, is_transactional=True)
        self.pending[producer] += rows

    def write_plain(self, keys: list[tuple[int, bool]]) -> None:
        self.committed += self._append(keys, AppendOrigin.CLIENT, -1, is_transactional=False)

    def _append(
        self, keys: list[tuple[int, bool]], origin: AppendOrigin, producer: int, *, is_transactional: bool
    ) -> list[Row]:
        base = self.log.log_end_offset
        pairs = [(f"key-{key}", None if gone else f"value-{base + n}") for n, (key, gone) in enumerate(keys)]
        fields: dict[str, object] = {}
        if producer >= 0:
            fields = {
                "producer_id": producer,
                "producer_epoch": self.epochs[producer],
                "base_sequence": self.sequences[producer],
            }
            self.sequences[producer] += len(keys)
        batch = keyed(*pairs, timestamp_ms=self.now_ms, is_transactional=is_transactional, **fields)
        self.log.append(batch, leader_epoch=0, now_ms=self.now_ms, origin=origin)
        return [(base + n, key, value) for n, (key, value) in enumerate(pairs)]

    def end(self, producer: int, *, is_commit: bool, raises_epoch: bool) -> None:
        if raises_epoch:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        batch = build_end_transaction_batch(
            EndTransactionMarker(is_commit, 0),
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            timestamp=self.now_ms,
        )
        self.log.append(batch, leader_epoch=0, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)
        if is_commit:
            self.committed = sorted(self.committed + self.pending[producer])
        self.pending[producer] = []

    def compact(self) -> None:
        self.log.roll(self.now_ms)
        self.flush()
        self.clean_to = run_round(self.log, self.now_ms, self.clean_to).end_offset
        self.now_ms += 1001

    def flush(self) -> None:
        flush(self.log, self.now_ms)

    def crash(self) -> None:
        self.disk.crash_process()
        self.log = self._open(recovery_point=self.log.recovery_point, start_offset=self.log.log_start_offset)

    def restart(self) -> None:
        start_offset = self.log.log_start_offset
        self.log.close(self.now_ms)
        self.log = self._open(is_clean=True, recovery_point=self.log.log_end_offset, start_offset=start_offset)

    def delete_records(self, share: int) -> None:
        start = self.log.log_start_offset
        self.log.advance_log_start_offset(start + (self.log.log_end_offset - start) * share // 10)
        self.log.delete_old_segments(self.now_ms, self.log.log_end_offset)

    def move(self) -> None:
        """To another log directory, on another disk."""
        self.flush()
        disk = MemoryDisk()
        self.directories += 1
        source_id, target_id = (Uuid(bytes([number]) * 16) for number in (self.directories, self.directories + 1))
        target = LogDirectory(disk, directory_id=target_id)
        future = FutureLog(self.log, source_id, target, Uuid(bytes(16)))
        future.begin()
        while future.next_offset < self.log.log_end_offset:
            records = self.log.read(future.next_offset, max_bytes=500, end_offset=self.log.log_end_offset).records
            if not records:
                break
            future.append(bytes(records), self.now_ms)
        flush(future, self.now_ms)
        self.log, self.disk = future.take_over(self.now_ms), disk
        self.flush()

    # -- the view of a reader

    def check(self) -> None:
        log = self.log
        first_offsets = [rows[0][0] for rows in self.pending if rows]
        assert log.producer_state.first_unstable_offset == min(first_offsets, default=-1)
        stable_offset = max(min(first_offsets, default=log.log_end_offset), log.log_start_offset)
        seen = list(committed_records(log, stable_offset))
        readable = [row for row in self.committed if log.log_start_offset <= row[0] < stable_offset]
        assert [row for row in seen if row not in readable] == [], "aborted, not decided, or changed"
        last = {key: (offset, key, value) for offset, key, value in readable}
        kept = {row[1]: row for row in seen}
        gone = [key for key, row in last.items() if row[2] is None and kept.get(key, row) != row]
        assert gone == [], "deleted, and readable again"
        assert [row for row in last.values() if row[2] is not None and kept.get(row[1]) != row] == []
        dirty = [row for row in readable if row[0] >= self.clean_to]
        assert [row for row in seen if row[0] >= self.clean_to] == dirty
        for producer, rows in enumerate(self.pending):
            assert log.producer_state.has_open_transaction(producer, self.epochs[producer]) == bool(rows)


keys = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=4)
producer = st.integers(0, PRODUCERS - 1)
step = st.one_of(
    st.tuples(st.just("write"), producer, keys),
    st.tuples(st.just("write plain"), keys),
    st.tuples(st.just("end"), producer, st.booleans(), st.booleans()),
    st.tuples(st.just("end"), producer, st.booleans(), st.booleans()),
    st.tuples(st.just("compact")),
    st.tuples(st.sampled_from(["flush", "crash", "restart", "move"])),
    st.tuples(st.just("delete"), st.integers(0, 3)),
)


@hypothesis_settings(max_examples=100, deadline=None)
@given(steps=st.lists(step, min_size=5, max_size=60))
def test_readers_of_committed_records_see_what_the_model_says(steps: list) -> None:  # type: ignore[type-arg]
    model = Model()
    for name, *arguments in steps:
        if name == "write":
            model.write(*arguments)
        elif name == "write plain":
            model.write_plain(*arguments)
        elif name == "end":
            index, is_commit, raises_epoch = arguments
            model.end(index, is_commit=is_commit, raises_epoch=raises_epoch)
        elif name == "delete":
            model.delete_records(*arguments)
        else:
            getattr(model, name)()
        model.check()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1_500, 150))
def test_long_histories_with_many_rounds(first: int) -> None:
    """The effect of compaction on a transaction often shows rounds later, so these histories have more of both."""
    for seed in range(first, first + 150):
        drawn, model = random.Random(seed), Model()
        for _ in range(drawn.randrange(5, 60)):
            keys = [(drawn.randrange(3), drawn.random() < 0.5) for _ in range(drawn.randrange(1, 3))]
            producer = drawn.randrange(PRODUCERS)
            match drawn.choices(["write", "plain", "end", "compact", "other"], [3, 1, 3, 3, 0.5])[0]:
                case "write":
                    model.write(producer, keys)
                case "plain":
                    model.write_plain(keys)
                case "end":
                    model.end(producer, is_commit=drawn.random() < 0.5, raises_epoch=drawn.random() < 0.5)
                case "compact":
                    model.compact()
                case _:
                    getattr(model, drawn.choice(["flush", "crash", "restart", "move"]))()
            model.check()
