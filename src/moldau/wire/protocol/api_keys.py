"""The requests of the protocol by key, and for those that are served: versions, classes, header versions.

Adding an API is a declaration in `messages/` and a row in `API_VERSIONS`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from moldau.errors import ERROR_CODES, ProtocolError
from moldau.wire.protocol.messages import (
    api_versions,
    coordinators,
    fetch,
    groups_classic,
    list_offsets,
    metadata,
    offsets,
    produce,
    producer_ids,
    topics,
)


class ApiKey(IntEnum):
    """Every key that Apache Kafka 4.3 knows, served here or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiVersionRange(msgspec.Struct, frozen=True):
    """One served API: its versions (inclusive), the first flexible one, and its two classes.

    `advertised_min_version` is what ApiVersions tells; requests below `min_version` close the connection all the same.
    """

    min_version: int
    max_version: int
    flexible_from: int
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    advertised_min_version: int


def _api(
    min_version: int,
    max_version: int,
    flexible_from: int,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    *,
    advertised_min_version: int | None = None,
) -> ApiVersionRange:
    advertised = min_version if advertised_min_version is None else advertised_min_version
    return ApiVersionRange(min_version, max_version, flexible_from, request, response, advertised)


API_VERSIONS: Final[dict[ApiKey, ApiVersionRange]] = {
    # KAFKA-18659: librdkafka before 2.8 turns compression off unless Produce 0 is advertised
    ApiKey.PRODUCE: _api(3, 13, 9, produce.ProduceRequest, produce.ProduceResponse, advertised_min_version=0),
    ApiKey.FETCH: _api(4, 18, 12, fetch.FetchRequest, fetch.FetchResponse),
    ApiKey.LIST_OFFSETS: _api(1, 11, 6, list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    ApiKey.METADATA: _api(0, 13, 9, metadata.MetadataRequest, metadata.MetadataResponse),
    ApiKey.OFFSET_COMMIT: _api(2, 10, 8, offsets.OffsetCommitRequest, offsets.OffsetCommitResponse),
    ApiKey.OFFSET_FETCH: _api(1, 10, 6, offsets.OffsetFetchRequest, offsets.OffsetFetchResponse),
    ApiKey.FIND_COORDINATOR: _api(0, 6, 3, coordinators.FindCoordinatorRequest, coordinators.FindCoordinatorResponse),
    ApiKey.JOIN_GROUP: _api(0, 9, 6, groups_classic.JoinGroupRequest, groups_classic.JoinGroupResponse),
    ApiKey.HEARTBEAT: _api(0, 4, 4, groups_classic.HeartbeatRequest, groups_classic.HeartbeatResponse),
    ApiKey.LEAVE_GROUP: _api(0, 5, 4, groups_classic.LeaveGroupRequest, groups_classic.LeaveGroupResponse),
    ApiKey.SYNC_GROUP: _api(0, 5, 4, groups_classic.SyncGroupRequest, groups_classic.SyncGroupResponse),
    ApiKey.DESCRIBE_GROUPS: _api(0, 6, 5, groups_classic.DescribeGroupsRequest, groups_classic.DescribeGroupsResponse),
    ApiKey.LIST_GROUPS: _api(0, 5, 3, groups_classic.ListGroupsRequest, groups_classic.ListGroupsResponse),
    ApiKey.API_VERSIONS: _api(0, 4, 3, api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    ApiKey.CREATE_TOPICS: _api(2, 7, 5, topics.CreateTopicsRequest, topics.CreateTopicsResponse),
    ApiKey.DELETE_TOPICS: _api(1, 6, 4, topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
    ApiKey.INIT_PRODUCER_ID: _api(0, 5, 2, producer_ids.InitProducerIdRequest, producer_ids.InitProducerIdResponse),
}
"""In the order of their keys, which is the order in which ApiVersions tells them."""

_ROWS: Final[dict[int, ApiVersionRange]] = {int(key): row for key, row in API_VERSIONS.items()}


def request_header_version(api_key: int, version: int) -> int:
    """2 where the request is flexible, else 1. An ApiVersions request above v2 is flexible even where v(n) is unknown.

    Raises ProtocolError for a key that is not served.
    """
    return 2 if version >= _served(api_key).flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """1 where the response is flexible, else 0; always 0 for ApiVersions (KIP-511). Raises as above."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= _served(api_key).flexible_from else 0


def _served(api_key: int) -> ApiVersionRange:
    row = _ROWS.get(api_key)
    if row is None:
        raise ProtocolError(f"api key {api_key} is not served")
    return row


def is_unknown_api_versions(api_key: int, version: int) -> bool:
    """True for an ApiVersions request of an unknown version, which gets `unknown_api_versions_response`."""
    return api_key == ApiKey.API_VERSIONS and not 0 <= version <= API_VERSIONS[ApiKey.API_VERSIONS].max_version


def unknown_api_versions_response() -> api_versions.ApiVersionsResponse:
    """The answer, to be encoded as v0, to an ApiVersions request of an unknown version: what to ask (KIP-511)."""
    row = API_VERSIONS[ApiKey.API_VERSIONS]
    known = api_versions.ApiVersion(ApiKey.API_VERSIONS, row.min_version, row.max_version)
    return api_versions.ApiVersionsResponse(error_code=ERROR_CODES["UNSUPPORTED_VERSION"], api_keys=(known,))
