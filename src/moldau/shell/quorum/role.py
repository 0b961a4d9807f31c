"""The quorum of one voter: the metadata log, durable before anything is answered, and the controller on top of it.

    submit -> decide -> append (page cache) -> apply -> flush (Workers) -> committed -> image, subscribers -> reply

The runtime of `shell/coordination` drives the controller; here is what it does to the metadata log. Requests that are
decided while a flush runs wait for the next one together. Each start is a new leader epoch, written to `quorum-state`
before the log says so (a voter must not forget an epoch), and begins with a LeaderChange record.

What the disk does to us. No space: the request is refused with KAFKA_STORAGE_ERROR, the log ends where it ended, the
next request tries again. A failed device: the role is offline until a restart, every request gets KAFKA_STORAGE_ERROR,
and the image stays as it was last committed; the process lives on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.machine import ControllerMachine
from moldau.core.controller.requests import (
    ActivateController,
    ControllerRequest,
    ControllerResponse,
    QuorumDescription,
    RegisterBroker,
    RegisterController,
    ShutDownBroker,
    Step,
    UnfenceBroker,
)
from moldau.core.coordination.host import CoordinatorHost
from moldau.core.coordination.machine import Decision, Now
from moldau.core.log.cut import Cut
from moldau.core.log.flush import FlushPlan
from moldau.core.log.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.health import DirectoryHealth
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.retention import remove_files
from moldau.core.metadata.batches import MAX_BATCH_BYTES, batch_too_large, build_metadata_batch
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.core.metadata.image import BrokerListener, MetadataDelta, MetadataImage
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, QuorumControl
from moldau.core.metadata.unserved import UnservedRecords
from moldau.errors import InvariantError, KafkaError, ProtocolError, StorageFailedError, StorageFullError, kafka_error
from moldau.ports import FLUSH_FAILED_MARK, Clock, Disk, Random, Workers
from moldau.shell.coordination.runtime import MachineRuntime
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.pauses import Pauses
from moldau.shell.quorum.metadata_log import check_levels, fold_log, load_bootstrap_records, open_log
from moldau.shell.quorum.quorum_state import QuorumError, QuorumState, read_quorum_state, write_quorum_state
from moldau.shell.quorum.snapshots import SnapshotWriter, remove_unfinished
from moldau.types import METADATA_PARTITION, ZERO_UUID, BrokerId, Buffer, Offset, Pausing, Uuid, uuid_to_text
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import LeaderChangeMessage, LeaderChangeMessageVoter
from moldau.wire.records.control import ControlType, build_control_batch

QUORUM_STATE = f"{METADATA_DIRECTORY}/quorum-state"
PARTITION_METADATA = f"{METADATA_DIRECTORY}/partition.metadata"
FULL_RETRY_S = 0.5
MAX_PENDING_REQUESTS = 10_000
"""Requests that wait for a flush; one more is refused with REQUEST_TIMED_OUT, which clients try again."""

Subscriber = Callable[[MetadataImage, MetadataDelta], None]
Host = CoordinatorHost[MetadataFold, ControllerRequest, ControllerResponse, MetadataRecord]
Runtime = MachineRuntime[MetadataFold, ControllerRequest, ControllerResponse, MetadataRecord]
ControllerDecision = Decision[ControllerRequest, ControllerResponse, MetadataRecord]


class VoterIdentity(msgspec.Struct, frozen=True):
    """Who this voter is: from `meta.properties`, and where its controller listener is."""

    node_id: BrokerId
    cluster_id: str
    directory_id: Uuid
    controller_listener: BrokerListener


class QuorumRole:
    """One per node; lives on one loop. `image` is what is committed, and what subscribers are told."""

    def __init__(
        self,
        *,
        identity: VoterIdentity,
        settings: BrokerSettings,
        disk: Disk,
        clock: Clock,
        random: Random,
        workers: Workers,
        pauses: Pauses,
        event_log: EventLog,
        on_invariant_broken: Callable[[InvariantError], None],
        health: DirectoryHealth | None = None,
    ) -> None:
        """`on_invariant_broken` hears when our own code (a subscriber, the fold) fails behind a request: the node has
        to stop."""
        self.identity = identity
        self.health = health or DirectoryHealth()
        """Shared with the other logs of the directory: one failed fsync takes all of them offline."""
        self.image = MetadataImage(identity.cluster_id)
        self.leader_epoch = 0
        self.cuts: Sequence[Cut] = ()  # what recovery took out of the log
        self.damaged_snapshots: Sequence[str] = ()
        """Where the newest ones lie now if an older one was read in their place."""
        self._on_invariant_broken = on_invariant_broken
        self._disk = disk
        self._clock = clock
        self._random = random
        self._workers = workers
        self._pauses = pauses
        self._event_log = event_log
        self._machine = ControllerMachine(identity.cluster_id, settings, random, lambda: self._control.kraft_version)
        self._fold = self._machine.new_state()  # what is appended, and not all of it committed
        self._subscribers: list[Subscriber] = []
        self._deltas: deque[MetadataDelta] = deque()
        self._tasks: dict[asyncio.Task[None], None] = {}  # a long decision, a flush, a snapshot
        self._is_flushing = False
        self._snapshots = SnapshotWriter(
            disk,
            clock,
            workers,
            max_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
            interval_ms=settings.metadata_log_max_snapshot_interval_ms,
        )
        self._is_snapshotting = False
        self._settings = settings
        self._is_stopping = False
        self._control = QuorumControl()
        self._log: Log | None = None
        self._flushed_offset = FlushedOffset(disk, f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}")
        self._runtime: Runtime | None = None

    # what others see

    @property
    def high_watermark(self) -> int:
        """Everything below is flushed, and in `image`."""
        return self.image.end_offset

    @property
    def log(self) -> Log:
        """The metadata log; after `start`."""
        if self._log is None:
            raise InvariantError("the quorum was not started, or is stopped")
        return self._log

    @property
    def is_offline(self) -> bool:
        """The device failed: nothing is decided until a restart."""
        return self.health.is_offline

    def unserved(self) -> UnservedRecords:
        """The records that are kept for Apache Kafka and not acted on; after `start`."""
        return self._fold.unserved

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(image, delta)` on the loop for each committed change, in order, before its request is
        answered. The first call tells all there is."""
        self._subscribers.append(subscriber)
        if self.image.end_offset:
            subscriber(self.image, self.image.as_delta())

    def describe(self) -> QuorumDescription:
        """For DescribeQuorum; after `start`."""
        voters = self._control.voters
        listener = self.identity.controller_listener
        listeners: tuple[BrokerListener, ...] = (listener,)
        if voters is not None:
            points = next(iter(voters.voters)).endpoints
            listeners = tuple(BrokerListener(point.name, point.host, point.port) for point in points)
        return QuorumDescription(
            leader_id=self.identity.node_id,
            leader_epoch=self.leader_epoch,
            high_watermark=self.high_watermark,
            log_end_offset=self.log.log_end_offset,
            directory_id=ZERO_UUID if voters is None else self.identity.directory_id,
            listeners=listeners,
        )

    # start and stop

    async def start(self) -> None:
        """Folds the log, opens a new leader epoch, writes a new cluster's first records. Returns when all is durable.

        Raises QuorumError (one sentence: the directory belongs to a larger quorum, to a later Kafka, is broken),
        StorageFullError, StorageFailedError.
        """
        fold = self._fold
        self._runtime = runtime = MachineRuntime(
            self._load(),
            self,
            loop=asyncio.get_running_loop(),
            clock=self._clock,
            pauses=self._pauses,
            spawn=self._spawn,
        )
        is_new = METADATA_VERSION not in fold.image.features
        activate = ActivateController(load_bootstrap_records(self._disk) if is_new else ())
        self._open_epoch()
        runtime.begin(fold.image)
        self._deltas.append(fold.take_delta(Offset(self.log.log_end_offset), self.leader_epoch))
        listeners = (self.identity.controller_listener,)
        register = RegisterController(self.identity.node_id, random_uuid(self._random), listeners)
        # decided one after the other, made durable by one flush
        await _all_answered(self._decided(activate), self._decided(register))

    async def settle(self) -> None:
        """Takes no request any more (NOT_CONTROLLER) and makes the note of the flushed offset durable, before the mark
        of a clean stop is written. A failure takes the directory offline."""
        self._is_stopping = True
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._log is not None and not self.is_offline:
            try:
                await self._workers.run(partial(self._flushed_offset.save, self._log.recovery_point))
            except StorageFailedError as error:
                self.health.fail(error)

    async def stop(self) -> None:
        """Settles, flushes and closes the log."""
        await self.settle()
        if self._log is not None:
            self._log.close(self._clock.now_ms())
            if not self.is_offline:
                self._flushed_offset.write(self._log.log_end_offset)
            self._log = None
        self._flushed_offset.close()
        self._fail_waiting(kafka_error("NOT_CONTROLLER"))

    def abort(self) -> None:
        """As a crash: nothing is flushed or closed, nobody gets an answer."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._runtime is not None:
            self._runtime.abort()
        if self._log is not None:
            self._log.release()
            self._log = None
        self._flushed_offset.close()

    def _load(self) -> Host:
        """Folds snapshot and log. Waits for the disk."""
        remove_unfinished(self._disk)
        flushed = self._flushed_offset.read()
        now_ms, is_rewritten = self._clock.now_ms(), self._disk.exists(FLUSH_FAILED_MARK)
        log = open_log(self._disk, self._settings, self.health, flushed, now_ms=now_ms, is_rewritten=is_rewritten)
        self._log, self.cuts = log, log.cuts
        fold = self._fold
        loaded, replay = fold_log(fold, self._disk, log)
        self.damaged_snapshots = loaded.damaged
        self._control = replay.control
        self._snapshots.started(log.size_bytes - replay.bytes_read)
        if METADATA_VERSION in fold.image.features:
            # nothing was written yet: the directory stays as its Kafka left it
            check_levels(fold.image.features, log, loaded)
        return CoordinatorHost(self._machine, METADATA_PARTITION, end_offset=log.log_end_offset, state=fold)

    def _open_epoch(self) -> None:
        """Makes this node the leader of a new epoch, in `quorum-state` and then in the log (not yet flushed)."""
        state = read_quorum_state(self._disk, QUORUM_STATE)
        voters = self._check_voters(state)
        last_epoch = max(self.log.leader_epochs.latest_epoch, 0 if state is None else state.leader_epoch)
        self.leader_epoch = last_epoch + 1
        is_version_0 = self._control.voters is None
        write_quorum_state(
            self._disk,
            QUORUM_STATE,
            QuorumState(self.identity.node_id, self.leader_epoch, voter_ids=voters if is_version_0 else None),
        )
        if not self._disk.exists(PARTITION_METADATA):
            self._disk.replace_file(PARTITION_METADATA, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
        voter = LeaderChangeMessageVoter(self.identity.node_id)
        change = LeaderChangeMessage(0, self.identity.node_id, (voter,), (voter,))
        records = [(ControlType.LEADER_CHANGE, encode_message(change, 0))]
        if self.log.log_end_offset == 0:
            # the first voters stand in a snapshot of nothing; the first leader writes them into the log (KIP-853)
            records += self._control.records()
        now_ms = self._clock.now_ms()
        batch = build_control_batch(records, timestamp=now_ms, leader_epoch=self.leader_epoch)
        self.log.append(bytearray(batch), leader_epoch=self.leader_epoch, now_ms=now_ms, origin=AppendOrigin.CONTROLLER)

    def _check_voters(self, state: QuorumState | None) -> tuple[int, ...]:
        """The ids of the voters, if they are this node alone. Raises QuorumError otherwise."""
        node_id = self.identity.node_id
        if self._control.voters is not None:
            voters = tuple(voter.voter_id for voter in self._control.voters.voters)
            voter_ids = [voter.voter_directory_id for voter in self._control.voters.voters]
            own_id = self.identity.directory_id
            if voters == (node_id,) and voter_ids != [own_id]:
                raise QuorumError(
                    f"meta.properties says directory.id={uuid_to_text(own_id)}, but the metadata log belongs to the "
                    f"directory {uuid_to_text(voter_ids[0])}: correct the line, or put the directory's own files back"
                )
        else:
            voters = (node_id,) if state is None or state.voter_ids is None else state.voter_ids
        if voters != (node_id,):
            names = ", ".join(str(voter) for voter in voters)
            raise QuorumError(
                f"the voters of this cluster are {names}: Moldau serves only a cluster of node {node_id} alone yet"
            )
        return voters

    def finalized_features(self) -> dict[str, int]:
        """All levels in force, also those that clients are not shown."""
        return {**self.image.features, KRAFT_VERSION: self._control.kraft_version}

    # requests

    async def submit(self, request: ControllerRequest) -> ControllerResponse:
        """Decides `request` and answers when its records are flushed and the subscribers know.

        Raises KafkaError: what the controller refuses as a whole; KAFKA_STORAGE_ERROR if the records cannot be stored;
        NOT_CONTROLLER when stopping.
        """
        return await _answered(self._decided(request))

    def _decided(self, request: ControllerRequest) -> ControllerResponse | asyncio.Future[ControllerResponse]:
        """Decides `request` now; gives the answer, or a future that has it once it is durable. Raises as `submit`."""
        runtime = self._runtime
        if self._is_stopping or self._log is None or runtime is None:
            raise kafka_error("NOT_CONTROLLER")
        if self.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR", self.health.failure)
        if runtime.waiting_count >= MAX_PENDING_REQUESTS:
            raise kafka_error("REQUEST_TIMED_OUT", "the controller has too many requests waiting")
        if isinstance(request, RegisterBroker):
            request = msgspec.structs.replace(request, broker_epoch=self.log.log_end_offset)
        return runtime.submit(request)

    async def start_broker(self, request: RegisterBroker) -> int:
        """Registers this node's broker, which serves already, and unfences it with the same flush; gives its epoch.

        Raises KafkaError as `submit`.
        """
        registered = self._decided(request)
        broker = self._fold.image.brokers.get(request.broker_id)
        if broker is not None and broker.incarnation_id == request.incarnation_id:
            epoch = broker.epoch
            await _all_answered(registered, self._decided(UnfenceBroker(request.broker_id, epoch)))
        else:
            await _answered(registered)
            epoch = await self.register_broker(request)
        await self.unfence_broker(epoch)
        return epoch

    async def register_broker(self, request: RegisterBroker) -> int:
        """Registers this node's broker, fenced, and gives its epoch. Raises KafkaError as `submit`."""
        return await self._repeat(request)

    async def unfence_broker(self, broker_epoch: int) -> None:
        """The broker serves: it becomes leader of its partitions. Raises KafkaError as `submit`."""
        await self._repeat(UnfenceBroker(self.identity.node_id, broker_epoch))

    async def shut_down_broker(self, broker_epoch: int) -> None:
        """The broker stops cleanly: its partitions lose their leader, it is fenced. Raises KafkaError as `submit`."""
        await self._repeat(ShutDownBroker(self.identity.node_id, broker_epoch))

    async def _repeat(self, request: ControllerRequest) -> int:
        while True:
            step = await self.submit(request)
            if isinstance(step, Step) and step.is_done:
                return step.broker_epoch

    # what the runtime asks of its log

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    def encode(self, decision: ControllerDecision, now: Now) -> Pausing[bytearray]:
        """Raises INVALID_REQUEST for a value that its field cannot hold."""
        levels = self._fold.image.features
        building = build_metadata_batch(decision.records, levels, now_ms=now.wall_ms, leader_epoch=self.leader_epoch)
        try:
            batch = yield from building
        except ProtocolError as error:
            raise kafka_error("INVALID_REQUEST", str(error)) from error
        if len(batch) > MAX_BATCH_BYTES:
            raise batch_too_large()
        return bytearray(batch)

    def append(self, batch: Buffer, now: Now) -> int:
        origin, epoch = AppendOrigin.CONTROLLER, self.leader_epoch
        return self.log.append(batch, leader_epoch=epoch, now_ms=now.wall_ms, origin=origin).last_offset

    def applied(self, records: tuple[MetadataRecord, ...], *, is_of_timer: bool) -> None:
        self._deltas.append(self._fold.take_delta(Offset(self.log.log_end_offset), self.leader_epoch))
        self._begin_flush()

    def failed(self, error: StorageFailedError) -> None:
        """Offline until a restart: everybody gets KAFKA_STORAGE_ERROR."""
        self.health.fail(error)
        self._fail_waiting(kafka_error("KAFKA_STORAGE_ERROR", str(error)))

    def stopped(self, reason: str) -> None:
        self._fail(InvariantError(reason))

    def unforeseen(self, error: Exception) -> None:
        self._event_log.unforeseen(f"controller {type(error).__name__}", "a decision of the controller failed", error)

    def _fail_waiting(self, error: KafkaError) -> None:
        if self._runtime is not None:
            self._runtime.drop(error)

    # durability

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Our own mistake: nothing is decided any more, everybody gets an answer, the node is told."""
        self._is_stopping = True
        self._fail_waiting(kafka_error("UNKNOWN_SERVER_ERROR"))
        broken = InvariantError(f"the quorum failed: {error!r}")
        broken.__cause__ = error
        self._on_invariant_broken(broken)

    def _begin_flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._spawn(self._flush_all())

    async def _flush_all(self) -> None:
        """Flushes until the log end is durable; what is appended meanwhile goes with the next round."""
        try:
            while self._log is not None and self.high_watermark < self._log.log_end_offset:
                plan = self._log.unflushed()
                if plan is None:
                    self._commit(self._log.log_end_offset)
                    return
                try:
                    await self._workers.run(partial(self._flush, plan))
                except StorageFullError as error:
                    # no room for a file beside the log: who waits gets the error, what is written is flushed when there
                    # is room
                    self._fail_waiting(kafka_error("KAFKA_STORAGE_ERROR", str(error)))
                    if self._is_stopping:
                        return
                    await asyncio.sleep(FULL_RETRY_S)
                    continue
                self._flushed(plan)
        except StorageFailedError as error:
            self.failed(error)
        finally:
            self._is_flushing = False

    def _flush(self, plan: FlushPlan) -> None:
        plan.run()
        self._flushed_offset.write(plan.end_offset)

    def _flushed(self, plan: FlushPlan) -> None:
        if self._log is not None:
            self._log.mark_flushed(plan, self._clock.now_ms())
            self._commit(plan.end_offset)

    def _commit(self, end_offset: int) -> None:
        """Everything below `end_offset` is durable: the image moves, subscribers hear, requests are answered."""
        while self._deltas and self._deltas[0].end_offset <= end_offset:
            delta = self._deltas.popleft()
            self.image.apply_delta(delta)
            for subscriber in self._subscribers:
                subscriber(self.image, delta)
        if self._runtime is not None:
            self._runtime.committed(end_offset)
        self._snapshot_if_due()

    def _snapshot_if_due(self) -> None:
        if self._log is None or self._is_snapshotting or self._is_stopping:
            return
        if self._snapshots.is_due(self._log.size_bytes):
            self._is_snapshotting = True
            self._spawn(self._snapshot(self.image.copy(), self.unserved().records(), self._log.size_bytes))

    async def _snapshot(self, image: MetadataImage, unserved: tuple[MetadataRecord, ...], log_size_bytes: int) -> None:
        try:
            pause_long = self._pauses.pause_long
            oldest_end_offset = await self._snapshots.write(image, unserved, self._control, log_size_bytes, pause_long)
            await self._delete_old_segments(oldest_end_offset)
        except StorageFullError:
            return  # the log has everything; the next one is due when it has grown as much again
        except StorageFailedError as error:
            self.failed(error)
        finally:
            self._is_snapshotting = False

    async def _delete_old_segments(self, end_offset: int) -> None:
        """What lies before the oldest snapshot, and is too old or too much (metadata.max.retention.*), goes. The newest
        segment stays, so that a start finds where the log ends."""
        log = self._log
        if log is None:
            return
        now_ms, before = self._clock.now_ms(), log.size_bytes
        if log.delete_old_segments(now_ms, min(end_offset, log.log_end_offset - 1)):
            self._snapshots.log_shrank(before - log.size_bytes)
            await self._workers.run(partial(remove_files, log.disk, log.take_purgeable(now_ms)))


async def _answered(answer: ControllerResponse | asyncio.Future[ControllerResponse]) -> ControllerResponse:
    return await answer if isinstance(answer, asyncio.Future) else answer


async def _all_answered(*answers: ControllerResponse | asyncio.Future[ControllerResponse]) -> None:
    await asyncio.gather(*(answer for answer in answers if isinstance(answer, asyncio.Future)))
