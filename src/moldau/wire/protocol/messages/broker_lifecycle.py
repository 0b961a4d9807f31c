"""Registrations and heartbeats of brokers and controllers (KIP-631, 841, 858, 866, 919, 1066).

Between nodes only, on the controller's listener. Within one process these messages are arguments of calls.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Int64, Request, Uint16, message, wire


class RegisteredListener(msgspec.Struct, frozen=True):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class RegisteredFeature(msgspec.Struct, frozen=True):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"], frozen=True):
    """v1 a broker that leaves ZooKeeper; v2 its log directories (KIP-858); v3 the epoch of its last clean stop, -1
    without one (KIP-966); v4 features whose lowest level is 0."""

    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: tuple[RegisteredListener, ...] = ()
    features: tuple[RegisteredFeature, ...] = ()
    rack: Annotated[str | None, wire(nullable="0+")] = ""
    is_migrating_zk_broker: Annotated[bool, wire("1+")] = False
    log_dirs: Annotated[tuple[Uuid, ...], wire("2+", ignorable=True)] = ()
    previous_broker_epoch: Annotated[Int64, wire("3+", ignorable=True)] = -1


@message(versions="0-4", flexible="0+")
class BrokerRegistrationResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1


@message(versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"], frozen=True):
    """v1 log directories that failed (KIP-858); v2 those that take no new replicas (KIP-1066)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Annotated[tuple[Uuid, ...], wire("1+", tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, wire("2+", tag=1, nullable="2+")] = None


@message(versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class AssignedPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0


class AssignedTopic(msgspec.Struct, frozen=True):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AssignedPartition, ...] = ()


class AssignedDirectory(msgspec.Struct, frozen=True):
    id: Uuid = ZERO_UUID
    topics: tuple[AssignedTopic, ...] = ()


@message(versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"], frozen=True):
    """The log directory of each replica of the broker (KIP-858)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: tuple[AssignedDirectory, ...] = ()


class AssignmentPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AssignmentTopic(msgspec.Struct, frozen=True):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AssignmentPartition, ...] = ()


class AssignmentDirectory(msgspec.Struct, frozen=True):
    id: Uuid = ZERO_UUID
    topics: tuple[AssignmentTopic, ...] = ()


@message(versions="0", flexible="0+")
class AssignReplicasToDirsResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: tuple[AssignmentDirectory, ...] = ()


@message(versions="0", flexible="0+")
class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"], frozen=True):
    """The features and listeners of a controller (KIP-919)."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: tuple[RegisteredListener, ...] = ()
    features: tuple[RegisteredFeature, ...] = ()


@message(versions="0", flexible="0+")
class ControllerRegistrationResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
