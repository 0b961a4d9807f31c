"""The partitions with a replica on this broker: finds them by name or id, and starts and ends them as the metadata
says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import INTERNAL_TOPICS
from moldau.core.controller.configs import min_insync_replicas_of_leader
from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.image import (
    NO_LEADER,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from moldau.core.metadata.random_uuid import random_uuid
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import ReplicationSettings
from moldau.core.replication.throttles import FOLLOWER_THROTTLED, LEADER_THROTTLED, throttled_replicas
from moldau.errors import KafkaError, MoldauError, StorageFailedError, StorageFullError, kafka_error
from moldau.shell.broker.cluster.directory_reports import DirectoryReports
from moldau.shell.broker.logs.checkpoints import Checkpoints
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.logs.log_settings import LogSettingsByOverrides
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.replicas.replication import Replication
from moldau.shell.broker.traffic import Traffic
from moldau.shell.broker.waits import PartitionWaits
from moldau.types import ZERO_UUID, Offset, TopicPartition, Uuid, uuid_to_text

FIRST_DIRECTORY_ID = (100).to_bytes(16, "big")
"""Smaller ids are reserved (KIP-858): unassigned, lost, migrating."""
CLOSERS = 4
"""The number of Workers that close logs at a clean stop. They mostly wait for fsync."""
LOGS_CLOSED_AT_ONCE = 32
SLICE_TOPICS = 50
"""Topics whose settings are updated in one turn of the loop."""
SLICE_PARTITIONS = 8
"""Directories created or renamed in one turn of the loop: about 2 ms."""


class HostedTopic:
    """A topic with its partitions on this broker."""

    __slots__ = ("absent", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: Uuid) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = name in INTERNAL_TOPICS
        self.partitions: dict[int, Partition] = {}
        self.absent: dict[int, str] = {}
        """Partitions of the metadata that are missing here, with their error: NOT_LEADER_OR_FOLLOWER if other brokers
        have them, KAFKA_STORAGE_ERROR if their log directory could not be opened."""

    def find(self, index: int) -> Partition:
        """The partition. Raises UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
        partition = self.partitions.get(index)
        if partition is None:
            raise kafka_error(self.absent.get(index, "UNKNOWN_TOPIC_OR_PARTITION"))
        return partition


class StoredPartitions(msgspec.Struct, frozen=True):
    """The log directories, and the parts that make them durable."""

    logs: LogDirectories
    flusher: Flusher
    checkpoints: Checkpoints


class Partitions:
    """Keys of `by_name` are names in UTF-8, of `by_id` the 16 bytes of the id, as Produce and Fetch look them up."""

    def __init__(
        self,
        node: OwnNode,
        stored: StoredPartitions,
        reports: DirectoryReports,
        waits: PartitionWaits,
        replication: Replication,
        high_watermark_moved: Callable[[Partition], None],
    ) -> None:
        self._node = node
        self.logs = stored.logs
        self.flusher = stored.flusher
        self.checkpoints = stored.checkpoints
        self._reports = reports
        self._waits = waits
        self._replication = replication
        self.touched: dict[int, Partition] = {}
        """Partitions with appends since housekeeping last found no work for them, by number."""
        self._high_watermark_moved = high_watermark_moved
        self.image = MetadataImage()
        self.by_name: dict[bytes, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.rewritten: dict[bytes, None] = {}
        """Ids of the topics whose produced records are read one by one, and recompressed if needed."""
        self._settings_of = LogSettingsByOverrides(node.settings.view)
        self._broker_epochs: dict[int, int] = {}
        """The current epochs of brokers that may be in sync (KIP-903). All leaders here share this map."""
        self.ended = Traffic()
        """The traffic of deleted partitions."""
        self._next_number = 0
        self._work: deque[Callable[[], None]] = deque()
        self._settled: asyncio.Future[None] | None = None
        self._inline = 0
        self._is_held = False
        """Whether the work waits until the checkpoints no longer name deleted topics."""
        self._is_ending = False
        self._is_first_image = True
        self._found: MetadataImage | None = None
        """The metadata at the start, if a directory was out of reach then."""
        self._unstarted: dict[tuple[Uuid, int], None] = {}
        """Partitions that found the disk full when they started."""
        self._cordon(node.settings.view)
        node.settings.on_change.append(self._cordon)

    def __iter__(self) -> Iterator[Partition]:
        for topic in self.by_id.values():
            yield from topic.partitions.values()

    def find(self, topic: str, index: int) -> Partition:
        """The partition on this broker. Raises as HostedTopic.find."""
        hosted = self.by_name.get(topic.encode())
        if hosted is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
        return hosted.find(index)

    # -- following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Applies `delta` to the partitions here; `image` holds it already. More than a few new directories take some
        turns of the loop: see `wait_settled`."""
        if self._is_first_image and self.logs.is_any_out_of_reach:
            self._found = image.copy()
        self.image = image
        self._inline = SLICE_PARTITIONS
        if self._is_first_image:
            self._is_first_image = False
            self._remove_taken_away(image)
        if delta.brokers:
            self._broker_epochs.clear()
            self._broker_epochs.update(
                {broker.broker_id: broker.epoch for broker in image.brokers.values() if broker.is_active}
            )
        for topic in delta.deleted_topics.values():
            self._end_topic(topic)
        for touched, indexes in delta.changed_partitions():
            for index in indexes:
                self._start_or_update(touched, touched.topic_id, index, touched.partitions[index])
        topics = [resource.name for resource in delta.configs if resource.resource_type == ResourceType.TOPIC]
        if any(resource.resource_type == ResourceType.BROKER for resource in delta.configs):
            self._settings_of = LogSettingsByOverrides(self._node.settings.view)
            topics = list(image.topics_by_name)
        for first in range(0, len(topics), SLICE_TOPICS):
            self._do(partial(self._update_settings, topics[first : first + SLICE_TOPICS]))

    def _remove_taken_away(self, image: MetadataImage) -> None:
        """Removes logs that were opened by older metadata, and whose topics were deleted or moved to other brokers
        since."""
        for log in list(self.logs.logs()):
            place = log.topic_partition
            partition = image.partition(place)
            is_same = log.topic_id in (ZERO_UUID, image.topic_id(place.topic))
            if partition is None or not is_same or self._node.node_id not in partition.replicas:
                message = f"{place} was deleted, or moved to other brokers, while this broker started: it is removed"
                self._node.log.info("stray log", message, about=str(place))
                self._do(partial(self._remove_log, place))

    def _start_or_update(self, topic: TopicImage, topic_id: Uuid, index: int, partition: PartitionImage) -> None:
        hosted = self.by_id.get(topic_id)
        if hosted is None:
            hosted = HostedTopic(topic.name, topic_id)
            self.by_id[topic_id] = self.by_name[topic.name.encode()] = hosted
            self._note_rewriting(hosted, self.log_settings(self.image, topic.name))
        known = hosted.partitions.get(index)
        if self._node.node_id not in partition.replicas:
            if known is not None:
                self._end(hosted, index)
            hosted.absent[index] = "NOT_LEADER_OR_FOLLOWER"
        elif known is not None:
            if known.metadata_changed(partition, self._broker_epochs, self._node.clock.monotonic_ms()):
                self._high_watermark_moved(known)
            self._replication.arm(known)
        elif TopicPartition(topic.name, index) in self.logs and not self._work:
            self._start(topic_id, index)
        else:
            self._do(partial(self._start, topic_id, index))

    def _start(self, topic_id: Uuid, index: int) -> None:
        image = self.image
        topic, hosted = image.topics_by_id.get(topic_id), self.by_id.get(topic_id)
        if topic is None or hosted is None or index in hosted.partitions:
            return
        topic_partition, partition = TopicPartition(topic.name, index), topic.partitions[index]
        if self._node.node_id not in partition.replicas:
            return
        serving = self.logs.online_ids
        try:
            self._discard_other_topic(topic_partition, topic_id)
            if self._hold_for(topic_partition, partial(self._start, topic_id, index)):
                return
            log = self._log(image, topic_partition, topic_id)
        except (StorageFullError, StorageFailedError) as error:
            message = f"{topic_partition} could not be started: {error}"
            self._node.log.error("partition start", message, about=str(topic_partition))
            hosted.absent[index] = "KAFKA_STORAGE_ERROR"
            if isinstance(error, StorageFullError):
                self._unstarted[topic_id, index] = None
                self._node.no_room(topic_partition)
                return
            self._node.directory_failed()
            if self.logs.online_ids and self.logs.online_ids != serving:
                # this partition found the failure: another directory takes it, unless the metadata names this one
                self._start(topic_id, index)
            return
        hosted.absent.pop(index, None)
        self._next_number += 1
        directory = self.logs.directory_of(topic_partition)
        noted = 0 if directory is None else directory.high_watermarks.get(topic_partition, 0)
        settings = self._replication_settings(topic.name, log.settings)
        perform = self._replication.perform
        started = Partition(log, self._next_number, self._node.node_id, settings, perform, noted)
        started.metadata_changed(partition, self._broker_epochs, self._node.clock.monotonic_ms())
        self._replication.arm(started)
        hosted.partitions[index] = started
        if started.waits_for_flush and log.recovery_point < log.log_end_offset:
            self.flusher.request(started)

    def start_again(self) -> None:
        """Starts partitions again that found the disk full: there may be room now."""
        unstarted, self._unstarted = self._unstarted, {}
        for topic_id, index in unstarted:
            self._do(partial(self._start, topic_id, index))

    # -- work on many directories, in slices

    def _do(self, work: Callable[[], None]) -> None:
        """Runs `work` now if it is among the first few of this delta, else in order in a later turn of the loop."""
        if self._inline > 0 and not self._work:
            self._inline -= 1
            work()
            return
        self._work.append(work)
        if self._settled is None:
            self._settled = self._node.loop.create_future()
            self._node.loop.call_soon(self._do_slice)

    def _do_slice(self) -> None:
        try:
            for _ in range(min(SLICE_PARTITIONS, len(self._work))):
                if not self._is_held:
                    self._work.popleft()()
        finally:
            # even after a bug in one piece: the creation of a topic waits for the other pieces
            if self._is_held:
                pass  # `_forget_deleted` continues
            elif self._work:
                self._node.loop.call_soon(self._do_slice)
            elif self._settled is not None:
                settled, self._settled = self._settled, None
                settled.set_result(None)

    def _hold_for(self, topic_partition: TopicPartition, work: Callable[[], None]) -> bool:
        """Defers `work` while a checkpoint names a deleted topic of this name: after a crash, its log start offset
        would cut off records of the new topic."""
        if self._is_ending or not self.logs.has_stale_offsets(topic_partition):
            return False
        self._work.appendleft(work)
        if self._settled is None:
            self._settled = self._node.loop.create_future()
        if not self._is_held:
            self._is_held = True
            self._node.spawn(self._forget_deleted())
        return True

    async def _forget_deleted(self) -> None:
        is_going_on = True
        try:
            await self.checkpoints.write(self.high_watermarks())
        except asyncio.CancelledError:
            is_going_on = False
            raise
        except StorageFullError as error:
            self._node.log.warn("checkpoints", f"the checkpoints still name deleted topics: {error}")
            for directory in self.logs:
                directory.forget_stale_offsets()
        finally:
            self._is_held = False
            if is_going_on:
                self._node.loop.call_soon(self._do_slice)

    async def wait_settled(self) -> None:
        """Waits until all partition starts and ends of the metadata so far are done."""
        while self._settled is not None:
            await asyncio.shield(self._settled)

    async def wait_flushed(self) -> None:
        """Waits until recovered records are as durable as their topics ask: the first client must find all acknowledged
        records below the high watermark. If the disk fails, the partition starts with its durable records."""
        for partition in list(self):
            if partition.waits_for_flush:
                with suppress(KafkaError):
                    await self.flusher.wait(partition, Offset(partition.log.log_end_offset))

    def settle(self) -> None:
        """Completes this work now, for a clean stop, which then writes the checkpoints."""
        self._is_ending = True
        while self._work:
            self._work.popleft()()

    def _log(self, image: MetadataImage, topic_partition: TopicPartition, topic_id: Uuid) -> Log:
        """The existing log of a partition, or a new one.

        Raises StorageFailedError if the metadata names a directory that is missing or offline: a log in another
        directory was left by a move, and lacks later records. Also raises it if the log may be in a directory that is
        out of reach.
        """
        assigned = image.directory_of(self._node.node_id, topic_partition)
        named = None if assigned is None or assigned < FIRST_DIRECTORY_ID else assigned
        directory = self.logs.directory_of(topic_partition)
        log = None
        if directory is not None:
            # it may have failed since its logs were opened
            directory.health.check()
            if named is not None and self.logs.is_out_of_reach(named):
                raise StorageFailedError(
                    f"it was moved to the log directory {uuid_to_text(named)}, which is offline: what lies in "
                    f"{directory.path} is older"
                )
            log = directory.logs[topic_partition]
            if log.topic_id == ZERO_UUID:
                directory.write_topic_id(topic_partition, topic_id)
                log.topic_id = topic_id
        if directory is None or log is None:
            self.checkpoints.changed()
            partition = image.topics_by_id[topic_id].partitions[topic_partition.partition]
            is_copy = partition.leader not in (NO_LEADER, self._node.node_id)
            places = self._places(named, is_copy=is_copy)
            # a leader has all acknowledged records; a replica that is neither in sync nor eligible can be copied again
            may_lead = not is_copy or self._node.node_id in (*partition.isr, *partition.eligible_leader_replicas)
            if named is not None or may_lead:
                self._check_new(topic_id, topic_partition.partition, places[0], is_noted=named is not None)
            settings = self.log_settings(image, topic_partition.topic)
            directory, log = self._create_log(places, topic_partition, topic_id, settings)
        if assigned is not None and assigned != directory.directory_id:
            self._reports.add(topic_id, topic_partition.partition, directory.directory_id)
        return log

    def _create_log(
        self, places: Sequence[LogDirectory], topic_partition: TopicPartition, topic_id: Uuid, settings: LogSettings
    ) -> tuple[LogDirectory, Log]:
        """Creates a log in the first of `places` with room; returns that place and the log. Raises StorageFullError,
        StorageFailedError."""
        name, now_ms = str(topic_partition), self._node.clock.now_ms()
        for directory in places:
            try:
                return directory, directory.create_log(topic_partition, topic_id, settings, now_ms=now_ms)
            except StorageFullError:
                if directory.has_records(name):
                    raise
                # a move to this directory would find its name taken, and fail
                directory.disk.remove_tree(name)
                if directory is places[-1]:
                    raise
        raise StorageFailedError("every log directory is offline")

    def _discard_other_topic(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Removes logs that a deleted topic of that name left when it moved to another log directory."""
        random, now_ms = self._node.random, self._node.clock.now_ms()
        for directory in self.logs:
            directory.discard_other(topic_partition, topic_id, delete_id=random_uuid(random), now_ms=now_ms)

    def _places(self, named: Uuid | None, *, is_copy: bool) -> Sequence[LogDirectory]:
        """The directories for a partition without a log, best first, or only the one that the metadata names. If that
        one is gone for good (a replaced disk), a replica that can copy its leader's log starts again in any. Raises
        StorageFailedError."""
        if named is None:
            return self.logs.places()
        directory = self.logs.by_id(named)
        if directory is None and is_copy and not self.logs.is_out_of_reach(named):
            return self.logs.places()
        if directory is None:
            raise StorageFailedError(
                f"its log directory {uuid_to_text(named)} is not in log.dirs: bring that directory back, or, if its "
                "records are lost, ask for an unclean election: the partition begins anew then"
            )
        directory.health.check()
        return (directory,)

    def _check_new(self, topic_id: Uuid, index: int, directory: LogDirectory, *, is_noted: bool) -> None:
        """Checks that no unreadable directory may hold the log. After a move that a crash interrupted, the only log may
        be there, though the metadata names the other directory. After a crash soon after its first records, before the
        metadata had its directory, it may be in any. Raises StorageFailedError."""
        # by id: a new topic may have the name of a topic at the start
        topic = None if self._found is None else self._found.topics_by_id.get(topic_id)
        found = None if topic is None else topic.partitions.get(index)
        if found is None or self._node.node_id not in found.replicas:
            return
        # a move changes the partition epoch; a partition that never changed never moved
        if (found.partition_epoch > 0 or not is_noted) and self.logs.is_any_out_of_reach:
            raise StorageFailedError(
                f"{directory.path} has no log of it, and a log directory is offline, where one may lie: take that "
                "directory out of log.dirs if the partition shall begin anew"
            )

    def _cordon(self, settings: BrokerSettings) -> None:
        """Applies `cordoned.log.dirs`, whose paths may be relative or not, as written in `log.dirs`."""
        written = dict(zip(settings.log_directories, self.logs.paths, strict=False))
        self.logs.cordon(tuple(written.get(path, path) for path in settings.cordoned_log_dirs))

    async def note_directory(self, partition: Partition, directory: LogDirectory) -> None:
        """Reports that `partition` is in `directory`, and returns once the metadata log holds that. Raises
        KafkaError."""
        if partition.topic_id is not None:
            index = partition.topic_partition.partition
            await self._reports.report(partition.topic_id, index, directory.directory_id)

    def moved(self) -> None:
        """A partition's log is in another directory now, as the metadata says already: the checkpoints are out of
        date."""
        self.checkpoints.changed()

    def stays_in(self, partition: Partition, directory: LogDirectory) -> None:
        """A move has failed whose target the metadata names already: reports `directory` again."""
        if partition.topic_id is not None:
            self._reports.add(partition.topic_id, partition.topic_partition.partition, directory.directory_id)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermark of each partition on this node, as `replication-offset-checkpoint` holds them."""
        return {partition.topic_partition: partition.position.high_watermark for partition in self}

    async def close_logs(self, broker_epoch: int) -> None:
        """Closes all logs durably, in parallel, for a clean stop. Then writes the checkpoints and the clean-stop mark
        in each directory that still serves. A directory that fails gets no mark, and is recovered at the next start."""
        node, now_ms, high_watermarks = self._node, self._node.clock.now_ms(), self.high_watermarks()
        logs = deque(log for log in self.logs.logs() if not log.health.is_offline)
        refused: dict[TopicPartition, MoldauError] = {}

        def close_some() -> None:
            for _ in range(min(LOGS_CLOSED_AT_ONCE, len(logs))):
                with suppress(IndexError):
                    log = logs.popleft()
                    try:
                        log.close(now_ms)
                    except MoldauError as error:
                        refused[log.topic_partition] = error

        while logs:
            await asyncio.gather(*(node.workers.run(close_some) for _ in range(CLOSERS)))
        for directory in self.logs:
            if directory.health.is_offline:
                continue
            try:
                for topic_partition in directory.logs:
                    if topic_partition in refused:
                        raise refused[topic_partition]
                await node.workers.run(
                    partial(directory.close, broker_epoch=broker_epoch, now_ms=now_ms, high_watermarks=high_watermarks)
                )
            except MoldauError as error:
                node.log.error(
                    "clean stop",
                    f"{directory.path} gets no mark of a clean stop, so the next start recovers its logs: {error}",
                )

    def _remove_log(self, topic_partition: TopicPartition) -> None:
        node = self._node
        self.checkpoints.changed()
        directory = self.logs.directory_of(topic_partition)
        if directory is None or directory.health.is_offline:
            return
        try:
            directory.delete_log(topic_partition, delete_id=random_uuid(node.random), now_ms=node.clock.now_ms())
        except StorageFailedError:
            self._node.directory_failed()

    def _end_topic(self, topic: TopicImage) -> None:
        hosted = self.by_id.pop(topic.topic_id, None)
        self.rewritten.pop(topic.topic_id, None)
        if hosted is None:
            return
        if self.by_name.get(topic.name.encode()) is hosted:
            del self.by_name[topic.name.encode()]
        for index in list(hosted.partitions):
            self._end(hosted, index)

    def _end(self, hosted: HostedTopic, index: int) -> None:
        """Ends a partition that no longer has a replica on this broker."""
        partition = hosted.partitions.pop(index)
        partition.end()
        self.ended.add(partition)
        self._waits.changed(partition)
        self.flusher.fail(partition, kafka_error("UNKNOWN_TOPIC_OR_PARTITION"))
        self.touched.pop(partition.number, None)
        self._do(partial(self._remove_log, partition.topic_partition))

    def _note_rewriting(self, topic: HostedTopic, settings: LogSettings) -> None:
        is_read = (
            settings.target_compression is not None
            or settings.is_compacted
            or settings.is_record_validation_full
            or settings.is_compressed_validated
        )
        if is_read and not topic.is_internal:
            self.rewritten[topic.topic_id] = None
        else:
            self.rewritten.pop(topic.topic_id, None)

    def _update_settings(self, names: list[str]) -> None:
        """Updates the logs of these topics to the settings in force, if they differ."""
        for name in names:
            hosted = self.by_name.get(name.encode())
            if hosted is None:
                continue
            settings = self.log_settings(self.image, name)
            replication = self._replication_settings(name, settings)
            self._note_rewriting(hosted, settings)
            for partition in hosted.partitions.values():
                if partition.log.settings == settings and partition.replica.settings == replication:
                    continue
                partition.log.update_settings(settings)
                if partition.settings_changed(replication, self._node.clock.monotonic_ms()):
                    # fewer in-sync replicas are required: this commits records that coordinators, too, wait for
                    self._high_watermark_moved(partition)
                # idle partitions are not visited, but their unflushed records may be due by the new settings
                self.touched[partition.number] = partition
                self._waits.changed(partition)

    def log_settings(self, image: MetadataImage, name: str) -> LogSettings:
        """The settings of the logs of topic `name`."""
        return self._settings_of(image.topic_configs(name))

    def _replication_settings(self, name: str, settings: LogSettings) -> ReplicationSettings:
        """The settings of the replicas of topic `name`; `settings`: those of its logs."""
        view, node_id, configs = self._node.settings.view, self._node.node_id, self.image.topic_configs(name)
        return ReplicationSettings(
            min_insync_replicas=min_insync_replicas_of_leader(self.image, name, view),
            replica_lag_time_max_ms=view.replica_lag_time_max_ms,
            replica_fetch_backoff_ms=view.replica_fetch_backoff_ms,
            waits_for_flush=settings.flush_messages == 1,
            throttled_at_leader=throttled_replicas(configs.get(LEADER_THROTTLED, ""), node_id),
            throttled_at_follower=throttled_replicas(configs.get(FOLLOWER_THROTTLED, ""), node_id),
        )
