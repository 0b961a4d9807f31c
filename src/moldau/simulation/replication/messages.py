"""Messages between hosts, with the fields of Kafka's requests that replication depends on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.steps import ProposeIsr
from moldau.types import Buffer


class Register(msgspec.Struct, frozen=True):
    """BrokerRegistration. `previous_epoch`: the broker epoch of the last clean stop (KIP-966), otherwise -1."""

    broker_id: int
    incarnation: int
    previous_epoch: int


class Heartbeat(msgspec.Struct, frozen=True):
    """BrokerHeartbeat. Its response includes the metadata."""

    broker_id: int
    broker_epoch: int


class Metadata(msgspec.Struct, frozen=True):
    """The decisions of the controller so far. `version` increases with each change. `broker_epoch`: that of the
    requesting broker."""

    version: int
    broker_epoch: int
    partition: PartitionImage
    broker_epochs: Mapping[int, int]


class AlterPartition(msgspec.Struct, frozen=True):
    broker_id: int
    broker_epoch: int
    proposal: ProposeIsr


class AlterPartitionAnswer(msgspec.Struct, frozen=True):
    partition: PartitionImage | None = None
    error: str = ""


class Fetch(msgspec.Struct, frozen=True):
    """The Fetch of a follower."""

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int


class FetchAnswer(msgspec.Struct, frozen=True):
    error: str = ""
    high_watermark: int = -1
    records: Buffer = b""
    diverging: tuple[int, int] | None = None


class Consume(msgspec.Struct, frozen=True):
    """The Fetch of a consumer."""

    offset: int
    leader_epoch: int


class ConsumeAnswer(msgspec.Struct, frozen=True):
    """`leader_id` and `leader_epoch`: as far as this broker knows."""

    error: str
    leader_id: int
    leader_epoch: int
    high_watermark: int = -1
    records: Buffer = b""


class EpochEnd(msgspec.Struct, frozen=True):
    """OffsetForLeaderEpoch to the leader about its own epoch."""

    leader_epoch: int


class EpochEndAnswer(msgspec.Struct, frozen=True):
    error: str
    leader_epoch: int = -1
    end_offset: int = -1


class Produce(msgspec.Struct, frozen=True):
    acks: int
    records: bytes


class ProduceAnswer(msgspec.Struct, frozen=True):
    """`base_offset` is -1 with an error."""

    error: str
    leader_id: int
    base_offset: int = -1
