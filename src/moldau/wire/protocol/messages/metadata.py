"""Metadata: brokers, topics and partition leaders (KIP-4, 516)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Request, message, wire


class MetadataRequestTopic(msgspec.Struct, frozen=True):
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, wire(nullable="10+")] = ""


@message(versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"], frozen=True):
    """Asks for topics by name or id. None (v0: an empty list): all topics. From v1 an empty list: none.

    v4 may forbid automatic creation (KIP-204); v8 authorized operations (KIP-430, those of the cluster until v10); v10
    topic ids in the response, v12 in the request (KIP-516); v11 without the cluster's operations, see DescribeCluster
    (KIP-700); v13 changes the response only.
    """

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, wire(nullable="1+")] = ()
    allow_auto_topic_creation: Annotated[bool, wire("4+")] = True
    include_cluster_authorized_operations: Annotated[bool, wire("8-10")] = False
    include_topic_authorized_operations: Annotated[bool, wire("8+")] = False


class MetadataResponseBroker(msgspec.Struct, frozen=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, wire("1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, wire("7+", ignorable=True)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], wire("5+", ignorable=True)] = ()


class MetadataResponseTopic(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    name: Annotated[str | None, wire(nullable="12+")] = ""
    topic_id: Annotated[Uuid, wire("10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, wire("1+", ignorable=True)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, wire("8+")] = -2_147_483_648


@message(versions="0-13", flexible="9+")
class MetadataResponse(msgspec.Struct, frozen=True):
    """Brokers, controller and partitions with their leaders.

    v1 rack, controller, internal topics; v2 cluster id; v3 throttle time; v5 offline replicas (KIP-112); v7 leader
    epoch (KIP-320); v8 authorized operations (KIP-430); v10 topic ids; v12 null names for unknown ids; v13 a top-level
    error, which sends the client back to its bootstrap servers (KIP-1102).
    """

    throttle_time_ms: Annotated[Int32, wire("3+", ignorable=True)] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, wire("2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[Int32, wire("1+", ignorable=True)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, wire("8-10")] = -2_147_483_648
    error_code: Annotated[Int16, wire("13+", ignorable=True)] = 0
