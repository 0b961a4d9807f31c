"""Leader elections and ISR changes when brokers come and go, with eligible leader replicas (KIP-966).

Below `min.insync.replicas` the high watermark does not move, so a replica that leaves the ISR then still has
everything: it stays *eligible*. Without in-sync and eligible replicas the last known leader is remembered and leads
when it returns. Records may be missing then, and `leader_recovery_state` says so.

A reassignment ends here too, with the change that has all new replicas in sync (KIP-455).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from moldau.core.metadata.fold import LEADER_UNCHANGED
from moldau.core.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from moldau.types import Uuid
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord

UNCHANGED: Final = -1
"""A leader recovery state that a record does not change."""


class ElectionRules(msgspec.Struct, frozen=True):
    """The settings that an election obeys. `has_elr`: the cluster has eligible leader replicas."""

    min_insync_replicas: int
    has_elr: bool
    allows_unclean: bool = False


def change_in_sync(
    topic_id: Uuid,
    partition_id: int,
    old: PartitionImage,
    rules: ElectionRules,
    *,
    target_isr: tuple[int, ...],
    is_active: Callable[[int], bool],
    lost_replicas: tuple[int, ...] = (),
    recovery_state: int = UNCHANGED,
) -> PartitionChangeRecord | None:
    """The record that makes `target_isr` the in-sync replicas and elects a leader if one is needed. None: no change.

    `lost_replicas` stopped uncleanly. They may have lost records, so they are not eligible. Without ELR the last
    in-sync replicas stay in sync, without a leader. `recovery_state`: the state that the leader reports.
    """
    completed = _completed(old, target_isr)
    replicas, isr = (old.replicas, target_isr) if completed is None else completed
    minimum = min(rules.min_insync_replicas, len(replicas))
    elr, last_known = _eligible(old, replicas, isr, minimum, lost_replicas) if rules.has_elr else ((), ())
    if not isr and not rules.has_elr:
        isr = old.isr
    leader, is_unclean = _elect(old, replicas, isr, elr, is_active, allows_unclean=rules.allows_unclean)
    if leader != NO_LEADER and leader not in isr:
        isr = (leader,)
        elr, last_known = ((), ()) if is_unclean else _eligible(old, replicas, isr, minimum, lost_replicas)
    if leader == NO_LEADER and not isr:
        # Only the last leader is remembered as last known eligible. Without a leader it is the last in-sync replica,
        # because no other can be ahead of it. Kafka remembers none then, and the partition waits for an operator.
        last_in_sync = old.isr if len(old.isr) == 1 else ()
        last_known = (old.leader,) if old.leader != NO_LEADER else old.last_known_elr or last_in_sync
    elif leader != NO_LEADER:
        last_known = ()
    if is_unclean:
        recovery_state = LeaderRecoveryState.RECOVERING
    elif recovery_state == old.leader_recovery_state:
        recovery_state = UNCHANGED
    # naming the leader begins a new epoch: a removed replica must not continue in the old one
    is_new_epoch = leader != old.leader or len(replicas) < len(old.replicas)
    record = PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=isr if isr != old.isr else None,
        leader=leader if is_new_epoch else LEADER_UNCHANGED,
        leader_recovery_state=recovery_state,
        eligible_leader_replicas=elr if elr != old.eligible_leader_replicas else None,
        last_known_elr=last_known if last_known != old.last_known_elr else None,
    )
    if completed is not None:
        record = _ending_reassignment(record, old, replicas)
    return None if record == PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id) else record


def is_moving(partition: PartitionImage) -> bool:
    """Whether a reassignment of the partition is in progress."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _completed(old: PartitionImage, isr: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(replicas, in-sync replicas) after the reassignment in progress if `isr` completes it, else None. All added
    replicas must be in sync. If fewer are added than removed, all remaining ones must be."""
    if not is_moving(old):
        return None
    adding, removing = old.adding_replicas, old.removing_replicas
    replicas = tuple(replica for replica in old.replicas if replica not in removing)
    left = tuple(replica for replica in isr if replica not in removing)
    needed = replicas if len(adding) < len(removing) else adding
    return (replicas, left) if left and all(replica in left for replica in needed) else None


def _ending_reassignment(
    record: PartitionChangeRecord, old: PartitionImage, replicas: tuple[int, ...]
) -> PartitionChangeRecord:
    """`record`, which also removes the replicas that the reassignment removes."""
    known = dict(zip(old.replicas, old.directories, strict=False))
    has_fewer = replicas != old.replicas
    return msgspec.structs.replace(
        record,
        replicas=replicas if has_fewer else None,
        removing_replicas=() if old.removing_replicas else None,
        adding_replicas=() if old.adding_replicas else None,
        directories=tuple(known[replica] for replica in replicas) if has_fewer and known else None,
    )


def _eligible(
    old: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    minimum: int,
    lost_replicas: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(eligible leader replicas, last known ones) for `isr`, each sorted."""
    if len(isr) >= minimum:
        return (), ()
    candidates = sorted(
        replica for replica in {*old.eligible_leader_replicas, *old.isr} if replica in replicas and replica not in isr
    )
    elr = tuple(replica for replica in candidates if replica not in lost_replicas)
    known = sorted({*candidates, *old.last_known_elr})
    return elr, tuple(replica for replica in known if replica not in isr and replica not in elr)


def _elect(
    old: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    is_active: Callable[[int], bool],
    *,
    allows_unclean: bool,
) -> tuple[int, bool]:
    """(leader, whether the election is unclean). The old leader if it may stay, else the first that may lead."""
    if old.leader in isr and is_active(old.leader):
        return old.leader, False
    for allowed in (isr, elr):
        for replica in replicas:
            if replica in allowed and is_active(replica):
                return replica, False
    if not isr and not elr and len(old.last_known_elr) == 1 and is_active(old.last_known_elr[0]):
        return old.last_known_elr[0], True
    if allows_unclean:
        for replica in replicas:
            if is_active(replica):
                return replica, True
    return NO_LEADER, False
