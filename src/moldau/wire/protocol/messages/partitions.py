"""More partitions, their description, elections and reassignments (KIP-195, 455, 460, 860, 966)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class CreatePartitionsAssignment(msgspec.Struct, frozen=True):
    broker_ids: tuple[Int32, ...] = ()


class CreatePartitionsTopic(msgspec.Struct, frozen=True):
    name: str = ""
    count: Int32 = 0
    assignments: Annotated[tuple[CreatePartitionsAssignment, ...] | None, wire(nullable="0+")] = ()


@message(versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"], frozen=True):
    """`count` is the new total. v3 may get 89, throttled (KIP-599)."""

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsResponse(msgspec.Struct, frozen=True):
    """One result for each topic."""

    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class DescribeTopicPartitionsTopicRequest(msgspec.Struct, frozen=True):
    name: str = ""


class DescribeTopicPartitionsCursor(msgspec.Struct, frozen=True):
    topic_name: str = ""
    partition_index: Int32 = 0


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"], frozen=True):
    """A page of at most `response_partition_limit` partitions, from `cursor` on (KIP-966)."""

    topics: tuple[DescribeTopicPartitionsTopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Annotated[DescribeTopicPartitionsCursor | None, wire(nullable="0+")] = None


class DescribeTopicPartitionsResponsePartition(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, wire(nullable="0+")] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, wire(nullable="0+")] = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    name: Annotated[str | None, wire(nullable="0+")] = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -2_147_483_648


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(msgspec.Struct, frozen=True):
    """`next_cursor` None: no more partitions."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Annotated[DescribeTopicPartitionsCursor | None, wire(nullable="0+")] = None


class ElectionTopicPartitions(msgspec.Struct, frozen=True):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@message(versions="0-2", flexible="2+")
class ElectLeadersRequest(Request["ElectLeadersResponse"], frozen=True):
    """Null `topic_partitions`: all. v1 `election_type`: 0 preferred, 1 unclean (KIP-460)."""

    election_type: Annotated[Int8, wire("1+")] = 0
    topic_partitions: Annotated[tuple[ElectionTopicPartitions, ...] | None, wire(nullable="0+")] = ()
    timeout_ms: Int32 = 60_000


class ElectionPartitionResult(msgspec.Struct, frozen=True):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


class ReplicaElectionResult(msgspec.Struct, frozen=True):
    topic: str = ""
    partition_result: tuple[ElectionPartitionResult, ...] = ()


@message(versions="0-2", flexible="2+")
class ElectLeadersResponse(msgspec.Struct, frozen=True):
    """v1 a top-level error. Apache Kafka drops it in v0, and reports it for the partitions."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, wire("1+", ignorable=True)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


class ReassignablePartition(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    replicas: Annotated[tuple[Int32, ...] | None, wire(nullable="0+")] = None


class ReassignableTopic(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"], frozen=True):
    """Null `replicas`: cancel the reassignment. v1 may forbid another replication factor (KIP-860)."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[bool, wire("1+")] = True
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""


class ReassignableTopicResponse(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, wire("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


class ListPartitionReassignmentsTopics(msgspec.Struct, frozen=True):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"], frozen=True):
    """Null `topics`: all reassignments in progress."""

    timeout_ms: Int32 = 60_000
    topics: Annotated[tuple[ListPartitionReassignmentsTopics, ...] | None, wire(nullable="0+")] = None


class OngoingPartitionReassignment(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class OngoingTopicReassignment(msgspec.Struct, frozen=True):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """Only partitions with a reassignment in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
