"""DescribeCluster, DescribeQuorum, UpdateFeatures, unregistration (KIP-584, 595, 631, 700, 836, 853, 919, 1073)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Int64, Request, Uint16, message, wire


@message(versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"], frozen=True):
    """v1 `endpoint_type`: 1 brokers, 2 controllers (KIP-919); v2 also fenced brokers (KIP-1073)."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, wire("1+")] = 1
    include_fenced_brokers: Annotated[bool, wire("2+")] = False


class DescribeClusterBroker(msgspec.Struct, frozen=True):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, wire(nullable="0+")] = None
    is_fenced: Annotated[bool, wire("2+")] = False


@message(versions="0-2", flexible="0+")
class DescribeClusterResponse(msgspec.Struct, frozen=True):
    """The live brokers and the controller, and the authorized operations as a bit field."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    endpoint_type: Annotated[Int8, wire("1+")] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2_147_483_648


class DescribeQuorumPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0


class DescribeQuorumTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[DescribeQuorumPartition, ...] = ()


@message(versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request["DescribeQuorumResponse"], frozen=True):
    """Only for `__cluster_metadata`."""

    topics: tuple[DescribeQuorumTopic, ...] = ()


class QuorumReplicaState(msgspec.Struct, frozen=True):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, wire("2+")] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, wire("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[Int64, wire("1+", ignorable=True)] = -1


class QuorumPartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire("2+", nullable="2+", ignorable=True)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[QuorumReplicaState, ...] = ()
    observers: tuple[QuorumReplicaState, ...] = ()


class QuorumTopic(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partitions: tuple[QuorumPartition, ...] = ()


class QuorumListener(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("2+")] = ""
    host: Annotated[str, wire("2+")] = ""
    port: Annotated[Uint16, wire("2+")] = 0


class QuorumNode(msgspec.Struct, frozen=True):
    node_id: Annotated[Int32, wire("2+")] = 0
    listeners: Annotated[tuple[QuorumListener, ...], wire("2+")] = ()


@message(versions="0-2", flexible="0+")
class DescribeQuorumResponse(msgspec.Struct, frozen=True):
    """v1 times of the last fetch and the last catch-up, ms since 1970 (KIP-836); v2 directory ids, nodes, messages
    (KIP-853)."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, wire("2+", nullable="2+", ignorable=True)] = ""
    topics: tuple[QuorumTopic, ...] = ()
    nodes: Annotated[tuple[QuorumNode, ...], wire("2+")] = ()


class FeatureUpdateKey(msgspec.Struct, frozen=True):
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[bool, wire("0")] = False
    upgrade_type: Annotated[Int8, wire("1+")] = 1


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], frozen=True):
    """v0 `allow_downgrade`; v1 `upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade, and validation only."""

    timeout_ms: Int32 = 60_000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[bool, wire("1+")] = False


class UpdatableFeatureResult(msgspec.Struct, frozen=True):
    feature: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0-2", flexible="0+")
class UpdateFeaturesResponse(msgspec.Struct, frozen=True):
    """v2 has no result for each feature: all of them change, or none."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    results: Annotated[tuple[UpdatableFeatureResult, ...], wire("0-1", ignorable=True)] = ()


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], frozen=True):
    """Removes the registration of a stopped broker."""

    broker_id: Int32 = 0


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse(msgspec.Struct, frozen=True):
    """Error 102 for an unknown broker."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


@message(versions="0", flexible="0+")
class UnregisterControllerRequest(Request["UnregisterControllerResponse"], frozen=True):
    """Removes the registration of a stopped controller."""

    controller_id: Int32 = 0


@message(versions="0", flexible="0+")
class UnregisterControllerResponse(msgspec.Struct, frozen=True):
    """`error_message`: the reason of a rejection."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
