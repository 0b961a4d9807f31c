"""Performs the outputs of the quorum's step machine (core/raft): on the metadata log, on `quorum-state`, over the
network, and with timers.

Disk errors. No space: requests that wait for the flush get KAFKA_STORAGE_ERROR, and the log is flushed when space is
free again. A failed device: the node resigns, because nothing in this log can be trusted until a restart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from moldau.core.log.directories.room import release_spare
from moldau.core.log.files.checkpoint import PARTITION_METADATA, encode_partition_metadata
from moldau.core.log.files.flush import FlushPlan
from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, Snapshot
from moldau.core.raft.messages import EndQuorumEpoch, Request, SnapshotId, Standing
from moldau.core.raft.protocol import MAX_BYTES
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import (
    Answer,
    Answered,
    AnswerRecords,
    AnswerSnapshot,
    Append,
    AppendControl,
    Appended,
    Ask,
    Asked,
    ConnectionLost,
    DiskFull,
    Event,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    LoadSnapshot,
    Output,
    Resign,
    Save,
    SaveSnapshotPart,
    SnapshotLoaded,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import VoterSet, voter_sets_in
from moldau.errors import KafkaError, ProtocolError, StorageFailedError, StorageFullError, kafka_error
from moldau.shell.network.node_parts import NodeParts
from moldau.shell.quorum.channel import QuorumChannel
from moldau.shell.quorum.metadata_log import replaced_log
from moldau.shell.quorum.quorum_state import QUORUM_STATE, write_quorum_state
from moldau.shell.quorum.snapshot_files import decode_parts, keep_for_replacing, read_part, write_part
from moldau.types import METADATA_TOPIC_ID, Buffer
from moldau.wire.records.batch import is_crc_valid, iterate_batches
from moldau.wire.records.control import build_control_batch

FAREWELL_TIMEOUT_S = 1.0
"""How long a clean stop waits until the other voters know."""

_TOPIC_ID_FILE = f"{METADATA_DIRECTORY}/{PARTITION_METADATA}"


class RaftListener(Protocol):
    """The callbacks of the driver, called on the loop in the order of the outputs."""

    def appended(self, batches: Buffer) -> None:
        """The log now has these batches from the leader."""

    def truncated(self) -> None:
        """Uncommitted records were cut from the log."""

    def snapshot_folded(self, snapshot: SnapshotId, decoded: Snapshot) -> MetadataImage:
        """The image of `snapshot`. Raises ValueError if it cannot be made."""

    def snapshot_loaded(self, snapshot: SnapshotId, decoded: Snapshot, image: MetadataImage) -> VoterSet | None:
        """`snapshot` has replaced the log; returns its voters."""

    def snapshot_refused(self, snapshot: SnapshotId, error: ProtocolError) -> None:
        """The fetched `snapshot` cannot be read: it is fetched again later, and the log stays until then."""

    def snapshot_sent(self, snapshot: SnapshotId) -> None:
        """On the leader: another node starts to fetch `snapshot`."""

    def leadership_began(self) -> None:
        """The new epoch is in the log: the controller decides from here on."""

    def leadership_ended(self) -> None:
        """The controller stops deciding, and uncommitted decisions are taken back."""

    def leader_changed(self) -> None:
        """The leader has changed, to this node, another one or none; all outputs of the change are performed."""

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed."""

    def flush_refused(self, error: StorageFullError) -> None:
        """A flush found no space for a file next to the log, and is repeated later."""

    def failed(self, error: StorageFailedError) -> None:
        """The device failed: nothing is flushed until a restart."""

    def broken(self, error: BaseException) -> None:
        """A bug of ours: the node stops."""


class RaftDriver:
    """One node of the quorum on its log. `spawn` runs a flush concurrently with the loop's other work, and stops the
    node if the flush breaks an invariant."""

    def __init__(
        self,
        quorum: Quorum,
        log: Log,
        flushed_offset: FlushedOffset,
        listener: RaftListener,
        channel: QuorumChannel,
        *,
        node: NodeParts,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.quorum = quorum
        self.log = log
        self._flushed_offset = flushed_offset
        self._listener = listener
        self._channel = channel
        self._asks: dict[asyncio.Task[None], Request] = {}
        self._requests: dict[int, asyncio.Future[Standing]] = {}
        """Unanswered requests of other nodes; one for each connection, and one parked for each replica."""
        self._last_request_id = 0
        self._disk, self._clock, self._workers = node.disk, node.clock, node.workers
        self._spawn = spawn
        self._leader_id = quorum.leader_id
        """As last reported to the listener."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_flush_asked = False
        self._is_flushing = False

    def begin(self) -> None:
        """Starts the first election. Waits for the disk. Raises StorageFullError, StorageFailedError."""
        self._is_stepping = True
        self._perform(self.quorum.begin(self._clock.monotonic_ms()))
        self._work_off()

    def append(self, batch: Buffer, now_ms: int) -> int:
        """Returns the last offset; the caller must call `applied` next. Raises as `Log.append`."""
        epoch, origin = self.quorum.leader_epoch, AppendOrigin.CONTROLLER
        try:
            return self.log.append(batch, leader_epoch=epoch, now_ms=now_ms, origin=origin).last_offset
        except StorageFullError:
            if not release_spare(self._disk):
                raise
            return self.log.append(batch, leader_epoch=epoch, now_ms=now_ms, origin=origin).last_offset

    def applied(self) -> None:
        """The appended records may be committed now."""
        self._step(Appended(self.log.log_end_offset, self.log.leader_epochs.latest_epoch))

    def snapshot_taken(self, snapshot: SnapshotId, oldest: SnapshotId) -> None:
        """See SnapshotTaken."""
        self._step(SnapshotTaken(snapshot, oldest))

    def asked(self, request: Request) -> asyncio.Future[Standing]:
        """A request of another node; the future gets the answer. Raises NOT_CONTROLLER once this node has resigned."""
        if self.quorum.has_resigned:
            raise kafka_error("NOT_CONTROLLER", "this node of the quorum is stopping")
        self._last_request_id += 1
        answer: asyncio.Future[Standing] = asyncio.get_running_loop().create_future()
        self._requests[self._last_request_id] = answer
        self._step(Asked(self._last_request_id, request))
        return answer

    def connection_lost(self, node_id: int) -> None:
        """See ConnectionLost."""
        self._step(ConnectionLost(node_id))

    def resign(self) -> None:
        """Stops taking part in the quorum and ends all waiting requests; a leader tells the voters."""
        self._step(Resign())
        for task, request in self._asks.items():
            if not isinstance(request, EndQuorumEpoch):
                task.cancel()

    async def settle(self) -> None:
        """Resigns and makes the flushed offset durable. A failure takes the directory offline."""
        self.resign()
        if self._asks:
            await asyncio.wait(list(self._asks), timeout=FAREWELL_TIMEOUT_S)
        self._channel.close()
        if not self.log.health.is_offline:
            try:
                await self._workers.run(partial(self._flushed_offset.save, self.log.recovery_point))
            except StorageFailedError as error:
                self.log.health.fail(error)

    def close(self) -> None:
        """Flushes and closes the log; after `settle`. Waits for the disk. Raises StorageFullError, StorageFailedError;
        all files are closed even then."""
        health = self.log.health
        try:
            self.log.close(self._clock.now_ms())
            if not health.is_offline:
                self._flushed_offset.write(self.log.log_end_offset)
        finally:
            self._flushed_offset.close()

    def abort(self) -> None:
        """Ends like a crash: flushes nothing more and calls the listener no more."""
        self.quorum.step(Resign(), self._clock.monotonic_ms())
        self._end_timer()
        for task in self._asks:
            task.cancel()
        self._channel.close()
        self._flushed_offset.close()  # before the log: a flush that finds the log closed must store nothing
        self.log.release()

    # -- events and outputs

    def _step(self, event: Event) -> None:
        """An event caused by an output is handled after all outputs before the event."""
        self._events.append(event)
        if not self._is_stepping:
            self._work_off()

    def _work_off(self) -> None:
        self._is_stepping = True
        try:
            while self._events:
                try:
                    self._perform(self.quorum.step(self._events.popleft(), self._clock.monotonic_ms()))
                except StorageFullError as error:
                    self._give_up(StorageFailedError(str(error)))
                except StorageFailedError as error:
                    self._give_up(error)
        finally:
            self._is_stepping = False
            self._arm_timer()
        if self.quorum.leader_id != self._leader_id:
            self._leader_id = self.quorum.leader_id
            self._listener.leader_changed()

    def _give_up(self, error: StorageFailedError) -> None:
        """Later outputs may depend on state that was not saved, such as a vote: drops them. A full disk counts too: a
        directory without space for votes and snapshots is useless."""
        self._events.clear()
        self._listener.failed(error)

    def _perform(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            match output:
                case HighWatermarkMoved():
                    self._listener.committed(output.high_watermark)
                case Flush() if not self.quorum.has_resigned:  # a subscriber of the previous output may have ended it
                    self._is_flush_asked = True
                    if not self._is_flushing:
                        self._is_flushing = True
                        self._spawn(self._flush_while_asked())
                case Save():
                    self._save(output)
                case AppendControl():
                    self._append_control(output)
                case LeadershipBegan():
                    self._listener.leadership_began()
                case LeadershipEnded():
                    self._end_leadership()
                case Ask():
                    self._ask(output)
                case Answer():
                    self._answer(output.request_id, output.answer)
                case AnswerRecords() | AnswerSnapshot():
                    self._answer_with_bytes(output)
                case Append() | TruncateTo() | SaveSnapshotPart() | LoadSnapshot():
                    self._follow(output)

    def _save(self, output: Save) -> None:
        """Raises StorageFullError, StorageFailedError."""
        try:
            write_quorum_state(self._disk, QUORUM_STATE, output.state)
        except StorageFullError:
            if not release_spare(self._disk):
                raise
            write_quorum_state(self._disk, QUORUM_STATE, output.state)

    def _keep_topic_id(self) -> None:
        if not self._disk.exists(_TOPIC_ID_FILE):
            self._disk.replace_file(_TOPIC_ID_FILE, encode_partition_metadata(METADATA_TOPIC_ID))

    def _end_leadership(self) -> None:
        """Records that the controller appended but did not apply stay in the log like all others."""
        self._listener.leadership_ended()
        if self.log.log_end_offset > self.quorum.log.log_end_offset:
            self.applied()

    def _append_control(self, output: AppendControl) -> None:
        self._keep_topic_id()
        now_ms = self._clock.now_ms()
        batch = bytearray(build_control_batch(output.records, timestamp=now_ms, leader_epoch=output.leader_epoch))
        self.append(batch, now_ms)  # it gives the batch its offset
        self._listener.appended(batch)
        self._step(Appended(self.log.log_end_offset, self.log.leader_epochs.latest_epoch, tuple(voter_sets_in(batch))))

    # -- as a follower

    def _follow(self, output: Append | TruncateTo | SaveSnapshotPart | LoadSnapshot) -> None:
        match output:
            case Append():
                self._append_copied(output.records)
            case TruncateTo():
                self._truncate(output.offset)
            case SaveSnapshotPart():
                write_part(self._disk, output.snapshot, output.position, output.data)
            case LoadSnapshot():
                self._load_snapshot(output.snapshot)

    def _append_copied(self, records: Buffer) -> None:
        """Bytes that are no valid batches here end the append, as a full disk does: the batches before them stay in the
        log, and the rest is fetched again. A batch's checksum is verified before anything else is read from it."""
        sets: list[tuple[int, VoterSet]] = []
        try:
            self._keep_topic_id()
            for position, header in iterate_batches(records):
                if not is_crc_valid(records, position, header.size):
                    raise ProtocolError(f"the batch at offset {header.base_offset} fails its checksum")
                batch = memoryview(records)[position : position + header.size]
                found = tuple(voter_sets_in(batch))  # first: an unreadable voter set must not enter the log
                self.log.append_copied(batch, self._clock.now_ms())
                sets.extend(found)
                self._listener.appended(batch)
        except ProtocolError:
            pass
        except StorageFullError:
            release_spare(self._disk)
        self._step(Appended(self.log.log_end_offset, self.log.leader_epochs.latest_epoch, tuple(sets)))

    def _truncate(self, offset: int) -> None:
        if offset < self.log.recovery_point:
            self._flushed_offset.save(offset)
        self.log.truncate_to(offset, self._clock.now_ms())
        self._listener.truncated()
        self._step(Truncated(self.log.log_end_offset, self.log.leader_epochs.latest_epoch))

    def _load_snapshot(self, snapshot: SnapshotId) -> None:
        try:
            # first: a damaged snapshot, or one that this node cannot apply, must not cost the log
            decoded = decode_parts(self._disk, snapshot)
        except ProtocolError as error:
            self._listener.snapshot_refused(snapshot, error)
            self._step(SnapshotRefused())
            return
        image = self._listener.snapshot_folded(snapshot, decoded)
        keep_for_replacing(self._disk, snapshot)
        self.log = replaced_log(self._disk, self.log, self._flushed_offset, self._clock.now_ms())
        self._step(SnapshotLoaded(snapshot, self._listener.snapshot_loaded(snapshot, decoded, image)))

    # -- over the network

    def _ask(self, output: Ask) -> None:
        task = asyncio.get_running_loop().create_task(self._asking(output))
        self._asks[task] = output.request
        task.add_done_callback(self._ask_ended)

    def _ask_ended(self, task: asyncio.Task[None]) -> None:
        del self._asks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._listener.broken(error)

    async def _asking(self, output: Ask) -> None:
        answer = await self._channel.ask(output.node_id, output.request, self.quorum.log.voters.latest)
        self._step(Answered(output.node_id, output.request, answer))

    def _answer(self, request_id: int, answer: Standing) -> None:
        waiting = self._requests.pop(request_id)
        if not waiting.done():  # else its client is gone
            waiting.set_result(answer)

    def _answer_with_bytes(self, output: AnswerRecords | AnswerSnapshot) -> None:
        """Sends only the part of the log that the machine knows: records that the controller is still applying may yet
        be cut. Raises StorageFailedError, after the answer: a node that needs those bytes would ask this leader
        forever."""
        answer: Standing
        try:
            if isinstance(output, AnswerRecords):
                end_offset = self.quorum.log.log_end_offset
                read = self.log.read(output.offset, max_bytes=MAX_BYTES, end_offset=end_offset, may_wait=True)
                answer = msgspec.structs.replace(output.answer, records=bytes(read.records or b""))
            else:
                part = read_part(self._disk, output.snapshot, output.position, MAX_BYTES)
                if part is None:
                    answer = msgspec.structs.replace(output.answer, error="SNAPSHOT_NOT_FOUND")
                elif output.position >= part[0]:
                    answer = msgspec.structs.replace(output.answer, error="POSITION_OUT_OF_RANGE")
                else:
                    answer = msgspec.structs.replace(output.answer, size=part[0], data=part[1])
                    if output.position == 0:
                        self._listener.snapshot_sent(output.snapshot)
        except KafkaError:
            answer = msgspec.structs.replace(output.answer, error="KAFKA_STORAGE_ERROR")
        except StorageFailedError:
            self._answer(output.request_id, msgspec.structs.replace(output.answer, error="KAFKA_STORAGE_ERROR"))
            raise
        self._answer(output.request_id, answer)

    # -- time

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
            release_spare(self._disk)
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
