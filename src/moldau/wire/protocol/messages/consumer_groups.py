"""The group protocol of KIP-848, declared so that requests can be rejected."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class HeartbeatTopicPartitions(msgspec.Struct, frozen=True):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"], frozen=True):
    """`member_epoch`: 0 joins, -1 leaves, -2 leaves for a while. Null: unchanged."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: Annotated[str | None, wire(nullable="0+")] = None
    rack_id: Annotated[str | None, wire(nullable="0+")] = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Annotated[tuple[str, ...] | None, wire(nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, wire("1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, wire(nullable="0+")] = None
    topic_partitions: Annotated[tuple[HeartbeatTopicPartitions, ...] | None, wire(nullable="0+")] = None


class HeartbeatAssignment(msgspec.Struct, frozen=True):
    topic_partitions: tuple[HeartbeatTopicPartitions, ...] = ()


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    member_id: Annotated[str | None, wire(nullable="0+")] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[HeartbeatAssignment | None, wire(nullable="0+")] = None


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"], frozen=True):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class AssignedTopicPartitions(msgspec.Struct, frozen=True):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupAssignment(msgspec.Struct, frozen=True):
    topic_partitions: tuple[AssignedTopicPartitions, ...] = ()


class ConsumerGroupMember(msgspec.Struct, frozen=True):
    member_id: str = ""
    instance_id: Annotated[str | None, wire(nullable="0+")] = None
    rack_id: Annotated[str | None, wire(nullable="0+")] = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: Annotated[str | None, wire(nullable="0+")] = None
    assignment: ConsumerGroupAssignment = ConsumerGroupAssignment()
    target_assignment: ConsumerGroupAssignment = ConsumerGroupAssignment()
    member_type: Annotated[Int8, wire("1+", ignorable=True)] = -1


class DescribedConsumerGroup(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[ConsumerGroupMember, ...] = ()
    authorized_operations: Int32 = -2147483648


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedConsumerGroup, ...] = ()
