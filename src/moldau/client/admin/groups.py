"""Consumer groups: members, committed offsets, and changes to both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.client.blocking.connection import ClientConnection
from moldau.client.blocking.offsets import commit_offsets, committed_offsets
from moldau.client.protocol.offsets import CommittedOffset, by_topic
from moldau.errors import ERROR_CODES, KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.consumer_protocol import assigned_partitions
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)

CONSUMER_PROTOCOL_TYPE = "consumer"
DEAD, EMPTY = "Dead", "Empty"
GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]
UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]


class GroupMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Sorted."""


class GroupDescription(msgspec.Struct, frozen=True):
    group_id: str
    state: str
    assignor: str
    coordinator: str
    """`host:port`."""
    coordinator_id: int
    members: tuple[GroupMember, ...]


def list_groups(
    admin: ClusterAdmin,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    only_consumers: bool = True,
    broker_ids: Iterable[int] | None = None,
) -> list[ListedGroup]:
    """The groups of all brokers, or of `broker_ids`, sorted by name. `only_consumers`: only groups of consumers, and
    groups without members that only commit offsets."""
    found: list[ListedGroup] = []
    for broker_id in admin.cluster().broker_ids() if broker_ids is None else broker_ids:
        request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        response = admin.ask_coordinators_of(broker_id, request)
        if response.error_code:
            raise error_of(response.error_code)
        found.extend(response.groups)
    kept = [row for row in found if not only_consumers or row.protocol_type in ("", CONSUMER_PROTOCOL_TYPE)]
    return sorted(kept, key=lambda row: row.group_id)


def describe_group(admin: ClusterAdmin, group_id: str) -> GroupDescription:
    """State, members and coordinator of a group. Raises GROUP_ID_NOT_FOUND for an unknown group."""
    return admin.retry(lambda: _describe_once(admin, group_id))


def _describe_once(admin: ClusterAdmin, group_id: str) -> GroupDescription:
    node_id, connection = admin.coordinator(group_id)
    response = connection.request(DescribeGroupsRequest(groups=(group_id,)))
    row = response.groups[0]
    # before v6 a missing or non-classic group was described as dead (KIP-1043)
    code = row.error_code or (GROUP_ID_NOT_FOUND if row.group_state == DEAD else 0)
    if code == GROUP_ID_NOT_FOUND:
        described = _describe_consumer_group(connection, group_id, node_id)
        if described is None:
            raise error_of(code, row.error_message or f"Group {group_id} not found.")
        return described
    if code:
        raise error_of(code, row.error_message)
    return GroupDescription(group_id, row.group_state, row.protocol_data, str(connection), node_id, _members(row))


def state_of(admin: ClusterAdmin, group_id: str) -> str:
    """The state of a group; DEAD for an unknown group."""
    try:
        return describe_group(admin, group_id).state
    except KafkaError as error:
        if error.name != "GROUP_ID_NOT_FOUND":
            raise
        return DEAD


def _describe_consumer_group(connection: ClientConnection, group_id: str, node_id: int) -> GroupDescription | None:
    """Describes a group of the consumer protocol (KIP-848), in which the broker makes the assignment. None for any
    other group."""
    from moldau.wire.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest

    try:
        response = connection.request(ConsumerGroupDescribeRequest(group_ids=(group_id,)))
    except KafkaError as error:
        if error.code != UNSUPPORTED_VERSION:
            raise
        return None
    row = response.groups[0]
    if row.error_code in (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
        return None
    if row.error_code:
        raise error_of(row.error_code, row.error_message)
    members = tuple(
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, index)
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                )
            ),
        )
        for member in row.members
    )
    return GroupDescription(group_id, row.group_state, row.assignor_name, str(connection), node_id, members)


def _members(row: DescribedGroup) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            assigned_partitions(member.member_assignment) if row.protocol_type == CONSUMER_PROTOCOL_TYPE else (),
        )
        for member in row.members
    )


def read_committed(admin: ClusterAdmin, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group, sorted by partition."""
    admin.client.any_connection()
    found = committed_offsets(admin.client, group_id)
    return {partition: found[partition] for partition in sorted(found)}


def commit(admin: ClusterAdmin, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Sets committed offsets of a group without members."""
    commit_offsets(admin.client, group_id, offsets)


def delete_group(admin: ClusterAdmin, group_id: str) -> None:
    """Deletes a group and its offsets. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ..."""
    request = DeleteGroupsRequest(groups_names=(group_id,))
    response = admin.ask_coordinator(group_id, request)
    for row in response.results:
        if row.error_code:
            raise error_of(row.error_code)


def delete_offsets(
    admin: ClusterAdmin, group_id: str, partitions: Iterable[TopicPartition]
) -> tuple[KafkaError | None, dict[TopicPartition, KafkaError | None]]:
    """Deletes the committed offsets of these partitions. Returns the error of the whole request, and that of each
    partition. An error of the whole request is also that of each partition."""
    listed = sorted(partitions)
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=row.partition) for row in rows)
        )
        for topic, rows in by_topic(listed).items()
    )
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    response = admin.ask_coordinator(group_id, request)
    if response.error_code:
        error = error_of(response.error_code)
        return error, dict.fromkeys(listed, error)
    return None, {
        TopicPartition(topic.name, row.partition_index): error_of(row.error_code) if row.error_code else None
        for topic in response.topics
        for row in topic.partitions
    }
