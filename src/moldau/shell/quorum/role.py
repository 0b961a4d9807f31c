"""The quorum of a node: assembles its parts, and starts and stops them.

    core/raft, raft_driver   the leader, and the committed end of the metadata log
    channel                  requests to the other nodes of the quorum
    stored_quorum            the state at a start: snapshot and log folded, voters, `quorum-state`
    applied, publisher       the applied part of the log; the committed image and its subscribers
    controller               the decisions of each leader epoch
    snapshots                committed images on the disk

A single voter leads from its start to its end. Among several voters one leads, and the others apply the records that it
appends. They publish applied records when these are committed, and take them back if the logs diverge.

A failed device takes the role offline: every request gets KAFKA_STORAGE_ERROR, the image stays at the last committed
state, and the node ends.
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
    SuspectBroker,
)
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.log import Log
from moldau.core.log.recovery.cut import Cut
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerListener, MetadataImage
from moldau.core.metadata.login_records import LoginRecords, records_in_force
from moldau.core.metadata.releases import unknown_level
from moldau.core.metadata.snapshot import BOOTSTRAP_CHECKPOINT, Snapshot
from moldau.core.raft.messages import NOBODY, Request, SnapshotId, Standing
from moldau.core.raft.protocol import QuorumRequest, Sender, decode_request
from moldau.core.raft.voter_protocol import VoterRequest, VoterResponse
from moldau.core.raft.voters import ReplicaKey, VoterHistory, VoterSet, configured_voters
from moldau.errors import (
    InvariantError,
    KafkaError,
    MoldauError,
    ProtocolError,
    StorageFailedError,
    StorageFullError,
    kafka_error,
)
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.shell.quorum.applied import AppliedMetadata
from moldau.shell.quorum.channel import QuorumChannel
from moldau.shell.quorum.controller import ActiveController, ControllerAnswer
from moldau.shell.quorum.description import describe_quorum
from moldau.shell.quorum.farewell import wait_for_others
from moldau.shell.quorum.heartbeat_connections import HeartbeatConnections
from moldau.shell.quorum.level_watch import LevelWatch, has_joined, note_joined
from moldau.shell.quorum.metadata_log import load_bootstrap_records
from moldau.shell.quorum.publisher import Subscriber
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.shell.quorum.raft_driver import RaftDriver
from moldau.shell.quorum.snapshot_files import found_snapshots, oldest_needed
from moldau.shell.quorum.snapshots import Committed, SnapshotReports, Snapshots
from moldau.shell.quorum.stored_quorum import load_quorum, new_quorum
from moldau.shell.quorum.voter_requests import change_voters
from moldau.types import BrokerId, Buffer, Uuid


class VoterIdentity(msgspec.Struct, frozen=True):
    """The identity of this voter, from `meta.properties`, and its controller's listeners. It reaches other controllers
    under the name of the first of `controller_listeners`."""

    node_id: BrokerId
    cluster_id: str
    directory_id: Uuid
    controller_listeners: tuple[BrokerListener, ...]


class QuorumRole:
    """A node's part in the quorum: one per node; used on one loop."""

    def __init__(
        self,
        *,
        identity: VoterIdentity,
        settings: BrokerSettings,
        node: NodeParts,
        failures: NodeFailures,
        health: DirectoryHealth | None = None,
        configured: VoterSet | None = None,
    ) -> None:
        """`configured`: the voters with their addresses, for a log without voter records; None: this node alone, or no
        voters if a setting names nodes that it joins."""
        self.identity = identity
        self.health = health or DirectoryHealth()
        """Shared with the other logs of the directory: one failed fsync takes all of them offline."""
        self.cuts: Sequence[Cut] = ()  # cuts that recovery made in the log
        self.damaged_snapshots: Sequence[str] = ()  # the new paths of the newest ones, if an older one was read
        self._failures = failures
        self._node, self._settings = node, settings
        self._disk, self._clock, self._random, self._workers = node.disk, node.clock, node.random, node.workers
        self.pauses = node.pauses
        """Shared with all long work of the node."""
        self._event_log = event_log = node.log
        self._voters = VoterHistory(configured or configured_voters((identity.node_id,) if settings.is_alone else ()))
        self._machine = ControllerMachine(identity.cluster_id, settings, node.random, lambda: self.kraft_version)
        self._applied = AppliedMetadata(identity.cluster_id, self._machine.new_state())
        self._tasks: dict[asyncio.Task[None], None] = {}  # long decisions, flushes, snapshots
        self._snapshots = Snapshots(
            node.disk,
            node.clock,
            node.workers,
            settings,
            pause_long=node.pauses.pause_long,
            spawn=self._spawn,
            reports=SnapshotReports(self.failed, self._snapshot_taken, self._snapshot_damaged),
        )
        key = ReplicaKey(identity.node_id, identity.directory_id)
        sender = self._sender = Sender(key, identity.cluster_id, identity.controller_listeners)
        self._channel = QuorumChannel(
            sender,
            node.network,
            request_timeout_ms=settings.controller_quorum_request_timeout_ms,
            on_lost=self._connection_lost,
            on_refused=self._nobody_listens,
            on_stranger=self._met_stranger,
            log=event_log,
            bootstrap=settings.controller_quorum_bootstrap_servers,
        )
        self.levels = LevelWatch(event_log, lambda: self._channel.features_of_others)
        self._raft: RaftDriver | None = None
        self._controller: ActiveController | None = None
        self.leaderships = 0  # leader epochs that this node has started
        self._bootstrap_records: tuple[MetadataRecord, ...] = ()
        self._activation: asyncio.Future[Any] | None = None  # of the active controller: it writes the first records
        self._leader_watchers: list[Callable[[], None]] = []
        self.heartbeats = HeartbeatConnections(self._suspect)
        self._knows_cluster: asyncio.Future[None] | None = None
        self._is_stopping = False

    # the view of other modules

    @property
    def image(self) -> MetadataImage:
        """The committed metadata, as subscribers know it."""
        return self._applied.image

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is flushed, and in `image`."""
        return self.image.end_offset

    @property
    def leader_epoch(self) -> int:
        """The quorum epoch that this node knows; its own if it leads; 0 before `start`."""
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
    def voters(self) -> VoterSet:
        """The current voters, as this node knows them."""
        return self._voters.latest

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return len(self.voters.voters) == 1 and self.voters.has_node(self.identity.node_id)

    @property
    def leader_id(self) -> int:
        """The quorum's leader, as this node knows it; NOBODY (-1): none or unknown."""
        return NOBODY if self._raft is None else self._raft.quorum.leader_id

    @property
    def leader_address(self) -> BrokerListener | None:
        """The address of the leader's controller; None: this node leads, or no leader is known."""
        leader_id = self.leader_id
        return (
            None if leader_id in (NOBODY, self.identity.node_id) else self._channel.address_of(leader_id, self.voters)
        )

    @property
    def unclean_elections(self) -> int:
        """The number of unclean elections that this node's controller has decided."""
        return self._machine.unclean_elections

    @property
    def is_offline(self) -> bool:
        """Whether the device failed: nothing is decided any more."""
        return self.health.is_offline

    def users_at_first(self) -> LoginRecords:
        """The SCRAM credentials in force until something is committed: from the local log, else from the format of the
        directory."""
        of_log = self._applied.fold.image.logins
        return of_log or records_in_force(self._bootstrap_records)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(image, delta)` on the loop for each committed change, in order, before its request is
        answered. The first call has the whole image."""
        self._applied.publisher.subscribe(subscriber)

    def when_leader_changes(self, watcher: Callable[[], None]) -> None:
        """Calls `watcher` on the loop whenever the leader changes, to this node, another one or none."""
        self._leader_watchers.append(watcher)

    def describe(self) -> QuorumDescription:
        """The answer to DescribeQuorum; after `start`. Only the leader knows the progress of the others."""
        me = self.identity
        return describe_quorum(self._voter.quorum, self._clock, me.node_id, me.controller_listeners)

    @property
    def is_leader(self) -> bool:
        """Whether this node's controller is the active one."""
        return self._controller is not None

    @property
    def kraft_version(self) -> int:
        """1: the voters are in the log, 0: they are configured."""
        return self._voters.kraft_version

    def finalized_features(self) -> dict[str, int]:
        """All feature levels in force, including those hidden from clients."""
        return {**self.image.features, KRAFT_VERSION: self.kraft_version}

    # requests of other nodes

    def asked(self, request: QuorumRequest) -> tuple[Request, asyncio.Future[Standing]]:
        """A quorum request of another node, decoded, and the future of its answer. Raises KafkaError, see
        decode_request."""
        asked = decode_request(request, self._sender)
        return asked, self._voter.asked(asked)

    def listener_of(self, node_id: int, name: str) -> BrokerListener | None:
        """The address of a node's controller, for nodes that speak to this node at its listener `name`; None if
        unknown."""
        if node_id == self.identity.node_id:
            return next((each for each in self.identity.controller_listeners if each.name == name), None)
        return self._channel.listener_of(node_id, name, self.voters)

    # start and stop

    async def start(self) -> None:
        """Folds the log and takes a role in the quorum. Returns when the image holds a cluster. The only voter, or a
        leader, has then written the first records of a new cluster, and all is durable; a follower knows the committed
        records.

        Raises QuorumError (one sentence: the directory belongs to another quorum or cluster, to a later Kafka, or is
        damaged), StorageFullError, StorageFailedError.
        """
        raft = self._load()
        # Apache Kafka 4.4 formats a broker alone without any: only a controller writes them
        may_be_first = self._settings.is_controller or self._disk.exists(BOOTSTRAP_CHECKPOINT)
        if METADATA_VERSION not in self._applied.fold.image.features and may_be_first:
            self._bootstrap_records = load_bootstrap_records(self._disk)
        self._knows_cluster = asyncio.get_running_loop().create_future()
        raft.begin()
        if self._activation is not None:
            await self._activation
        await self._knows_cluster
        if not self._settings.is_alone:
            note_joined(self._disk)

    def _load(self) -> RaftDriver:
        """Folds snapshot and log. Waits for the disk."""
        disk, settings = self._disk, self._settings
        self._snapshots.remove_unfinished()
        found = load_quorum(
            disk,
            settings,
            self.health,
            self._applied.fold,
            self._voters,
            self._sender,
            now_ms=self._clock.now_ms(),
        )
        log = found.log
        self._voters, self.cuts, self.damaged_snapshots = found.voters, log.cuts, found.damaged_snapshots
        self._snapshots.started(found.bytes_before_snapshot)
        self._applied.reached(log.log_end_offset, log.leader_epochs.latest_epoch)
        asked_first = self._channel.bootstrap_ids
        self._raft = RaftDriver(
            new_quorum(found, disk, settings, self._random, self._sender, asked_first, lambda: self.log),
            log,
            found.flushed_offset,
            self,
            self._channel,
            node=self._node,
            spawn=self._spawn,
        )
        return self._raft

    async def wait_for_others(self) -> None:
        """Before a clean stop: waits for the other nodes, see farewell."""
        await wait_for_others(self._clock, lambda: self.image, self._voters.latest, self.identity.node_id)

    async def settle(self) -> None:
        """Rejects new requests (NOT_CONTROLLER), finishes the started ones, resigns, and makes the flushed offset
        durable before the clean-stop mark is written. A failure takes the directory offline."""
        self._is_stopping = True
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._raft is not None:
            await self._raft.settle()

    def close(self) -> None:
        """Flushes and closes the log; after `settle`. Waits for the disk. Raises as RaftDriver.close."""
        raft, self._raft = self._raft, None
        if raft is not None:
            raft.close()

    def abort(self) -> None:
        """Ends like a crash: flushes and closes nothing; requests get no answer."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._controller is not None:
            self._controller.abort()
        if self._raft is not None:
            self._raft.abort()
            self._raft = None

    # requests

    async def submit(self, request: ControllerRequest | VoterRequest) -> ControllerResponse | VoterResponse:
        """Decides `request`, and answers when its records are flushed and the subscribers have them.

        Raises KafkaError: the controller's rejection of the whole request; KAFKA_STORAGE_ERROR if the records cannot be
        stored; NOT_CONTROLLER when stopping.
        """
        if isinstance(request, VoterRequest):
            if not self.is_leader:
                raise self._not_leading()
            return await self.change_voters(request, self._sender.listeners[0].name)
        answer = self.ask(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def change_voters(self, request: VoterRequest, listener: str) -> VoterResponse:
        """The leader's answer to a request that changes the voters, received on its listener of this name."""
        timeout_ms = self._settings.controller_quorum_request_timeout_ms
        changing = change_voters(self._voter, self, self._sender, self._node.network, timeout_ms, request, listener)
        # a separate task: the first step of a handler runs outside any task, and a time-out needs one
        return await asyncio.get_running_loop().create_task(changing)

    def ask(self, request: ControllerRequest) -> ControllerAnswer:
        """Decides `request` now; returns the answer, or a future of it that ends when it is durable. Raises as
        `submit`."""
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
        """The epoch of a registration that is decided but may be uncommitted: the same flush then commits the first
        request for this epoch."""
        broker = self._applied.fold.image.brokers.get(broker_id)
        return None if broker is None or broker.incarnation_id != incarnation_id else broker.epoch

    # reports of the voter

    def appended(self, batches: Buffer) -> None:
        """On a follower: applies the leader's decisions; they are published when committed."""
        try:
            self._applied.append(batches)
        except (ProtocolError, ValueError) as error:
            self.broken(error)

    def truncated(self) -> None:
        """Takes back applied records that the log no longer holds."""
        self._applied.fold_again(self._disk, self.log)

    def snapshot_folded(self, snapshot: SnapshotId, decoded: Snapshot) -> MetadataImage:
        """Raises ValueError for a record that cannot be applied: the node stops, with its log as it was."""
        return self._applied.folded(decoded, snapshot)

    def snapshot_loaded(self, snapshot: SnapshotId, decoded: Snapshot, image: MetadataImage) -> VoterSet | None:
        """Replaces the image by that of `snapshot`; returns its voters. The log is now empty, so the growth until the
        next snapshot counts from here on, not from the earlier length of the log."""
        self._snapshots.started(0)
        return self._applied.load(decoded, snapshot, image)

    def snapshot_refused(self, snapshot: SnapshotId, error: ProtocolError) -> None:
        """The leader's file, or its transmission, is damaged; this node keeps its image."""
        self._event_log.error(
            "metadata snapshot",
            f"the snapshot of the metadata up to offset {snapshot.end_offset}, as node {self.leader_id} sends it, "
            f"cannot be read, and is fetched again: {error}",
        )

    def snapshot_sent(self, snapshot: SnapshotId) -> None:
        """Writes a new snapshot if the one that is sent is damaged."""
        if self.image.end_offset and not self._is_stopping:
            self._snapshots.check_sent(snapshot, self._committed)

    def _committed(self) -> Committed:
        return self.image, self._voters.control_at(self.image.end_offset), self.log

    def _snapshot_damaged(self, path: str) -> None:
        self._event_log.error("metadata snapshot", f"{path} is damaged, other nodes fetch it: it is written anew")

    def leadership_began(self) -> None:
        """The new epoch is in the log: the controller decides from here on, first the initial records of a new
        cluster."""
        self.leaderships += 1
        self._applied.reached(self.log.log_end_offset, self.leader_epoch)
        self._controller = ActiveController(
            self._machine,
            self._applied,
            self._voter,
            self,
            clock=self._clock,
            pauses=self.pauses,
            event_log=self._event_log,
            spawn=self._spawn,
        )
        activation = self._activation = self._ask_first(ActivateController(self._bootstrap_records))
        activation.add_done_callback(self._activated)
        for node_id in self._channel.absent:
            self._nobody_listens(node_id)

    def _ask_first(self, request: ControllerRequest) -> asyncio.Future[ControllerResponse]:
        """Returns a future of the answer or the error in every case."""
        future: asyncio.Future[ControllerResponse] = asyncio.get_running_loop().create_future()
        try:
            answer = self.ask(request)
            if isinstance(answer, asyncio.Future):
                return answer
            future.set_result(answer)
        except MoldauError as error:
            future.set_exception(error)
        return future

    def _activated(self, activation: asyncio.Future[Any]) -> None:
        error = None if activation.cancelled() else activation.exception()
        if error is not None and not self._is_stopping and self._controller is not None:
            message = f"the controller of epoch {self.leader_epoch} could not write its first records: {error}"
            self._event_log.warn("controller activation", message)

    def leadership_ended(self) -> None:
        """The controller stops deciding. Its appended, uncommitted records are published if another leader commits
        them."""
        if self._controller is not None:
            self._controller.end(self._not_leading())
            self._controller = None
            self.levels.forget()
            if not self._voter.quorum.has_resigned:
                self._applied.fold_again(self._disk, self.log)

    def leader_changed(self) -> None:
        """Notifies waiters of the new leader."""
        for watcher in self._leader_watchers:
            watcher()

    def committed(self, end_offset: int) -> None:
        """Advances the image, notifies subscribers and answers requests."""
        self._applied.publisher.committed(end_offset)
        if self._controller is not None:
            self._controller.committed(end_offset)
        if self._voter.quorum.has_all_committed and METADATA_VERSION in self.image.features and not self._joins():
            return  # leaves the directory unchanged, for the release that it belongs to
        # a leader that has just begun may know less than the log had at the start: it has not published an image yet
        if self.image.end_offset and not self._is_stopping:
            self._snapshots.take_if_due(*self._committed())

    def _joins(self) -> bool:
        """Everything committed so far is known, so the start ends. It fails if the cluster has a feature that this node
        lacks (False). A node that has joined before logs the lack and joins."""
        starting = self._knows_cluster
        if starting is None or starting.done():
            joined = starting is None or starting.cancelled() or starting.exception() is None
            if joined:
                self.levels.look(self.image.features)
            return joined
        levels, me = self.image.features, self._sender.node
        _, refused = unknown_level(levels) or ("", None)
        if refused is None and not has_joined(self._disk):
            refused = self.levels.unserved(levels)
        if refused is not None:
            text = f"node {me.node_id} does not join cluster {self._sender.cluster_id}: {refused}"
            starting.set_exception(QuorumError(text))
            return False
        self.levels.look(levels)
        starting.set_result(None)
        return True

    def _connection_lost(self, node_id: int) -> None:
        if self._raft is not None:
            self._raft.connection_lost(node_id)

    def _met_stranger(self) -> None:
        """Ends the start because the directory belongs to another cluster, if more than half of the asked nodes say so:
        a single wrong node cannot keep others from their quorum."""
        starting = self._knows_cluster
        if starting is None or starting.done():
            return
        strangers, me = self._channel.strangers, self._sender.node
        others = len(self.voters.others(me)) or len(self._channel.bootstrap_ids)
        if len(strangers) > others // 2:
            found = (self._channel.address_of(each, self.voters) for each in strangers)
            addresses = ", ".join(f"{each.host}:{each.port}" for each in found if each is not None)
            starting.set_exception(
                QuorumError(
                    f"the directory of node {me.node_id} belongs to cluster {self._sender.cluster_id}, but the nodes "
                    f"of its quorum at {addresses} belong to another cluster"
                )
            )

    def _nobody_listens(self, node_id: int) -> None:
        self._suspect(SuspectBroker(node_id, None))

    def _suspect(self, suspicion: SuspectBroker) -> None:
        """A dead node's broker is dead too; only the active controller needs to know."""
        if self._controller is not None:
            self._ask_first(suspicion).add_done_callback(lambda asked: asked.cancelled() or asked.exception())

    def _snapshot_taken(self) -> None:
        """A newer snapshot from the leader may have arrived during the writing."""
        if self._raft is not None:
            found = found_snapshots(self._disk)
            self._raft.snapshot_taken(found[-1], oldest_needed(found, self.log.log_start_offset))

    def flush_refused(self, error: StorageFullError) -> None:
        """No space for a file next to the log: requests that wait get the error."""
        if self._controller is not None:
            self._controller.refuse_waiting(kafka_error("KAFKA_STORAGE_ERROR", str(error)))
            self._fail_start(error)

    def failed(self, error: StorageFailedError) -> None:
        """Offline: every request gets KAFKA_STORAGE_ERROR. A start that waits for a cluster fails."""
        self.health.fail(error)
        if self._raft is not None:
            self._raft.resign()
        self._fail_start(error)
        self._failures.directory_failed()

    def _fail_start(self, error: MoldauError) -> None:
        knows_cluster = self._knows_cluster
        if knows_cluster is not None and not knows_cluster.done():
            knows_cluster.set_exception(error)
            knows_cluster.exception()  # marks the error as seen: nobody may be waiting for it

    # work next to the requests

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.broken(error)

    def broken(self, error: BaseException) -> None:
        """A bug of ours: nothing is decided any more, every request gets an answer, and the node stops."""
        self._is_stopping = True
        if self._controller is not None:
            self._controller.refuse_waiting(kafka_error("UNKNOWN_SERVER_ERROR"))
        broken = InvariantError(f"the quorum failed: {error!r}")
        broken.__cause__ = error
        self._failures.invariant_broken(broken)
