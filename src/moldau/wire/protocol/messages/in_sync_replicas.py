"""AlterPartition: a leader proposes in-sync replicas, the controller decides (KIP-497, 704, 841, 903)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Request, message, wire


class BrokerState(msgspec.Struct, frozen=True):
    """A proposed in-sync replica. `broker_epoch` -1: not compared."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class ProposedPartition(msgspec.Struct, frozen=True):
    """`partition_epoch`: of the partition as the leader knows it."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[tuple[Int32, ...], wire("0-2")] = ()
    new_isr_with_epochs: Annotated[tuple[BrokerState, ...], wire("3+")] = ()
    leader_recovery_state: Annotated[Int8, wire("1+")] = 0
    partition_epoch: Int32 = 0


class ProposedTopic(msgspec.Struct, frozen=True):
    topic_id: Annotated[Uuid, wire("2+", ignorable=True)] = ZERO_UUID
    partitions: tuple[ProposedPartition, ...] = ()


@message(versions="2-3", flexible="0+")
class AlterPartitionRequest(Request["AlterPartitionResponse"], frozen=True):
    """Between nodes only, on the controller's listener. v2 topic ids (KIP-841), v3 broker epochs (KIP-903)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: tuple[ProposedTopic, ...] = ()


class AlteredPartition(msgspec.Struct, frozen=True):
    """The new partition, or the error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: tuple[Int32, ...] = ()
    leader_recovery_state: Annotated[Int8, wire("1+", ignorable=True)] = 0
    partition_epoch: Int32 = 0


class AlteredTopic(msgspec.Struct, frozen=True):
    topic_id: Annotated[Uuid, wire("2+", ignorable=True)] = ZERO_UUID
    partitions: tuple[AlteredPartition, ...] = ()


@message(versions="2-3", flexible="0+")
class AlterPartitionResponse(msgspec.Struct, frozen=True):
    """Versions as in the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: tuple[AlteredTopic, ...] = ()
