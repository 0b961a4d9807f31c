"""`moldau quorum recover` on the log directory of a stopped node: makes the node the only voter of its quorum.

If a majority of voters is lost for good, the quorum can decide nothing any more. This is the only way out, and it is
not a decision of the quorum. It takes everything in this node's metadata log as committed, and loses everything else.
Nodes of the old quorum that come back must not start again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.survivor import Survivor, survive
from moldau.core.log.directories.directory import LogDirectory, parse_directory_name
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import HIGH_WATERMARK_CHECKPOINT, encode_offsets
from moldau.core.log.files.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.metadata.batches import MAX_BATCH_RECORDS, build_metadata_batch
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import BrokerImage, MetadataImage
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, QuorumControl
from moldau.core.raft.steps import QuorumState
from moldau.core.raft.voters import VoterSet
from moldau.ports import Disk
from moldau.shell.broker.logs.log_settings import LogSettingsByOverrides
from moldau.shell.io.dry_run import DryRunDisk
from moldau.shell.node.storage_format import KRAFT_VERSION, MetaProperties, read_meta_properties
from moldau.shell.quorum.metadata_log import fold_log, open_log
from moldau.shell.quorum.quorum_state import QUORUM_STATE, QuorumError, read_quorum_state, write_quorum_state
from moldau.shell.quorum.snapshot_files import finish_replacing, set_damaged_aside
from moldau.types import ZERO_UUID, TopicPartition, whole
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.messages.raft_records import (
    Endpoint,
    KRaftVersionFeature,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    VotersRecord,
    VotersRecordVoter,
)
from moldau.wire.records.control import ControlType, build_control_batch

MAX_OFFSET = (1 << 63) - 1
_SETTINGS = parse_broker_settings({})
"""Kafka's defaults: nothing here depends on them."""


class Remains(msgspec.Struct, frozen=True):
    """The cluster as a log directory describes it. `voter_ids`: of the quorum; empty if they are configured.
    `known_until_ms`: time of the last metadata change that reached this node; -1 if unknown. `others`: the registered
    brokers of other nodes, by id."""

    properties: MetaProperties
    voter_ids: tuple[int, ...]
    survivor: Survivor
    known_until_ms: int
    others: tuple[BrokerImage, ...]


class KeptReplica(msgspec.Struct, frozen=True):
    """How far this node's replica of a partition goes. Up to `high_watermark`, as the node last stored it, it has the
    records that every replica has. A leader unknown to this node may have continued from there with records other than
    those up to `log_end_offset`, which had not reached all in-sync replicas."""

    high_watermark: int
    log_end_offset: int


def look_at_remains(disk: Disk, *, now_ms: int) -> Remains:
    """Raises MoldauError, for example if the metadata log is damaged."""
    with _opened(disk, now_ms) as (properties, log, fold, control):
        return _remains(properties, log, fold, control)


def look_at_replicas(disks: Sequence[Disk], *, now_ms: int) -> dict[TopicPartition, KeptReplica]:
    """The partitions that the metadata assigns to this node and that these log directories hold, as the next start will
    open them. The first disk has the metadata. Changes nothing; waits as a start does. Raises MoldauError, for example
    if such a start would fail."""
    with _opened(DryRunDisk(disks[0]), now_ms) as (properties, _, fold, _):
        image, node_id = fold.image, properties.node_id
    settings_of = LogSettingsByOverrides(_SETTINGS)
    found: dict[TopicPartition, KeptReplica] = {}
    for disk in disks:
        directory = LogDirectory.open(DryRunDisk(disk))
        for place in directory.partitions():
            if not _is_replica(image, directory, place, node_id):
                continue
            log = directory.open_log(place, settings_of(image.topic_configs(place.topic)), now_ms=now_ms)
            log.release()
            end_offset = log.log_end_offset
            kept = KeptReplica(min(directory.high_watermarks.get(place, 0), end_offset), end_offset)
            # a crash during a move between log directories leaves two copies
            if place not in found or end_offset > found[place].log_end_offset:
                found[place] = kept
    return found


def _is_replica(image: MetadataImage, directory: LogDirectory, place: TopicPartition, node_id: int) -> bool:
    """False for a partition of an older topic with that name, and for one that is elsewhere now."""
    topic = image.topics_by_name.get(place.topic)
    if topic is None or place.partition not in topic.partitions:
        return False
    is_of_topic = directory.find_topic_id(place) in (topic.topic_id, ZERO_UUID)
    return is_of_topic and node_id in topic.partitions[place.partition].replicas


def recover_alone(disk: Disk, further_disks: Sequence[Disk], controller: Endpoint, *, now_ms: int) -> Remains:
    """Makes the node of these log directories, whose controller is reached at `controller`, the only voter and the
    leader of all its partitions. Durable when it returns. Raises MoldauError."""
    # a snapshot that a crash kept from replacing the log: the next start would remove the records written here
    set_damaged_aside(disk)
    finish_replacing(disk, _flushed_offset(disk))
    with _opened(disk, now_ms) as (properties, log, fold, control):
        remains = _remains(properties, log, fold, control)
        saved = read_quorum_state(disk, QUORUM_STATE) or QuorumState()
        epoch = max(log.leader_epochs.latest_epoch, saved.leader_epoch) + 1
        node_id = properties.node_id
        # the node votes for nobody in this epoch and leads in the next one
        write_quorum_state(disk, QUORUM_STATE, QuorumState(leader_epoch=epoch))
        voter = VotersRecordVoter(
            node_id, properties.directory_id, (controller,), KRaftVersionFeature(0, KRAFT_VERSION)
        )
        itself = (LeaderChangeMessageVoter(node_id),)
        change = encode_message(LeaderChangeMessage(0, node_id, itself, itself), 0)
        quorum = QuorumControl(KRAFT_VERSION, VotersRecord(voters=(voter,)))
        batches = [
            build_control_batch(
                ((ControlType.LEADER_CHANGE, change), *quorum.records()), timestamp=now_ms, leader_epoch=epoch
            )
        ]
        records, levels = remains.survivor.records, fold.image.features
        for begin in range(0, len(records), MAX_BATCH_RECORDS):
            part = records[begin : begin + MAX_BATCH_RECORDS]
            batches.append(whole(build_metadata_batch(part, levels, now_ms=now_ms, leader_epoch=epoch)))
        for batch in batches:
            log.append(bytearray(batch), leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.CONTROLLER)
        log.close(now_ms)
        flushed_offset = _flushed_offset(disk)
        flushed_offset.save(log.log_end_offset)
        flushed_offset.close()
    for one in (disk, *further_disks):
        _take_all_for_committed(one)
    return remains


def _take_all_for_committed(disk: Disk) -> None:
    """Nobody is left who knows how far the in-sync replicas had come. A start takes no high watermark above the end of
    its log, and with fewer replicas than `min.insync.replicas` it would no longer rise (KIP-966)."""
    names = disk.list_directory("")
    partitions = [found for name in names if (found := parse_directory_name(name)) is not None]
    disk.replace_file(HIGH_WATERMARK_CHECKPOINT, encode_offsets(dict.fromkeys(partitions, MAX_OFFSET)))


@contextmanager
def _opened(disk: Disk, now_ms: int) -> Iterator[tuple[MetaProperties, Log, MetadataFold, QuorumControl]]:
    properties = read_meta_properties(disk)
    if properties is None or not disk.list_directory(METADATA_DIRECTORY):
        raise QuorumError(f"this directory has no {METADATA_DIRECTORY} of a node: name the first of its log.dirs")
    log = open_log(disk, _SETTINGS, DirectoryHealth(), _flushed_offset(disk).read(), now_ms=now_ms)
    try:
        fold = MetadataFold(properties.cluster_id)
        loaded, replay = fold_log(fold, disk, log)
        control = replay.control if replay.control.voters is not None else loaded.snapshot.control
        yield properties, log, fold, control
    finally:
        log.release()


def _flushed_offset(disk: Disk) -> FlushedOffset:
    return FlushedOffset(disk, f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}")


def _remains(properties: MetaProperties, log: Log, fold: MetadataFold, control: QuorumControl) -> Remains:
    voters = VoterSet(() if control.voters is None else control.voters.voters)
    ids = tuple(voter.voter_id for voter in voters.voters)
    known_until_ms = max((segment.load_max_timestamp() for segment in log.segments), default=-1)
    image, node_id = fold.image, properties.node_id
    others = tuple(broker for broker_id, broker in sorted(image.brokers.items()) if broker_id != node_id)
    return Remains(properties, ids, survive(image, node_id), known_until_ms, others)
