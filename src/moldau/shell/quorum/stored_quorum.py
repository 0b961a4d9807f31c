"""Reads the quorum's files of a node at a start and makes the step machine that continues from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.flushed_offset import FLUSHED_OFFSET, FlushedOffset
from moldau.core.log.log import Log
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.core.raft.membership import Membership
from moldau.core.raft.messages import NO_SNAPSHOT
from moldau.core.raft.own_log import OwnLog
from moldau.core.raft.protocol import Sender
from moldau.core.raft.quorum import Quorum
from moldau.core.raft.steps import QuorumSettings, QuorumState
from moldau.core.raft.voters import VoterHistory, VoterSet
from moldau.ports import FLUSH_FAILED_MARK, Disk, Random
from moldau.shell.quorum.metadata_log import LoadedSnapshot, LogReplay, check_levels, fold_log, open_log
from moldau.shell.quorum.quorum_state import QUORUM_STATE, check_voters, read_quorum_state
from moldau.shell.quorum.snapshot_files import finish_replacing, found_snapshots, oldest_needed, set_damaged_aside
from moldau.wire.protocol.messages.raft_records import Endpoint, KRaftVersionFeature, VotersRecordVoter


class StoredQuorum(msgspec.Struct, frozen=True):
    """The result of reading the files. `saved`: None in a new directory; `damaged_snapshots`: the new paths of the
    newest snapshots, if an older one was read; `bytes_before_snapshot`: bytes of the log that the newest snapshot
    covers."""

    log: Log
    flushed_offset: FlushedOffset
    voters: VoterHistory
    saved: QuorumState | None
    damaged_snapshots: Sequence[str]
    bytes_before_snapshot: int


def load_quorum(
    disk: Disk,
    settings: BrokerSettings,
    health: DirectoryHealth,
    fold: MetadataFold,
    configured: VoterHistory,
    sender: Sender,
    *,
    now_ms: int,
) -> StoredQuorum:
    """Folds snapshot and log. `configured`: the voters, if snapshot and log name none. Waits for the disk.

    Raises QuorumError (the directory belongs to another quorum or to a later Kafka, or is damaged), and as open_log.
    """
    flushed_offset = FlushedOffset(disk, f"{METADATA_DIRECTORY}/{FLUSHED_OFFSET}")
    damaged = set_damaged_aside(disk)
    if damaged is not None:
        health.found(damaged, "damaged: the log that the snapshot was to replace is used instead")
    finish_replacing(disk, flushed_offset)
    is_rewritten = disk.exists(FLUSH_FAILED_MARK)
    log = open_log(disk, settings, health, flushed_offset.read(), now_ms=now_ms, is_rewritten=is_rewritten)
    try:
        loaded, replay = fold_log(fold, disk, log)
        saved = read_quorum_state(disk, QUORUM_STATE)
        voters = _voters_in(loaded, replay, configured)
        # an observer decides nothing by its log, and the others may have lowered the level since: they report first
        if METADATA_VERSION in fold.image.features and voters.may_stand(sender.node, 0):
            # nothing is written yet: the directory stays as its Kafka left it
            check_levels(fold.image.features, log, loaded)
        check_voters(saved, voters, sender.node, is_alone=settings.is_alone)
    except BaseException:
        log.release()
        raise
    return StoredQuorum(log, flushed_offset, voters, saved, loaded.damaged, log.size_bytes - replay.bytes_read)


def _voters_in(loaded: LoadedSnapshot, replay: LogReplay, configured: VoterHistory) -> VoterHistory:
    """The voters of snapshot and log, else the configured ones."""
    control = loaded.snapshot.control if loaded.snapshot.control.voters is not None else replay.control
    if control.voters is None:
        return configured
    voters = VoterHistory(VoterSet(control.voters.voters), control.kraft_version, loaded.end_offset - 1)
    voters.append(replay.voter_sets)
    return voters


def new_quorum(
    stored: StoredQuorum,
    disk: Disk,
    settings: BrokerSettings,
    random: Random,
    sender: Sender,
    bootstrap_ids: tuple[int, ...],
    current_log: Callable[[], Log],
) -> Quorum:
    """The step machine of this node. `current_log` is a function, because a snapshot may replace the log."""
    snapshots, log = found_snapshots(disk), stored.log
    own_log = OwnLog(
        stored.voters,
        lambda epoch: current_log().end_offset_for_epoch(epoch),
        log_end_offset=log.log_end_offset,
        latest_epoch=log.leader_epochs.latest_epoch,
        snapshot=snapshots[-1] if snapshots else NO_SNAPSHOT,
        oldest=oldest_needed(snapshots, log.log_start_offset),
    )
    timeouts = QuorumSettings(
        settings.controller_quorum_election_timeout_ms,
        settings.controller_quorum_fetch_timeout_ms,
        settings.controller_quorum_retry_backoff_ms,
    )
    joins = settings.is_controller and settings.controller_quorum_auto_join_enable
    membership = Membership(_own_voter(sender), joins)
    return Quorum(sender.node, stored.saved, own_log, timeouts, random, bootstrap_ids, membership)


def _own_voter(sender: Sender) -> VotersRecordVoter:
    """This node in the format of a voters record."""
    levels = next(each for each in SUPPORTED_FEATURES if each.name == KRAFT_VERSION)
    points = tuple(Endpoint(each.name, each.host, each.port) for each in sender.listeners)
    feature = KRaftVersionFeature(levels.min_level, levels.max_level)
    return VotersRecordVoter(sender.node.node_id, sender.node.directory_id, points, feature)
