"""Performs what the voter's step machine asks for (core/raft): on the metadata log, on `quorum-state`, and in time.

What the disk does to us. No space: requests that wait for the flush get KAFKA_STORAGE_ERROR, and what is in the log is
flushed when there is room. A failed device: the voter resigns, for nothing of this log can be trusted until a restart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from moldau.core.log.checkpoint import PARTITION_METADATA, encode_partition_metadata
from moldau.core.log.flush import FlushPlan
from moldau.core.log.flushed_offset import FlushedOffset
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    AppendControl,
    Appended,
    DiskFull,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    Output,
    Resign,
    Save,
    Tick,
)
from moldau.errors import StorageFailedError, StorageFullError
from moldau.ports import Clock, Disk, Workers
from moldau.shell.quorum.quorum_state import QUORUM_STATE, write_quorum_state
from moldau.types import METADATA_TOPIC_ID, Buffer
from moldau.wire.records.control import build_control_batch

_TOPIC_ID_FILE = f"{METADATA_DIRECTORY}/{PARTITION_METADATA}"


class RaftListener(Protocol):
    """What the voter calls on the loop, in the order of its outputs."""

    def leadership_began(self) -> None:
        """A new epoch stands in the log: the controller decides from here on."""

    def leadership_ended(self) -> None:
        """The controller decides no more, and what is not committed is taken back."""

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed."""

    def flush_refused(self, error: StorageFullError) -> None:
        """A flush found no room for a file beside the log, and is repeated later."""

    def failed(self, error: StorageFailedError) -> None:
        """The device failed: nothing is flushed until a restart."""


class RaftDriver:
    """One voter on its log. `spawn` runs a flush beside the loop's other work."""

    def __init__(
        self,
        quorum: Quorum,
        log: Log,
        flushed_offset: FlushedOffset,
        listener: RaftListener,
        *,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.quorum = quorum
        self.log = log
        self._flushed_offset = flushed_offset
        self._listener = listener
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._spawn = spawn
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_flush_asked = False
        self._is_flushing = False

    def begin(self) -> None:
        """The election at the start. Waits for the disk. Raises StorageFullError, StorageFailedError."""
        self._is_stepping = True
        self._perform(self.quorum.begin(self._clock.monotonic_ms()))
        self._work_off()

    def append(self, batch: Buffer, now_ms: int) -> int:
        """Gives the last offset; `applied` is to follow. Raises as `Log.append`."""
        epoch = self.quorum.leader_epoch
        return self.log.append(batch, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.CONTROLLER).last_offset

    def applied(self) -> None:
        """What was appended may be committed now."""
        self._step(Appended(self.log.log_end_offset, self.log.leader_epochs.latest_epoch))

    def resign(self) -> None:
        """Leads no more; harmless when it does not lead."""
        self._step(Resign())

    async def settle(self) -> None:
        """Resigns, and makes the note of the flushed offset durable. A failure takes the directory offline."""
        self.resign()
        if not self.log.health.is_offline:
            try:
                await self._workers.run(partial(self._flushed_offset.save, self.log.recovery_point))
            except StorageFailedError as error:
                self.log.health.fail(error)

    def close(self) -> None:
        """Flushes and closes the log; after `settle`. Waits for the disk."""
        health = self.log.health
        self.log.close(self._clock.now_ms())
        if not health.is_offline:
            self._flushed_offset.write(self.log.log_end_offset)
        self._flushed_offset.close()

    def abort(self) -> None:
        """As a crash: nothing is flushed any more, and the listener is not called."""
        self.quorum.step(Resign(), self._clock.monotonic_ms())
        self._end_timer()
        self.log.release()
        self._flushed_offset.close()

    # -- events and outputs

    def _step(self, event: Event) -> None:
        """An event that comes of an output is taken when all outputs before the event are performed."""
        self._events.append(event)
        if not self._is_stepping:
            self._work_off()

    def _work_off(self) -> None:
        self._is_stepping = True
        try:
            while self._events:
                self._perform(self.quorum.step(self._events.popleft(), self._clock.monotonic_ms()))
        finally:
            self._is_stepping = False
            self._arm_timer()

    def _perform(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            match output:
                case HighWatermarkMoved():
                    self._listener.committed(output.high_watermark)
                case Flush() if self.quorum.is_leader:  # a subscriber of the output before may have ended the node
                    self._is_flush_asked = True
                    if not self._is_flushing:
                        self._is_flushing = True
                        self._spawn(self._flush_while_asked())
                case Save():
                    write_quorum_state(self._disk, QUORUM_STATE, output.state)
                case AppendControl():
                    self._append_control(output)
                case LeadershipBegan():
                    self._listener.leadership_began()
                case LeadershipEnded():
                    self._listener.leadership_ended()

    def _append_control(self, output: AppendControl) -> None:
        if not self._disk.exists(_TOPIC_ID_FILE):
            self._disk.replace_file(_TOPIC_ID_FILE, encode_partition_metadata(METADATA_TOPIC_ID))
        now_ms = self._clock.now_ms()
        batch = build_control_batch(output.records, timestamp=now_ms, leader_epoch=output.leader_epoch)
        self.append(bytearray(batch), now_ms)
        self.applied()

    def _arm_timer(self) -> None:
        self._end_timer()
        deadline_ms = self.quorum.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._step, Tick())

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- durability

    async def _flush_while_asked(self) -> None:
        try:
            while self._is_flush_asked:
                self._is_flush_asked = False
                await self._flush()
        finally:
            self._is_flushing = False

    async def _flush(self) -> None:
        plan = self.log.unflushed()
        if plan is None:
            self._step(Flushed(self.log.log_end_offset))
            return
        try:
            await self._workers.run(partial(self._flush_and_note, plan))
        except StorageFullError as error:
            self._listener.flush_refused(error)
            self._step(DiskFull())
        except StorageFailedError as error:
            self._listener.failed(error)
        else:
            self.log.mark_flushed(plan, self._clock.now_ms())
            self._step(Flushed(plan.end_offset))

    def _flush_and_note(self, plan: FlushPlan) -> None:
        plan.run()
        self._flushed_offset.write(plan.end_offset)
