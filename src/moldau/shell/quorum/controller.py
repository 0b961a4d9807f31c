"""The active controller: the machine of core/controller on the runtime of shell/coordination, for one leader epoch.

    submit -> decide -> append (page cache) -> apply -> flush (Workers) -> committed -> image, subscribers -> reply

Requests decided during a flush share the next one. When leadership ends, the controller's image is reset to the
committed one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from moldau.core.controller.machine import ControllerDecision, ControllerMachine
from moldau.core.controller.requests import ControllerRequest, ControllerResponse
from moldau.core.coordination.host import CoordinatorHost
from moldau.core.coordination.machine import Counts, Now
from moldau.core.metadata.batches import MAX_BATCH_BYTES, batch_too_large, build_metadata_batch
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.errors import InvariantError, KafkaError, ProtocolError, kafka_error
from moldau.ports import Clock
from moldau.shell.coordination.runtime import LongWork, MachineRuntime
from moldau.shell.network.event_log import EventLog
from moldau.shell.quorum.applied import AppliedMetadata
from moldau.shell.quorum.raft_driver import RaftDriver, RaftListener
from moldau.types import METADATA_PARTITION, Buffer, Offset, Pausing

MAX_PENDING_REQUESTS = 10_000
"""Requests that may wait for a flush; any above it are rejected with REQUEST_TIMED_OUT, which clients retry."""

ControllerAnswer: TypeAlias = "ControllerResponse | asyncio.Future[ControllerResponse]"


class ActiveController:
    """One leader epoch. `applied` holds all records of the log. `listener` gets the errors that end the epoch."""

    def __init__(
        self,
        machine: ControllerMachine,
        applied: AppliedMetadata,
        raft: RaftDriver,
        listener: RaftListener,
        *,
        clock: Clock,
        pauses: LongWork,
        event_log: EventLog,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.failed = listener.failed
        self._fold = fold = applied.fold
        self._raft = raft
        self._publisher = applied.publisher
        self._event_log = event_log
        self._broken = listener.broken
        host = CoordinatorHost(machine, METADATA_PARTITION, end_offset=self.end_offset, state=fold)
        loop = asyncio.get_running_loop()
        self._runtime: MachineRuntime[MetadataFold, ControllerRequest, ControllerResponse, MetadataRecord]
        self._runtime = MachineRuntime(host, self, loop=loop, clock=clock, pauses=pauses, spawn=spawn)
        self._runtime.begin(fold.image)

    def ask(self, request: ControllerRequest) -> ControllerAnswer:
        """Decides `request` now, unless others wait before it. Returns the answer, or a future that ends when the
        answer is committed. Raises KafkaError, now or through the future."""
        if self._runtime.waiting_count >= MAX_PENDING_REQUESTS:
            raise kafka_error("REQUEST_TIMED_OUT", "the controller has too many requests waiting")
        return self._runtime.submit(request)

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed and published: sends the answers that depend on it."""
        self._runtime.committed(end_offset)

    def refuse_waiting(self, error: KafkaError) -> None:
        """Every waiting request gets `error`; the controller continues."""
        self._runtime.drop(error)

    def end(self, error: KafkaError) -> None:
        """Leadership has ended: every request gets `error`, and uncommitted decisions are taken back."""
        self._runtime.close(error)
        self._publisher.take_back()
        self._fold.go_back_to(self._publisher.image)

    def abort(self) -> None:
        """Ends like a crash: no request gets an answer."""
        self._runtime.abort()

    # the MachineLog of the runtime

    @property
    def end_offset(self) -> int:
        """The end offset of the metadata log, exclusive."""
        return self._raft.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        return self._raft.quorum.high_watermark

    def encode(self, decision: ControllerDecision, now: Now) -> Pausing[bytearray]:
        """Raises INVALID_REQUEST for a value that its field cannot hold."""
        levels, epoch = self._fold.image.features, self._raft.quorum.leader_epoch
        building = build_metadata_batch(decision.records, levels, now_ms=now.wall_ms, leader_epoch=epoch)
        try:
            batch = yield from building
        except ProtocolError as error:
            raise kafka_error("INVALID_REQUEST", str(error)) from error
        if len(batch) > MAX_BATCH_BYTES:
            raise batch_too_large()
        return bytearray(batch)

    def append(self, batch: Buffer, now: Now) -> int:
        """Returns the last offset. If it raises KafkaError, StorageFullError or StorageFailedError, the log is
        unchanged."""
        return self._raft.append(batch, now.wall_ms)

    def applied(self, records: tuple[MetadataRecord, ...], counts: Counts) -> None:
        """The appended records are applied: they are published, and their requests answered, once they are
        committed."""
        self._publisher.applied(self._fold.take_delta(Offset(self.end_offset), self._raft.quorum.leader_epoch))
        self._raft.applied()

    def stopped(self, reason: str) -> None:
        """A record cannot be applied: the node stops."""
        self._broken(InvariantError(reason))

    def unforeseen(self, error: Exception) -> None:
        """Logs a bug of ours after its request was rejected."""
        self._event_log.unforeseen(f"controller {type(error).__name__}", "a decision of the controller failed", error)
