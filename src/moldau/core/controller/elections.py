"""Who leads a partition and who is in sync when brokers come and go, with eligible leader replicas (KIP-966).

Below `min.insync.replicas` the high watermark stands still, so a replica that leaves the in-sync set then still has
everything: it stays *eligible*. Without in-sync and eligible replicas the last known leader is remembered, and takes
over when it returns; records may be missing then, which `leader_recovery_state` says.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.metadata.fold import LEADER_UNCHANGED
from moldau.core.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from moldau.types import Uuid
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord


def change_in_sync(
    topic_id: Uuid,
    partition_id: int,
    old: PartitionImage,
    *,
    target_isr: tuple[int, ...],
    is_active: Callable[[int], bool],
    min_insync_replicas: int,
    has_elr: bool,
    lost_replicas: tuple[int, ...] = (),
) -> PartitionChangeRecord | None:
    """The record that makes `target_isr` the in-sync replicas and elects a leader if one is needed; None if nothing is.

    `lost_replicas` stopped uncleanly: what they had may be gone, so they are not eligible. Without ELR the in-sync
    replicas never become empty: the last ones stay, without a leader.
    """
    elr, last_known = _eligible(old, target_isr, min_insync_replicas, lost_replicas) if has_elr else ((), ())
    if not target_isr and not has_elr:
        target_isr = old.isr
    leader, is_unclean = _elect(old, target_isr, elr, is_active)
    if leader != NO_LEADER and leader not in target_isr:
        target_isr = (leader,)
        elr, last_known = _eligible(old, target_isr, min_insync_replicas, lost_replicas)
    if leader == NO_LEADER and not target_isr:
        # of several last known eligible replicas only the leader is remembered
        last_known = old.last_known_elr if old.leader == NO_LEADER else (old.leader,)
    elif leader != NO_LEADER:
        last_known = ()
    record = PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=target_isr if target_isr != old.isr else None,
        leader=leader if leader != old.leader else LEADER_UNCHANGED,
        leader_recovery_state=LeaderRecoveryState.RECOVERING if is_unclean else -1,
        eligible_leader_replicas=elr if elr != old.eligible_leader_replicas else None,
        last_known_elr=last_known if last_known != old.last_known_elr else None,
    )
    return None if record == PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id) else record


def _eligible(
    old: PartitionImage, target_isr: tuple[int, ...], min_insync_replicas: int, lost_replicas: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(eligible leader replicas, last known ones) beside `target_isr`, each sorted."""
    if len(target_isr) >= min(min_insync_replicas, len(old.replicas)):
        return (), ()
    candidates = sorted({*old.eligible_leader_replicas, *old.isr})
    elr = tuple(replica for replica in candidates if replica not in target_isr and replica not in lost_replicas)
    known = sorted({*candidates, *old.last_known_elr})
    return elr, tuple(replica for replica in known if replica not in target_isr and replica not in elr)


def _elect(
    old: PartitionImage,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    is_active: Callable[[int], bool],
) -> tuple[int, bool]:
    """(leader, was it unclean): the old leader if it may stay, else the first replica that may lead."""
    if old.leader in isr and is_active(old.leader):
        return old.leader, False
    for allowed in (isr, elr):
        for replica in old.replicas:
            if replica in allowed and is_active(replica):
                return replica, False
    if not isr and not elr and len(old.last_known_elr) == 1 and is_active(old.last_known_elr[0]):
        return old.last_known_elr[0], True
    return NO_LEADER, False
