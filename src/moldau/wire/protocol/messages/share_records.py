"""The records of `__share_group_state` (KIP-932): the progress of a share group in a partition.

Moldau does not write them. The dump tools show those of Apache Kafka.

A key begins with two bytes that name its kind, a value with two bytes that are its version (`record_codec`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, message, wire


@message(versions="0", api_key=0)
class ShareSnapshotKey(msgspec.Struct, frozen=True):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@message(versions="0", api_key=1)
class ShareUpdateKey(msgspec.Struct, frozen=True):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class StateBatch(msgspec.Struct, frozen=True):
    """Offsets of one state; both ends are inclusive. `delivery_state`: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@message(versions="0", flexible="0+", api_key=0)
class ShareSnapshotValue(msgspec.Struct, frozen=True):
    """The whole state. Times in ms; `delivery_complete_count` since Kafka 4.2 (KIP-1226)."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, wire(tag=0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: tuple[StateBatch, ...] = ()


@message(versions="0", flexible="0+", api_key=1)
class ShareUpdateValue(msgspec.Struct, frozen=True):
    """Changes since the snapshot of this epoch. `start_offset` -1: unchanged."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, wire(tag=0)] = -1
    state_batches: tuple[StateBatch, ...] = ()
