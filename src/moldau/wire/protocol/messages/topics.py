"""CreateTopics and DeleteTopics (KIP-4, 516)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


class CreatableReplicaAssignment(msgspec.Struct, frozen=True):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreatableTopicConfig(msgspec.Struct, frozen=True):
    name: str = ""
    value: Annotated[str | None, wire(nullable="0+")] = ""


class CreatableTopic(msgspec.Struct, frozen=True):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message(versions="2-7", flexible="5+")
class CreateTopicsRequest(Request["CreateTopicsResponse"], frozen=True):
    """Creates topics independently: one may fail and another succeed. `num_partitions` and `replication_factor` -1: the
    defaults.

    v2-4 counts are required or an assignment; v4 allows the defaults (KIP-464); v5 configs in the response (KIP-525);
    v6 a throttled response (KIP-599); v7 topic ids in the response (KIP-516).
    """

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatableTopicConfigs(msgspec.Struct, frozen=True):
    name: Annotated[str, wire("5+")] = ""
    value: Annotated[str | None, wire("5+", nullable="5+")] = ""
    read_only: Annotated[bool, wire("5+")] = False
    config_source: Annotated[Int8, wire("5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, wire("5+")] = False


class CreatableTopicResult(msgspec.Struct, frozen=True):
    name: str = ""
    topic_id: Annotated[Uuid, wire("7+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+")] = ""
    topic_config_error_code: Annotated[Int16, wire("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, wire("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, wire("5+", ignorable=True)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, wire("5+", nullable="5+", ignorable=True)] = ()


@message(versions="2-7", flexible="5+")
class CreateTopicsResponse(msgspec.Struct, frozen=True):
    """v5 the topic's counts and configs, unless the principal may not see them (KIP-525); v7 topic id."""

    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...] = ()


class DeleteTopicState(msgspec.Struct, frozen=True):
    name: Annotated[str | None, wire("6+", nullable="6+")] = None
    topic_id: Annotated[Uuid, wire("6+")] = ZERO_UUID


@message(versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"], frozen=True):
    """v1-5 names only; v5 a message in the response; v6 names or ids (KIP-516)."""

    topics: Annotated[tuple[DeleteTopicState, ...], wire("6+")] = ()
    topic_names: Annotated[tuple[str, ...], wire("0-5", ignorable=True)] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(msgspec.Struct, frozen=True):
    name: Annotated[str | None, wire(nullable="6+")] = ""
    topic_id: Annotated[Uuid, wire("6+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None


@message(versions="1-6", flexible="4+")
class DeleteTopicsResponse(msgspec.Struct, frozen=True):
    """v1 throttle time; v5 error message; v6 topic id, and a null name for an unknown one."""

    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...] = ()
