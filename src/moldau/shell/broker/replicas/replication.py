"""Drives the replicas of this broker: passes events to them, and performs their outputs.

`core/replication/partition.py` performs what a replica can do at once with its own log. This module performs a
follower's changes of its log, the communication with other nodes, and timers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from moldau.core.log.directories.directories import LogDirectories
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import (
    Append,
    Copied,
    Event,
    FetchFailed,
    FetchFrom,
    NoRoom,
    Output,
    ProposeIsr,
    StartAt,
    Truncated,
    TruncateTo,
)
from moldau.errors import KafkaError, ProtocolError, StorageFailedError, StorageFullError
from moldau.shell.broker.cluster.other_brokers import OtherBrokers
from moldau.shell.broker.logs.checkpoints import Checkpoints
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.replicas.deadlines import ReplicaDeadlines
from moldau.shell.broker.replicas.fetcher import ReplicaFetcher
from moldau.shell.broker.replicas.isr_proposals import IsrProposals
from moldau.shell.broker.replicas.throttles import ReplicationThrottles
from moldau.shell.broker.traffic import REASSIGNMENT_BYTES_IN, REPLICATION_BYTES_IN
from moldau.types import Buffer


class Replication:
    """Used from the broker's loop only. `moved`: wakes the waiters of a partition."""

    def __init__(
        self,
        node: OwnNode,
        logs: LogDirectories,
        flusher: Flusher,
        checkpoints: Checkpoints,
        others: OtherBrokers,
        submit: Callable[[Any], Awaitable[Any]],
        moved: Callable[[Partition], None],
        was_cut: Callable[[Partition], None],
    ) -> None:
        """`was_cut`: called after a log was truncated."""
        self._node = node
        self._logs = logs
        self._flusher = flusher
        self._checkpoints = checkpoints
        self._others = others
        self._moved = moved
        self._was_cut = was_cut
        self.throttles = ReplicationThrottles(node)
        self._deadlines = ReplicaDeadlines(node, self.step)
        self._proposals = IsrProposals(node, submit, self.step)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        """By the id of the leader broker."""
        self._broker_epoch = -1
        self._is_stopped = False

    # -- registration and stop

    def registered(self, broker_epoch: int) -> None:
        """This broker is registered under `broker_epoch`: starts proposals to the controller and fetches from
        leaders."""
        self._broker_epoch = broker_epoch
        self._proposals.registered(broker_epoch)
        for fetcher in self._fetchers.values():
            fetcher.registered(broker_epoch)

    def stop(self) -> None:
        """Ends all work of replicas."""
        self._is_stopped = True
        self._deadlines.stop()

    # -- events

    def step(self, partition: Partition, event: Event) -> None:
        """Passes the event to the replica of `partition`, unless it is deleted or offline."""
        if partition.is_deleted or partition.is_offline or self._is_stopped:
            return
        if partition.step(event, self._node.clock.monotonic_ms()):
            self._moved(partition)
        self._deadlines.arm(partition)

    def arm(self, partition: Partition) -> None:
        """The replica got an event elsewhere: updates its deadline."""
        if not self._is_stopped:
            self._deadlines.arm(partition)

    def fire(self) -> None:
        """Sends due Ticks to replicas, as the timer does."""
        self._deadlines.fire()

    # -- outputs

    def perform(self, partition: Partition, output: Output) -> None:
        """Performs an output of the replica of `partition`, before its next event, or in the background with an event
        at its end."""
        if self._is_stopped:
            return
        match output:
            case ProposeIsr():
                self._proposals.add(partition, output)
            case FetchFrom():
                self._fetch(partition, output)
            case Append():
                self._append(partition, output.records)
            case TruncateTo() | StartAt():
                self._node.spawn(self._cut(partition, output))
            case NoRoom():
                self._node.no_room(partition.topic_partition)

    def _fetch(self, partition: Partition, output: FetchFrom) -> None:
        fetcher = self._fetchers.get(output.leader_id)
        if fetcher is None:
            peer = self._others.new_peer(output.leader_id, is_prompt=True)
            if peer is None:
                # the leader is not registered yet, or has no listener for brokers
                self._node.loop.call_soon(partial(self.step, partition, FetchFailed(output.leader_epoch)))
                return
            flush = self._flusher.request
            fetcher = ReplicaFetcher(self._node, peer, self._broker_epoch, self.throttles, self.step, flush)
            self._fetchers[output.leader_id] = fetcher
        fetcher.fetch(partition, output)

    def _append(self, partition: Partition, records: Buffer) -> None:
        end_offset, had_holes = partition.log.log_end_offset, partition.log.may_have_holes
        is_disk_full = False
        try:
            partition.append_copied(records, self._node.clock.now_ms())
        except (ProtocolError, KafkaError, StorageFullError) as error:
            place, is_disk_full = str(partition.topic_partition), isinstance(error, StorageFullError)
            self._node.log.warn("replica append", f"{place}: what the leader sent is refused: {error}", about=place)
        except StorageFailedError:
            self._node.directory_failed()
            return
        log, telemetry = partition.log, self._node.telemetry
        if log.may_have_holes and not had_holes:
            self._node.spawn(self._note_holes())
        telemetry.count(REPLICATION_BYTES_IN, amount=len(records))
        self.throttles.copied(partition, len(records))
        if partition.replica.is_being_added(self._node.node_id):
            telemetry.count(REASSIGNMENT_BYTES_IN, amount=len(records))
        if log.log_end_offset == end_offset:
            self.step(partition, FetchFailed(partition.leader_epoch, is_disk_full))
            return
        self.step(partition, Copied(log.log_end_offset, log.leader_epochs.latest_epoch))
        self._moved(partition)
        if partition.waits_for_flush:
            self._flusher.request(partition)

    async def _note_holes(self) -> None:
        """A log whose topic is no longer compacted copied its first hole: saves that, or a start would take the hole
        for damage."""
        self._checkpoints.changed()
        with suppress(StorageFullError):  # the next periodic write reports it
            await self._checkpoints.save_cleaned_offsets()

    async def _cut(self, partition: Partition, output: TruncateTo | StartAt) -> None:
        """Truncates the log while no flush of it runs and no checkpoint is written. If the leader changed meanwhile,
        keeps the log: the new leader says where to cut."""
        leader_epoch = partition.leader_epoch
        place = partition.topic_partition
        async with self._checkpoints.standing_still():
            await self._flusher.wait_idle(partition)
            directory = self._logs.directory_of(place)
            if directory is None or not partition.is_following(leader_epoch):
                return
            old_end_offset, now_ms = partition.log.log_end_offset, self._node.clock.now_ms()
            try:
                if isinstance(output, TruncateTo):
                    directory.truncate(place, output.offset, now_ms)
                else:
                    directory.start_over(place, output.offset, now_ms)
            except StorageFullError as error:
                self._node.log.warn("replica truncation", f"{place} is not cut yet: {error}", about=str(place))
                if partition.log.log_end_offset < old_end_offset:
                    # truncated, but without room to start again: the new, shorter end must be known
                    self._was_shortened(partition)
                self.step(partition, FetchFailed(leader_epoch))
                return
            except StorageFailedError:
                self._node.directory_failed()
                return
            self._tell_cut(partition, old_end_offset)
            self._was_shortened(partition)
        if partition.waits_for_flush:
            self._flusher.request(partition)

    def _tell_cut(self, partition: Partition, old_end_offset: int) -> None:
        """Logs a truncation. At nearly every change of the leader only the epochs diverge, without a record: logs
        nothing then."""
        place, end_offset = partition.topic_partition, partition.log.log_end_offset
        if end_offset != old_end_offset:
            self._node.log.info(
                "replica truncated",
                f"node {self._node.node_id}: {place}: cut from offset {old_end_offset} to {end_offset}, "
                f"as the leader of epoch {partition.leader_epoch} has it",
                about=str(place),
            )

    def _was_shortened(self, partition: Partition) -> None:
        log = partition.log
        self._checkpoints.changed()
        self._flusher.log_cut(partition)
        self._was_cut(partition)
        self.step(partition, Truncated(log.log_end_offset, log.leader_epochs.latest_epoch))
