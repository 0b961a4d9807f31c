"""The quorum of a node: puts its four rooms together, and starts and stops them.

    core/raft, raft_driver   who leads, and what of the metadata log is committed
    metadata_log, publisher  the loader: snapshot and log folded at a start; the committed image and its subscribers
    controller               what is decided, in each leader epoch
    snapshots                committed images on the disk

So far this node is the only voter: it leads from its start to its end. A failed device takes the role offline until a
restart: every request gets KAFKA_STORAGE_ERROR, the image stays as it was last committed, and the process lives on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.machine import ControllerMachine
from moldau.core.controller.requests import (
    ActivateController,
    ControllerRequest,
    ControllerResponse,
    QuorumDescription,
)
from moldau.core.log.cut import Cut
from moldau.core.log.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.health import DirectoryHealth
from moldau.core.log.log import Log
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION, REGISTERED_FEATURES
from moldau.core.metadata.image import BrokerListener, MetadataImage
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, QuorumControl
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import QuorumSettings
from moldau.core.raft.voters import ReplicaKey, VoterHistory, VoterSet, configured_voters
from moldau.errors import InvariantError, KafkaError, StorageFailedError, StorageFullError, kafka_error
from moldau.ports import FLUSH_FAILED_MARK, Clock, Disk, Random, Workers
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.pauses import Pauses
from moldau.shell.quorum.controller import ActiveController, ControllerAnswer
from moldau.shell.quorum.metadata_log import check_levels, fold_log, load_bootstrap_records, open_log
from moldau.shell.quorum.publisher import Publisher, Subscriber
from moldau.shell.quorum.quorum_state import QUORUM_STATE, check_voters, read_quorum_state
from moldau.shell.quorum.raft_driver import RaftDriver
from moldau.shell.quorum.snapshots import Snapshots
from moldau.types import ZERO_UUID, BrokerId, Offset, Uuid
from moldau.wire.protocol.messages.broker_lifecycle import ControllerRegistrationRequest, RegisteredListener


class VoterIdentity(msgspec.Struct, frozen=True):
    """Who this voter is: from `meta.properties`, and where its controller listener is."""

    node_id: BrokerId
    cluster_id: str
    directory_id: Uuid
    controller_listener: BrokerListener


class QuorumRole:
    """One per node; lives on one loop."""

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
        """`on_invariant_broken` is called when our own code (a subscriber, the fold) fails behind a request: the node
        has to stop."""
        self.identity = identity
        self.health = health or DirectoryHealth()
        """Shared with the other logs of the directory: one failed fsync takes all of them offline."""
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
        self._settings = settings
        self._control = QuorumControl()
        self._machine = ControllerMachine(identity.cluster_id, settings, random, lambda: self._control.kraft_version)
        self._fold = self._machine.new_state()  # what is applied, and not all of it committed
        self._publisher = Publisher(identity.cluster_id)
        self._tasks: dict[asyncio.Task[None], None] = {}  # a long decision, a flush, a snapshot
        self._snapshots = Snapshots(
            disk, clock, workers, settings, pause_long=pauses.pause_long, spawn=self._spawn, failed=self.failed
        )
        self._raft: RaftDriver | None = None
        self._controller: ActiveController | None = None
        self._is_stopping = False

    # what others see

    @property
    def image(self) -> MetadataImage:
        """What is committed, and what subscribers know."""
        return self._publisher.image

    @property
    def high_watermark(self) -> int:
        """Everything below is flushed, and in `image`."""
        return self.image.end_offset

    @property
    def leader_epoch(self) -> int:
        """Of this node's leadership; 0 before `start`."""
        return 0 if self._raft is None else self._raft.quorum.leader_epoch

    @property
    def log(self) -> Log:
        """The metadata log; after `start`."""
        return self._voter.log

    @property
    def _voter(self) -> RaftDriver:
        if self._raft is None:
            raise InvariantError("the quorum was not started, or is stopped")
        return self._raft

    @property
    def is_offline(self) -> bool:
        """The device failed: nothing is decided until a restart."""
        return self.health.is_offline

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(image, delta)` on the loop for each committed change, in order, before its request is
        answered. The first call has all there is."""
        self._publisher.subscribe(subscriber)

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

    def finalized_features(self) -> dict[str, int]:
        """All levels in force, also those that clients are not shown."""
        return {**self.image.features, KRAFT_VERSION: self._control.kraft_version}

    # start and stop

    async def start(self) -> None:
        """Folds the log, opens a new leader epoch, writes a new cluster's first records. Returns when all is durable.

        Raises QuorumError (one sentence: the directory belongs to a larger quorum, to a later Kafka, is broken),
        StorageFullError, StorageFailedError.
        """
        raft = self._load()
        is_new = METADATA_VERSION not in self._fold.image.features
        activate = ActivateController(load_bootstrap_records(self._disk) if is_new else ())
        raft.begin()
        # decided one after the other, made durable by one flush
        await _all_answered(self.ask(activate), self.ask(self._registration()))

    def _registration(self) -> ControllerRegistrationRequest:
        point = self.identity.controller_listener
        return ControllerRegistrationRequest(
            self.identity.node_id,
            random_uuid(self._random),
            listeners=(RegisteredListener(point.name, point.host, point.port, point.security_protocol),),
            features=REGISTERED_FEATURES,
        )

    def _load(self) -> RaftDriver:
        """Folds snapshot and log. Waits for the disk."""
        disk, fold = self._disk, self._fold
        self._snapshots.remove_unfinished()
        flushed_offset = FlushedOffset(disk, f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}")
        now_ms, is_rewritten = self._clock.now_ms(), disk.exists(FLUSH_FAILED_MARK)
        flushed = flushed_offset.read()
        log = open_log(disk, self._settings, self.health, flushed, now_ms=now_ms, is_rewritten=is_rewritten)
        self.cuts = log.cuts
        try:
            loaded, replay = fold_log(fold, disk, log)
            self.damaged_snapshots = loaded.damaged
            self._control = replay.control
            self._snapshots.started(log.size_bytes - replay.bytes_read)
            if METADATA_VERSION in fold.image.features:
                # nothing was written yet: the directory stays as its Kafka left it
                check_levels(fold.image.features, log, loaded)
            saved = read_quorum_state(disk, QUORUM_STATE)
            check_voters(saved, self._control.voters, self.identity.node_id, self.identity.directory_id)
        except BaseException:
            log.release()
            raise
        identity, control = self.identity, self._control
        if control.voters is None:
            voters = VoterHistory(configured_voters((identity.node_id,)))
        else:
            voters = VoterHistory(VoterSet(control.voters.voters), control.kraft_version)
        own_log = OwnLog(
            voters,
            log.end_offset_for_epoch,
            log_end_offset=log.log_end_offset,
            latest_epoch=log.leader_epochs.latest_epoch,
        )
        node = ReplicaKey(identity.node_id, identity.directory_id)
        quorum = Quorum(node, saved, own_log, QuorumSettings(), self._random)
        self._raft = RaftDriver(
            quorum,
            log,
            flushed_offset,
            self,
            disk=disk,
            clock=self._clock,
            workers=self._workers,
            spawn=self._spawn,
        )
        return self._raft

    async def settle(self) -> None:
        """Takes no request any more (NOT_CONTROLLER), ends what is begun, resigns, and makes the note of the flushed
        offset durable, before the mark of a clean stop is written. A failure takes the directory offline."""
        self._is_stopping = True
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._raft is not None:
            await self._raft.settle()

    def close(self) -> None:
        """Flushes and closes the log; after `settle`. Waits for the disk."""
        if self._raft is not None:
            self._raft.close()
            self._raft = None

    def abort(self) -> None:
        """As a crash: nothing is flushed or closed, no request gets an answer."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._controller is not None:
            self._controller.abort()
        if self._raft is not None:
            self._raft.abort()
            self._raft = None

    # requests

    async def submit(self, request: ControllerRequest) -> ControllerResponse:
        """Decides `request` and answers when its records are flushed and the subscribers know.

        Raises KafkaError: what the controller refuses as a whole; KAFKA_STORAGE_ERROR if the records cannot be stored;
        NOT_CONTROLLER when stopping.
        """
        answer = self.ask(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def ask(self, request: ControllerRequest) -> ControllerAnswer:
        """Decides `request` now; gives the answer, or a future that has it once it is durable. Raises as `submit`."""
        if self._is_stopping:
            raise kafka_error("NOT_CONTROLLER")
        if self.is_offline or self._controller is None:
            raise self._not_leading()
        return self._controller.ask(request)

    def _not_leading(self) -> KafkaError:
        if self.is_offline:
            return kafka_error("KAFKA_STORAGE_ERROR", self.health.failure)
        return kafka_error("NOT_CONTROLLER")

    def decided_epoch(self, broker_id: int, incarnation_id: Uuid) -> int | None:
        """The epoch of a registration that is decided, and perhaps not committed yet: what is asked at once for this
        epoch is committed by the same flush."""
        broker = self._fold.image.brokers.get(broker_id)
        return None if broker is None or broker.incarnation_id != incarnation_id else broker.epoch

    # what the voter reports

    def leadership_began(self) -> None:
        """A new epoch stands in the log: the controller decides from here on."""
        self._publisher.applied(self._fold.take_delta(Offset(self.log.log_end_offset), self.leader_epoch))
        self._controller = ActiveController(
            self._machine,
            self._fold,
            self._voter,
            self._publisher,
            clock=self._clock,
            pauses=self._pauses,
            event_log=self._event_log,
            spawn=self._spawn,
            failed=self.failed,
            broken=self._fail,
        )

    def leadership_ended(self) -> None:
        """The controller decides no more, and what is not committed is taken back."""
        if self._controller is not None:
            self._controller.end(self._not_leading())
            self._controller = None

    def committed(self, end_offset: int) -> None:
        """The image moves, subscribers get the changes, requests are answered."""
        self._publisher.committed(end_offset)
        if self._controller is not None:
            self._controller.committed(end_offset)
        if not self._is_stopping:
            self._snapshots.take_if_due(self.image, self._control, self.log)

    def flush_refused(self, error: StorageFullError) -> None:
        """No room for a file beside the log: requests that wait get the error."""
        if self._controller is not None:
            self._controller.refuse_waiting(kafka_error("KAFKA_STORAGE_ERROR", str(error)))

    def failed(self, error: StorageFailedError) -> None:
        """Offline until a restart: every request gets KAFKA_STORAGE_ERROR."""
        self.health.fail(error)
        if self._raft is not None:
            self._raft.resign()

    # work beside the requests

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
        """Our own mistake: nothing is decided any more, every request gets an answer, and the node stops."""
        self._is_stopping = True
        if self._controller is not None:
            self._controller.refuse_waiting(kafka_error("UNKNOWN_SERVER_ERROR"))
        broken = InvariantError(f"the quorum failed: {error!r}")
        broken.__cause__ = error
        self._on_invariant_broken(broken)


async def _all_answered(*answers: ControllerAnswer) -> None:
    await asyncio.gather(*(answer for answer in answers if isinstance(answer, asyncio.Future)))
