"""All records of `__cluster_metadata` (KIP-631 and later).

Their frame (version, api key, body) is in `record_codec`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Uint16, message, wire


@message(versions="0", flexible="0+", api_key=2)
class TopicRecord(msgspec.Struct, frozen=True):
    """A new topic."""

    name: str = ""
    topic_id: Uuid = ZERO_UUID


@message(versions="0-2", flexible="0+", api_key=3)
class PartitionRecord(msgspec.Struct, frozen=True):
    """A whole partition. v1 log directories (KIP-858); v2 eligible leader replicas (KIP-966)."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: tuple[Int32, ...] = ()
    isr: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, wire(tag=0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[tuple[Uuid, ...], wire("1+")] = ()
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, wire("2+", nullable="2+", tag=1)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, wire("2+", nullable="2+", tag=2)] = None


@message(versions="0", flexible="0+", api_key=4)
class ConfigRecord(msgspec.Struct, frozen=True):
    """A setting of a resource (2 topic, 4 broker); a null value removes it."""

    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""
    value: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0-2", flexible="0+", api_key=5)
class PartitionChangeRecord(msgspec.Struct, frozen=True):
    """A change of a partition. Null, or -2 for the leader: unchanged. v1 directories; v2 ELR."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Annotated[tuple[Int32, ...] | None, wire(nullable="0+", tag=0)] = None
    leader: Annotated[Int32, wire(tag=1)] = -2
    replicas: Annotated[tuple[Int32, ...] | None, wire(nullable="0+", tag=2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, wire(nullable="0+", tag=3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, wire(nullable="0+", tag=4)] = None
    leader_recovery_state: Annotated[Int8, wire(tag=5)] = -1
    directories: Annotated[tuple[Uuid, ...] | None, wire("1+", nullable="1+", tag=8)] = None
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, wire("2+", nullable="2+", tag=6)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, wire("2+", nullable="2+", tag=7)] = None


@message(versions="0", flexible="0+", api_key=9)
class RemoveTopicRecord(msgspec.Struct, frozen=True):
    """The removal of a topic and its partitions."""

    topic_id: Uuid = ZERO_UUID


@message(versions="0", flexible="0+", api_key=12)
class FeatureLevelRecord(msgspec.Struct, frozen=True):
    """The finalized level of a feature, also `metadata.version`; 0 removes it (KIP-584)."""

    name: str = ""
    feature_level: Int16 = 0


class BrokerEndpoint(msgspec.Struct, frozen=True):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(msgspec.Struct, frozen=True):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions="0-4", flexible="0+", api_key=0)
class RegisterBrokerRecord(msgspec.Struct, frozen=True):
    """A broker registered. v1 fencing and shutdown separate; v2 ZooKeeper migration; v3 log directories; v4 cordoned
    ones (KIP-1066)."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[bool, wire("2+")] = False
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: Annotated[str | None, wire(nullable="0+")] = ""
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, wire("1+")] = False
    log_dirs: Annotated[tuple[Uuid, ...], wire("3+", tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, wire("4+", nullable="4+", tag=1)] = None


@message(versions="0", flexible="0+", api_key=1)
class UnregisterBrokerRecord(msgspec.Struct, frozen=True):
    """A broker was removed."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@message(versions="0", flexible="0+", api_key=7)
class FenceBrokerRecord(msgspec.Struct, frozen=True):
    """A broker was fenced (before the change record of v3.3)."""

    id: Int32 = 0
    epoch: Int64 = 0


@message(versions="0", flexible="0+", api_key=8)
class UnfenceBrokerRecord(msgspec.Struct, frozen=True):
    """A broker was unfenced (before the change record of v3.3)."""

    id: Int32 = 0
    epoch: Int64 = 0


@message(versions="0-3", flexible="0+", api_key=17)
class BrokerRegistrationChangeRecord(msgspec.Struct, frozen=True):
    """A change of a broker's registration. 0 or null: unchanged. v1 shutdown; v2 directories; v3 cordoned ones."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, wire(tag=0)] = 0
    in_controlled_shutdown: Annotated[Int8, wire("1+", tag=1)] = 0
    log_dirs: Annotated[tuple[Uuid, ...], wire("2+", tag=2)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, wire("3+", nullable="3+", tag=3)] = None


@message(versions="0", flexible="0+", api_key=15)
class ProducerIdsRecord(msgspec.Struct, frozen=True):
    """A broker got a block of producer ids. The next block begins at `next_producer_id` (KIP-730)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@message(versions="0", flexible="0+", api_key=18)
class AccessControlEntryRecord(msgspec.Struct, frozen=True):
    """A new ACL."""

    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions="0", flexible="0+", api_key=19)
class RemoveAccessControlEntryRecord(msgspec.Struct, frozen=True):
    """The removal of an ACL."""

    id: Uuid = ZERO_UUID


class EntityData(msgspec.Struct, frozen=True):
    entity_type: str = ""
    entity_name: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0", flexible="0+", api_key=14)
class ClientQuotaRecord(msgspec.Struct, frozen=True):
    """A client quota was set or removed (KIP-546)."""

    entity: tuple[EntityData, ...] = ()
    key: str = ""
    value: float = 0.0
    remove: bool = False


@message(versions="0", flexible="0+", api_key=10)
class DelegationTokenRecord(msgspec.Struct, frozen=True):
    """A new or renewed delegation token (KIP-900)."""

    owner: str = ""
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


@message(versions="0", flexible="0+", api_key=26)
class RemoveDelegationTokenRecord(msgspec.Struct, frozen=True):
    """The removal of a delegation token."""

    token_id: str = ""


@message(versions="0", flexible="0+", api_key=11)
class UserScramCredentialRecord(msgspec.Struct, frozen=True):
    """A user's SCRAM credential (KIP-900)."""

    name: str = ""
    mechanism: Int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


@message(versions="0", flexible="0+", api_key=22)
class RemoveUserScramCredentialRecord(msgspec.Struct, frozen=True):
    """The removal of a user's SCRAM credential."""

    name: str = ""
    mechanism: Int8 = 0


@message(versions="0", flexible="0+", api_key=20)
class NoOpRecord(msgspec.Struct, frozen=True):
    """No change. It moves the high watermark of an idle quorum (KIP-835)."""


@message(versions="0", flexible="0+", api_key=21)
class ZkMigrationStateRecord(msgspec.Struct, frozen=True):
    """The state of the migration from ZooKeeper (KIP-866). Every new log has it, with "none"."""

    zk_migration_state: Int8 = 0


class ControllerEndpoint(msgspec.Struct, frozen=True):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(msgspec.Struct, frozen=True):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions="0", flexible="0+", api_key=27)
class RegisterControllerRecord(msgspec.Struct, frozen=True):
    """A controller registered (KIP-919)."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: tuple[ControllerEndpoint, ...] = ()
    features: tuple[ControllerFeature, ...] = ()


@message(versions="0", flexible="0+", api_key=29)
class UnregisterControllerRecord(msgspec.Struct, frozen=True):
    """A controller was removed (from `metadata.version` 33 on)."""

    controller_id: Int32 = 0


@message(versions="0", flexible="0+", api_key=23)
class BeginTransactionRecord(msgspec.Struct, frozen=True):
    """The records after it take effect with the EndTransactionRecord (KIP-868)."""

    name: Annotated[str | None, wire(nullable="0+", tag=0)] = None


@message(versions="0", flexible="0+", api_key=24)
class EndTransactionRecord(msgspec.Struct, frozen=True):
    """The records since the BeginTransactionRecord take effect."""


@message(versions="0", flexible="0+", api_key=25)
class AbortTransactionRecord(msgspec.Struct, frozen=True):
    """The records since the BeginTransactionRecord are dropped."""

    reason: Annotated[str | None, wire(nullable="0+", tag=0)] = None


@message(versions="0", flexible="0+", api_key=28)
class ClearElrRecord(msgspec.Struct, frozen=True):
    """Empties the eligible leader replicas of a topic, or of all (KIP-966)."""

    topic_name: str = ""
